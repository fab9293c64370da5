"""A model: its versions now, its releases, its features over time, traffic and latency, and what canaries agreed on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.decisions import freezes_of, muted_features
from tidegate_pipelines.hub.pages import charts
from tidegate_pipelines.hub.pages.queries.common import (
    LINE,
    Alert,
    Decision,
    ReleaseLine,
    Served,
    decision,
    decisions,
    marks,
    open_alerts,
    release_lines,
    served,
    worst,
)
from tidegate_pipelines.hub.pages.queries.told import Told, told_by_engines
from tidegate_pipelines.hub.pages.queries.traffic import Latency, TrafficCharts, latencies, traffic_charts
from tidegate_pipelines.hub.pages.viewer import Viewer
from tidegate_pipelines.hub.store import (
    DecisionRow,
    EngineRow,
    ModelRow,
    ReleaseEventRow,
    ReleaseRow,
    ServedVersionRow,
    SkewWindowRow,
)
from tidegate_serving.contract.errors import NotFound

RANGES = (7, 30, 90)
"""The days that charts may cover."""
_RELEASES = 20


@dataclass(frozen=True, slots=True)
class FeatureLine:
    """One feature: its latest window, blocks of equal state over time, and how many windows were not PASS."""

    name: str
    state: str
    effect: float | None
    cause: str
    runs: tuple[charts.Run, ...]
    windows: int
    uneasy: int

    @property
    def counted(self) -> str:
        """In words: `1 of 9 windows was not PASS`."""
        which = "window" if self.windows == 1 else f"{self.windows:,} windows"
        return f"{self.uneasy:,} of {which} {'was' if self.uneasy == 1 else 'were'} not PASS"


@dataclass(frozen=True, slots=True)
class CanaryLine:
    """What a canary's answers were compared in, against those of what served."""

    release_id: int
    version: int
    at: datetime
    outcome: str
    sentence: str
    compared: int
    agreed: float | None
    errors: int
    slow: int


@dataclass(frozen=True, slots=True)
class Model:
    """Everything on a model's page. `freezes` and `mutes` are those of the hub that last, by a pattern of names too;
    `told` is what else stands in engines, and `disabled` why some answer no request."""

    name: str
    team: str
    versions: tuple[Served, ...]
    away: Mapping[str, datetime]
    releases: tuple[ReleaseLine, ...]
    span: charts.Span
    days: int
    marks: tuple[charts.Mark, ...]
    features: tuple[FeatureLine, ...]
    skew: FeatureLine | None
    traffic: TrafficCharts | None
    latencies: Mapping[int, Latency]
    canaries: tuple[CanaryLine, ...]
    alerts: tuple[Alert, ...]
    decisions: tuple[Decision, ...]
    freezes: tuple[Decision, ...]
    mutes: tuple[Decision, ...]
    told: tuple[Told, ...]
    disabled: tuple[Told, ...]

    @property
    def blocked(self) -> frozenset[int]:
        """The versions that may not serve."""
        return frozenset(one.version for one in self.told if one.action == "block")

    @property
    def serving(self) -> Served | None:
        """What ordinary clients get."""
        return next((one for one in self.versions if one.ordinary), None)


def model(session: Session, viewer: Viewer, name: str, days: int, now: datetime) -> Model:
    """The page of a model. NotFound where there is none, or none that the viewer sees."""
    row = known_model(session, viewer, name)
    span = charts.Span.of_days(days, now, row.first_seen)
    lines = release_lines(
        session,
        select(*LINE).where(ReleaseRow.model == name).order_by(ReleaseRow.requested_at.desc()).limit(_RELEASES),
    )
    released = marks(session, name, span)
    whole, features = _features(session, name, span)
    away = select(EngineRow.name, EngineRow.since).where(EngineRow.state == "AWAY")
    told = told_by_engines(session, name)
    return Model(
        name=name,
        team=row.team,
        versions=served(session, ServedVersionRow.model == name),
        away={row.name: row.since for row in session.execute(away)},
        releases=lines,
        span=span,
        days=days,
        marks=released,
        features=features,
        skew=whole,
        traffic=traffic_charts(session, name, span.in_steps()),
        latencies=latencies(session, name, now),
        canaries=_canaries(session, lines),
        alerts=open_alerts(session, name),
        decisions=decisions(session, DecisionRow.model == name, most=20),
        freezes=tuple(map(decision, freezes_of(session, name, now))),
        mutes=tuple(map(decision, muted_features(session, name, now).values())),
        told=tuple(one for one in told if not one.disables),
        disabled=tuple(one for one in told if one.disables),
    )


