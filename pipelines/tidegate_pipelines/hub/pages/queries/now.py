"""What needs a person now: approvals, alerts, engines away, models that are sent the unknown, failed releases."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Generic, TypeVar

from sqlalchemy import ColumnElement, func, or_, select
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.alerts import alert_key
from tidegate_pipelines.hub.decisions import declined
from tidegate_pipelines.hub.pages.queries.common import (
    LINE,
    Alert,
    ReleaseLine,
    open_alerts,
    release_line,
    release_lines,
)
from tidegate_pipelines.hub.pages.queries.standing import latest_releases, latest_skew, standings
from tidegate_pipelines.hub.pages.viewer import Viewer
from tidegate_pipelines.hub.store import EngineRow, ModelRow, ReleaseRow, ReleaseState, SkewWindowRow

MOST = 8
"""How many of one sort are shown."""
_RECENT = timedelta(days=7)
_LATEST = 8
_WAITS = ReleaseRow.state == ReleaseState.WAITING
"""For a person, or, where it is known until when, for a freeze to end: then nobody has to do anything."""
_UNDER_WAY = ReleaseRow.state.in_((ReleaseState.RUNNING, ReleaseState.REQUESTED))
T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class Away:
    """An engine that does not answer."""

    name: str
    since: datetime
    problem: str


@dataclass(frozen=True, slots=True)
class Drifted:
    """A model whose latest window was not what it was trained on."""

    model: str
    state: str
    cause: str
    end: datetime


@dataclass(frozen=True, slots=True)
class Some(Generic[T]):
    """The first few of several things."""

    shown: tuple[T, ...]
    total: int

    @property
    def more(self) -> int:
        """How many are not shown."""
        return self.total - len(self.shown)


@dataclass(frozen=True, slots=True)
class Now:
    """Everything on the first page."""

    waiting: Some[ReleaseLine]
    alerts: Some[Alert]
    away: Some[Away]
    drifted: Some[Drifted]
    failed: Some[ReleaseLine]
    running: Some[ReleaseLine]
    latest: tuple[ReleaseLine, ...]
    models: tuple[tuple[str, int], ...]
    engines_up: int
    engines: int
    released_in_week: int
    refused_in_week: int

    @property
    def urgent(self) -> int:
        """How many things need a person."""
        return sum(one.total for one in (self.waiting, self.alerts, self.away, self.drifted, self.failed))

    @property
    def answering(self) -> str:
        """How many engines answer, in words."""
        if self.engines == 0:
            return "No engine is watched yet"
        if self.engines == 1:
            return "The engine answers" if self.engines_up else "The engine does not answer"
        if self.engines_up == self.engines:
            return f"All {self.engines:,} engines answer"
        return f"{self.engines_up or 'None'} of {self.engines:,} engines answer{'s' if self.engines_up == 1 else ''}"

    @property
    def every_model(self) -> int:
        """How many models there are."""
        return sum(count for _, count in self.models)


def now_page(session: Session, viewer: Viewer, now: datetime) -> Now:
    """The first page."""
    names = [name for name in session.scalars(select(ModelRow.name)) if viewer.sees(name)]
    there = set(names)
    counts = Counter(one.state for one in standings(session, names))
    engines = session.scalars(select(EngineRow).order_by(EngineRow.since)).all()
    away = [Away(one.name, one.since, one.problem) for one in engines if one.state == "AWAY"]
    ended = _ended(session, viewer, now)
    waiting = _releases(session, viewer, _WAITS, ReleaseRow.not_before.is_(None))
    drifted = [one for one in _drifted(session) if one.model in there]
    failed = [one for one in _failed(session, now) if one.model in there]
    seen = [one for one in open_alerts(session) if not one.model or one.model in there]
    return Now(
        waiting=_some(waiting),
        alerts=_some(_others(seen, waiting, away, drifted, failed)),
        away=_some(away),
        drifted=_some(drifted),
        failed=_some(failed),
        running=_some(_releases(session, viewer, or_(_UNDER_WAY, _WAITS & ReleaseRow.not_before.is_not(None)))),
        latest=_latest(session, viewer),
        models=tuple(sorted(counts.items())),
        engines_up=len(engines) - len(away),
        engines=len(engines),
        released_in_week=ended.get("RELEASED", 0),
        refused_in_week=ended.get("REFUSED", 0),
    )


def _some(found: Sequence[T]) -> Some[T]:
    return Some(tuple(found[:MOST]), len(found))


def _others(
    alerts: Sequence[Alert],
    waiting: Sequence[ReleaseLine],
    away: Sequence[Away],
    drifted: Sequence[Drifted],
    failed: Sequence[ReleaseLine],
) -> list[Alert]:
    """The alerts about nothing that the page lists anyway."""
    listed = {alert_key("approval", one.id) for one in waiting} | {alert_key("release", one.id) for one in failed}
    listed |= {alert_key("engine", one.name) for one in away}
    skewed = {one.model for one in drifted}
    return [
        one
        for one in alerts
        if one.key not in listed and not (one.model in skewed and one.key.startswith(alert_key("skew", "")))
    ]


def _drifted(session: Session) -> list[Drifted]:
    """Models whose latest window was not what they were trained on, the newest first."""
    row = SkewWindowRow
    query = latest_skew(row.model, row.state, row.cause, row.window_end).where(row.state.in_(("FAIL", "ERROR")))
    return [Drifted(*one) for one in session.execute(query.order_by(row.window_end.desc(), row.model))]


def _failed(session: Session, now: datetime) -> Sequence[ReleaseLine]:
    """Last releases that came to nothing within the week, but for those that somebody declined, the newest first."""
    recent = or_(ReleaseRow.finished_at.is_(None), ReleaseRow.finished_at > now - _RECENT)
    states = ReleaseRow.state.in_((ReleaseState.REFUSED, ReleaseState.FAILED))
    latest = latest_releases(*LINE).where(states, recent, ~declined())
    return release_lines(session, latest.order_by(ReleaseRow.requested_at.desc()))


def _releases(session: Session, viewer: Viewer, *conditions: ColumnElement[bool]) -> list[ReleaseLine]:
    """Those that are so, the oldest first."""
    query = select(*LINE).where(*conditions).order_by(ReleaseRow.requested_at)
    return [one for one in release_lines(session, query) if viewer.sees(one.model)]


def _latest(session: Session, viewer: Viewer) -> tuple[ReleaseLine, ...]:
    query = select(*LINE).order_by(ReleaseRow.requested_at.desc(), ReleaseRow.id.desc())
    found: list[ReleaseLine] = []
    with session.execute(query.execution_options(yield_per=_LATEST * 2)) as rows:
        for row in rows:
            if viewer.sees(row.model):
                found.append(release_line(row))
            if len(found) == _LATEST:
                break
    return tuple(found)


def _ended(session: Session, viewer: Viewer, now: datetime) -> dict[str, int]:
    """How many releases of the last week ended in each state."""
    query = (
        select(ReleaseRow.state, ReleaseRow.model, func.count())
        .where(ReleaseRow.requested_at > now - _RECENT)
        .group_by(ReleaseRow.state, ReleaseRow.model)
    )
    found: dict[str, int] = {}
    for state, model, count in session.execute(query):
        if viewer.sees(model):
            found[state.value] = found.get(state.value, 0) + count
    return found
