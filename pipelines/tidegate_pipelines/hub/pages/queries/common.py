"""What several pages read: a release in one line, a served version, alerts, decisions, and the models somebody sees."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from typing import Any

from sqlalchemy import Executable, select
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.decisions.engine_actions import ENGINE_ACTIONS
from tidegate_pipelines.hub.pages.charts import Mark, Span
from tidegate_pipelines.hub.store import (
    AlertRow,
    DecisionRow,
    ModelRow,
    ReleaseRow,
    ReleaseState,
    ServedVersionRow,
)

_LASTS = timedelta(days=1)
"""What a release may take; the index goes by when it was asked for."""
GONE = "END"
"""The state of a version that is served no more."""
_TOLD = (*ENGINE_ACTIONS, "override")
"""Decisions of which something comes that they do not say themselves."""


@dataclass(frozen=True, slots=True)
class ReleaseLine:
    """A release in one line of a list."""

    id: int
    model: str
    version: int
    state: str
    stage: str
    sentence: str
    requested_by: str
    requested_at: datetime
    finished_at: datetime | None


@dataclass(frozen=True, slots=True)
class Served:
    """A version in one engine."""

    engine: str
    model: str
    version: int
    state: str
    labels: tuple[str, ...]
    ordinary: bool
    since: datetime
    error: str


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that is wrong; `key` tells what it is about."""

    key: str
    model: str
    severity: str
    title: str
    text: str
    link: str
    since: datetime


@dataclass(frozen=True, slots=True)
class Decision:
    """What somebody decided, and until when it holds."""

    kind: str
    model: str
    version: int | None
    release_id: int | None
    feature: str
    who: str
    reason: str
    at: datetime
    until: datetime | None
    ended_at: datetime | None
    sentence: str

    @property
    def came_of_it(self) -> str:
        """What an engine, or the hub, made of it; empty where kind and reason say all."""
        if self.kind not in _TOLD:
            return ""
        return self.sentence or "it was asked of the engine, which has not said yet that it is done"

    def holds(self, now: datetime) -> bool:
        """Whether it lasts still."""
        return self.until is not None and self.ended_at is None and self.until > now


LINE = (
    ReleaseRow.id,
    ReleaseRow.model,
    ReleaseRow.version,
    ReleaseRow.state,
    ReleaseRow.stage,
    ReleaseRow.sentence,
    ReleaseRow.requested_by,
    ReleaseRow.requested_at,
    ReleaseRow.finished_at,
)
"""The columns of a `ReleaseLine`."""
_SERVED = (
    ServedVersionRow.engine,
    ServedVersionRow.model,
    ServedVersionRow.version,
    ServedVersionRow.state,
    ServedVersionRow.label,
    ServedVersionRow.ordinary,
    ServedVersionRow.since,
    ServedVersionRow.error,
)


def release_lines(session: Session, query: Executable) -> tuple[ReleaseLine, ...]:
    """The lines of a query over `LINE`."""
    return tuple(release_line(row) for row in session.execute(query))


def release_line(row: Any) -> ReleaseLine:
    """From a row of the columns `LINE`."""
    given = row._mapping
    state = given["state"]
    return ReleaseLine(**{**given, "state": state.value if isinstance(state, ReleaseState) else state})


def served(session: Session, *conditions: Any) -> tuple[Served, ...]:
    """Versions in engines, the newest first; those that ended are left out."""
    query = select(*_SERVED).where(ServedVersionRow.state != GONE, *conditions)
    rows = session.execute(query.order_by(ServedVersionRow.model, ServedVersionRow.version.desc()))
    return tuple(
        Served(
            row.engine,
            row.model,
            row.version,
            row.state,
            tuple(word for word in row.label.split(",") if word),
            row.ordinary,
            row.since,
            row.error,
        )
        for row in rows
    )


def open_alerts(session: Session, model: str | None = None) -> tuple[Alert, ...]:
    """What is wrong and lasts, the newest first."""
    query = select(AlertRow).where(AlertRow.resolved_at.is_(None)).order_by(AlertRow.since.desc())
    if model is not None:
        query = query.where(AlertRow.model == model)
    return tuple(
        Alert(row.key, row.model, row.severity, row.title, row.body, row.link, row.since)
        for row in session.scalars(query)
    )


def decisions(session: Session, *conditions: Any, most: int = 50) -> tuple[Decision, ...]:
    """What people decided, the newest first."""
    query = select(DecisionRow).where(*conditions).order_by(DecisionRow.at.desc(), DecisionRow.id.desc())
    return tuple(decision(row) for row in session.scalars(query.limit(most)))


def decision(row: DecisionRow) -> Decision:
    """As a page shows it."""
    return Decision(
        row.kind,
        row.model,
        row.version,
        row.release_id,
        row.feature,
        row.who,
        row.reason,
        row.at,
        row.until,
        row.ended_at,
        row.sentence,
    )


def marks(session: Session, model: str, span: Span) -> tuple[Mark, ...]:
    """The releases of a model that came through within a time."""
    query = (
        select(ReleaseRow.id, ReleaseRow.version, ReleaseRow.finished_at)
        .where(ReleaseRow.model == model, ReleaseRow.requested_at > span.start - _LASTS)
        .where(ReleaseRow.requested_at <= span.end, ReleaseRow.finished_at > span.start)
        .where(ReleaseRow.state == ReleaseState.RELEASED)
        .order_by(ReleaseRow.requested_at)
    )
    return tuple(
        Mark(
            span.place(row.finished_at),
            row.finished_at,
            f"{row.version}",
            f"version {row.version} released, {row.finished_at:%-d %b %H:%M} UTC",
            f"/releases/{row.id}",
        )
        for row in session.execute(query)
    )


def model_names(session: Session, text: str = "") -> Sequence[str]:
    """Every model whose name contains `text`, by name."""
    query = select(ModelRow.name).order_by(ModelRow.name)
    if text:
        query = query.where(ModelRow.name.icontains(text, autoescape=True))
    return session.scalars(query).all()


def midnight(day: str | date) -> datetime:
    """The beginning of a day as a database gives it: SQLite as text, PostgreSQL as a date."""
    found = date.fromisoformat(day) if isinstance(day, str) else day
    return datetime(found.year, found.month, found.day, tzinfo=UTC)


def worst(states: Iterable[str]) -> str:
    """The gravest of some outcomes, empty for none."""
    order = ("FAIL", "ERROR", "INCONCLUSIVE", "WARN", "PASS")
    there = set(states)
    return next((one for one in order if one in there), "")