def known_model(session: Session, viewer: Viewer, name: str) -> ModelRow:
    """The model's row. NotFound, also for one that the viewer may not see, so that nobody learns names by asking."""
    row = session.get(ModelRow, name)
    if row is None or not viewer.sees(name):
        raise NotFound(f"the hub knows no model {name[:200]!r}: look for it among all models")
    return row


def _features(session: Session, name: str, span: charts.Span) -> tuple[FeatureLine | None, tuple[FeatureLine, ...]]:
    lines = _feature_lines(session, name, span)
    whole = lines.pop("", None)
    order = ("FAIL", "ERROR", "WARN", "INCONCLUSIVE", "PASS")
    ranked = sorted(
        lines.values(),
        key=lambda one: (
            order.index(one.state) if one.state in order else 9,
            -one.uneasy,
            -(one.effect or 0),
            one.name,
        ),
    )
    return whole, tuple(ranked)


def _feature_lines(session: Session, name: str, span: charts.Span) -> dict[str, FeatureLine]:
    """Each feature's line; "" is the model as a whole.

    Three months of twenty features are 1,890 windows, mostly one run of PASS each: states are read of all of them, and
    everything else only of the first and the last window of each run.
    """
    row = SkewWindowRow
    within = row.model == name, row.window_end > span.start, row.window_end <= span.end + timedelta(days=1)
    states: dict[str, list[tuple[int, str]]] = defaultdict(list)
    query = select(row.feature, row.id, row.state).where(*within).order_by(row.window_end, row.version)
    for feature, number, state in session.execute(query):
        states[feature].append((number, state))
    ends = {number for told in states.values() for number in _ends_of_runs(told)}
    windows = {
        one.id: charts.Window(one.window_start, one.window_end, one.state, one.effect, one.cause)
        for one in session.execute(
            select(row.id, row.window_start, row.window_end, row.state, row.effect, row.cause).where(row.id.in_(ends))
        )
    }
    found = {}
    for feature, told in states.items():
        last, uneasy = windows[told[-1][0]], sum(state != "PASS" for _, state in told)
        blocks = charts.runs([windows[number] for number in _ends_of_runs(told)], span)
        found[feature] = FeatureLine(feature, last.state, last.effect, last.cause, blocks, len(told), uneasy)
    return found


def _ends_of_runs(told: Sequence[tuple[int, str]]) -> list[int]:
    """The first and the last of those in a row that have the same state."""
    last = len(told) - 1
    return [
        number
        for place, (number, state) in enumerate(told)
        if place in (0, last) or told[place - 1][1] != state or told[place + 1][1] != state
    ]


def _canaries(session: Session, lines: Sequence[ReleaseLine]) -> tuple[CanaryLine, ...]:
    by_id = {one.id: one for one in lines}
    event = ReleaseEventRow
    query = (
        select(event.release_id, event.at, event.text, event.data)
        .where(event.release_id.in_(by_id), event.kind == "finding")
        .order_by(event.id.desc())
    )
    found = []
    for release_id, at, text, data in session.execute(query):
        if canary_numbers(data) is not None:
            found.append(canary_line(by_id[release_id].version, release_id, at, text, data))
    return tuple(found)


def canary_numbers(data: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """A canary's numbers in the data of an event, None where there are none."""
    numbers = data.get("numbers")
    return numbers if isinstance(numbers, dict) else None


def canary_line(version: int, release_id: int, at: datetime, text: str, data: Mapping[str, Any]) -> CanaryLine:
    """What a canary's event says."""
    numbers = canary_numbers(data) or {}

    def counted(name: str) -> int:
        value = numbers.get(name)
        return int(value) if isinstance(value, int | float) else 0

    compared = counted("compared")
    agreed = 1 - counted("disagreements") / compared if compared else None
    outcome = str(data.get("outcome", ""))
    return CanaryLine(
        release_id,
        version,
        at,
        worst([outcome]) or "INCONCLUSIVE",
        text,
        compared,
        agreed,
        counted("errors"),
        counted("slow"),
    )
