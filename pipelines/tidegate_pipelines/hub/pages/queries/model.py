"""A model: its versions now, its releases, its features over time, traffic and latency, and what canaries agreed on."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.pages import charts
from tidegate_pipelines.hub.pages.queries.common import (
    LINE,
    Alert,
    Decision,
    ReleaseLine,
    Served,
    decisions,
    marks,
    open_alerts,
    release_lines,
    served,
    worst,
)
from tidegate_pipelines.hub.pages.viewer import Viewer
from tidegate_pipelines.hub.pages.words import count_words, seconds_words, share_words
from tidegate_pipelines.hub.store import (
    DecisionRow,
    EngineRow,
    ModelRow,
    ReleaseEventRow,
    ReleaseRow,
    ServedVersionRow,
    SkewWindowRow,
    TrafficRow,
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
    """Everything on a model's page."""

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
    traffic: charts.Chart | None
    errors: charts.Chart | None
    latency: charts.Chart | None
    canaries: tuple[CanaryLine, ...]
    alerts: tuple[Alert, ...]
    decisions: tuple[Decision, ...]

    @property
    def serving(self) -> Served | None:
        """What ordinary clients get."""
        return next((one for one in self.versions if one.ordinary), None)


def model(session: Session, viewer: Viewer, name: str, days: int, now: datetime) -> Model:
    """The page of a model. NotFound where there is none, or none that the viewer sees."""
    row = known_model(session, viewer, name)
    span = charts.Span.of_days(days, now)
    lines = release_lines(
        session,
        select(*LINE).where(ReleaseRow.model == name).order_by(ReleaseRow.requested_at.desc()).limit(_RELEASES),
    )
    released = marks(session, name, span)
    whole, features = _features(session, name, span)
    traffic, errors, latency = _traffic(session, name, span, released)
    away = select(EngineRow.name, EngineRow.since).where(EngineRow.state == "AWAY")
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
        traffic=traffic,
        errors=errors,
        latency=latency,
        canaries=_canaries(session, lines),
        alerts=open_alerts(session, name),
        decisions=decisions(session, DecisionRow.model == name, most=20),
    )


def known_model(session: Session, viewer: Viewer, name: str) -> ModelRow:
    """The model's row. NotFound, also for one that the viewer may not see, so that nobody learns names by asking."""
    row = session.get(ModelRow, name)
    if row is None or not viewer.sees(name):
        raise NotFound(f"the hub knows no model {name[:200]!r}: look for it among all models")
    return row


def skew_windows(session: Session, name: str, span: charts.Span, *conditions: Any) -> dict[str, list[charts.Window]]:
    """The windows of each feature within a time, in order; "" is the model as a whole."""
    row = SkewWindowRow
    query = (
        select(row.feature, row.window_start, row.window_end, row.state, row.effect, row.cause)
        .where(row.model == name, row.window_end > span.start, row.window_end <= span.end + timedelta(days=1))
        .where(*conditions)
        .order_by(row.window_end, row.version)
    )
    found: dict[str, list[charts.Window]] = defaultdict(list)
    for one, start, end, state, effect, cause in session.execute(query):
        found[one].append(charts.Window(start, end, state, effect, cause))
    return found


def _features(session: Session, name: str, span: charts.Span) -> tuple[FeatureLine | None, tuple[FeatureLine, ...]]:
    lines = {
        one: _feature_line(one, windows, span) for one, windows in skew_windows(session, name, span).items() if windows
    }
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


def _feature_line(name: str, windows: Sequence[charts.Window], span: charts.Span) -> FeatureLine:
    last = windows[-1]
    uneasy = sum(one.state != "PASS" for one in windows)
    return FeatureLine(name, last.state, last.effect, last.cause, charts.runs(windows, span), len(windows), uneasy)


def _traffic(
    session: Session, name: str, span: charts.Span, released: Sequence[charts.Mark]
) -> tuple[charts.Chart | None, charts.Chart | None, charts.Chart | None]:
    row = TrafficRow
    query = (
        select(row.hour, row.requests, row.errors, row.p50, row.p99)
        .where(row.model == name, row.hour >= span.start)
        .order_by(row.hour)
    )
    days: dict[datetime, list[tuple[int, int, float | None, float | None]]] = defaultdict(list)
    for hour, requests, errors, p50, p99 in session.execute(query):
        days[hour.replace(hour=0, minute=0, second=0, microsecond=0)].append((requests, errors, p50, p99))
    if not days:
        return None, None, None
    noon = timedelta(hours=12)
    counts = [(day, float(sum(one[0] for one in told))) for day, told in days.items()]
    shares = [(day, sum(one[1] for one in told) / max(1, sum(one[0] for one in told))) for day, told in days.items()]
    medians = [(day + noon, _mean(told, 2)) for day, told in days.items()]
    slowest = [
        (day + noon, max((one[3] for one in told if one[3] is not None), default=None)) for day, told in days.items()
    ]
    return (
        charts.bar_chart(
            "traffic", "Requests per day", span, charts.Series("Requests", "a", counts), count_words, released
        ),
        charts.bar_chart(
            "errors", "Share of errors per day", span, charts.Series("Errors", "a", shares), share_words, released
        ),
        charts.line_chart(
            "latency",
            "Latency per day",
            span,
            (charts.Series("median", "a", medians), charts.Series("p99 of the worst hour", "b", slowest)),
            seconds_words,
            released,
        ),
    )


def _mean(told: Sequence[tuple[Any, ...]], place: int) -> float | None:
    """The mean over hours, each counted by its requests."""
    known = [(one[0], one[place]) for one in told if one[place] is not None]
    weight = sum(requests for requests, _ in known)
    return sum(requests * value for requests, value in known) / weight if weight else None


def _canaries(session: Session, lines: Sequence[ReleaseLine]) -> tuple[CanaryLine, ...]:
    by_id = {one.id: one for one in lines}
    event = ReleaseEventRow
    query = (
        select(event.release_id, event.at, event.text, event.data)
        .where(event.release_id.in_(by_id), event.stage == "canary", event.kind == "finding")
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
