"""All models at a glance: what serves, the last release, skew, traffic and alerts, filtered and by pages."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.pages.charts import spark
from tidegate_pipelines.hub.pages.queries.common import (
    LINE,
    ReleaseLine,
    Served,
    model_names,
    open_alerts,
    release_lines,
    served,
)
from tidegate_pipelines.hub.pages.viewer import Viewer
from tidegate_pipelines.hub.store import EngineRow, ModelRow, ReleaseRow, SkewWindowRow, TrafficRow

PER_PAGE = 50
STATES = ("AWAY", "NOT SERVED", "WAITING", "RELEASING", "SERVING")
"""What a model can be in, what needs a look first."""
SORTS = ("attention", "name", "released")
_SPARK_DAYS = 7
_RUNNING = ("REQUESTED", "RUNNING")
_UNEASY = ("FAIL", "ERROR", "WARN", "INCONCLUSIVE")


@dataclass(frozen=True, slots=True)
class FleetQuestion:
    """What was asked for: part of a name, a state or "", an outcome of skew or "", an engine or "", order and page."""

    text: str = ""
    state: str = ""
    skew: str = ""
    engine: str = ""
    sort: str = SORTS[0]
    page: int = 1


@dataclass(frozen=True, slots=True)
class SkewNow:
    """The latest window of a model: its state, what changed, and when it ended."""

    state: str
    cause: str
    end: datetime


@dataclass(frozen=True, slots=True)
class Traffic:
    """The last day: requests and the share of errors; and a small curve of the seven days before."""

    requests: int
    errors: float
    path: str


@dataclass(frozen=True, slots=True)
class ModelLine:
    """One model in the list. `serving` is what ordinary clients get, `others` what is loaded beside it."""

    name: str
    state: str
    serving: Served | None
    others: tuple[Served, ...]
    release: ReleaseLine | None
    skew: SkewNow | None
    alerts: int
    traffic: Traffic | None = None


@dataclass(frozen=True, slots=True)
class Fleet:
    """One page of the list. `counts` are models by state, whatever is filtered."""

    lines: tuple[ModelLine, ...]
    total: int
    every: int
    pages: int
    question: FleetQuestion
    counts: tuple[tuple[str, int], ...]
    engines: tuple[str, ...]


def fleet(session: Session, viewer: Viewer, question: FleetQuestion, now: datetime) -> Fleet:
    """The page that was asked for; one behind the last is the last."""
    names = [name for name in model_names(session, question.text) if viewer.sees(name)]
    every = model_lines(session, names)
    counts = defaultdict(int, dict.fromkeys(STATES, 0))
    for line in every:
        counts[line.state] += 1
    found = sorted((line for line in every if _wanted(line, question)), key=_order(question.sort))
    pages = max(1, -(-len(found) // PER_PAGE))
    page = min(question.page, pages)
    shown = found[PER_PAGE * (page - 1) : PER_PAGE * page]
    traffic = _traffic(session, [line.name for line in shown], now)
    return Fleet(
        lines=tuple(_with_traffic(line, traffic.get(line.name)) for line in shown),
        total=len(found),
        every=len(every),
        pages=pages,
        question=FleetQuestion(question.text, question.state, question.skew, question.engine, question.sort, page),
        counts=tuple(counts.items()),
        engines=tuple(session.scalars(select(EngineRow.name).order_by(EngineRow.name))),
    )


def model_lines(session: Session, names: Sequence[str]) -> list[ModelLine]:
    """Each of these models without its traffic."""
    by_model: dict[str, list[Served]] = defaultdict(list)
    for one in served(session):
        by_model[one.model].append(one)
    away = set(session.scalars(select(EngineRow.name).where(EngineRow.state == "AWAY")))
    releases = {one.model: one for one in latest_releases(session)}
    skews = latest_skew(session)
    alerts: dict[str, int] = defaultdict(int)
    for alert in open_alerts(session):
        alerts[alert.model] += 1
    found = []
    for name in names:
        versions, last = by_model.get(name, []), releases.get(name)
        first = next((one for one in versions if one.ordinary), None)
        others = tuple(one for one in versions if one is not first)
        state = _state(first, last, away)
        found.append(ModelLine(name, state, first, others, last, skews.get(name), alerts[name]))
    return found


def latest_releases(session: Session) -> tuple[ReleaseLine, ...]:
    """The last release that was asked for, of each model."""
    newest = (
        select(ReleaseRow.id)
        .where(ReleaseRow.model == ModelRow.name)
        .order_by(ReleaseRow.requested_at.desc(), ReleaseRow.id.desc())
        .limit(1)
        .correlate(ModelRow)
        .scalar_subquery()
    )
    return release_lines(session, select(*LINE).join(ModelRow, ReleaseRow.id == newest))


def latest_skew(session: Session) -> Mapping[str, SkewNow]:
    """The latest window of each model."""
    newest = (
        select(SkewWindowRow.id)
        .where(SkewWindowRow.model == ModelRow.name, SkewWindowRow.feature == "")
        .order_by(SkewWindowRow.window_end.desc())
        .limit(1)
        .correlate(ModelRow)
        .scalar_subquery()
    )
    query = select(SkewWindowRow.model, SkewWindowRow.state, SkewWindowRow.cause, SkewWindowRow.window_end).join(
        ModelRow, SkewWindowRow.id == newest
    )
    return {row.model: SkewNow(row.state, row.cause, row.window_end) for row in session.execute(query)}


def _state(first: Served | None, last: ReleaseLine | None, away: set[str]) -> str:
    if first is not None and first.engine in away:
        return "AWAY"
    if last is not None and last.state == "WAITING":
        return "WAITING"
    if last is not None and last.state in _RUNNING:
        return "RELEASING"
    return "SERVING" if first is not None and first.state == "AVAILABLE" else "NOT SERVED"


def _wanted(line: ModelLine, question: FleetQuestion) -> bool:
    if question.state and line.state != question.state:
        return False
    if question.skew and (line.skew is None or line.skew.state != question.skew):
        return False
    if not question.engine:
        return True
    there = {one.engine for one in (line.serving, *line.others) if one is not None}
    return question.engine in there


def _order(sort: str) -> Callable[[ModelLine], Any]:
    if sort == "name":
        return lambda line: line.name
    if sort == "released":
        return lambda line: (-(line.release.requested_at.timestamp()) if line.release else 0.0, line.name)
    return lambda line: (_gravity(line), line.name)


def _gravity(line: ModelLine) -> tuple[bool, bool, int, bool, bool]:
    """What needs a look sorts first."""
    skew = line.skew.state if line.skew is not None else ""
    uneasy = _UNEASY.index(skew) if skew in _UNEASY else len(_UNEASY)
    failed = line.release is not None and line.release.state in ("FAILED", "REFUSED")
    return (not line.alerts, line.state not in STATES[:3], uneasy, not failed, line.state == "SERVING")


def _with_traffic(line: ModelLine, traffic: Traffic | None) -> ModelLine:
    return ModelLine(line.name, line.state, line.serving, line.others, line.release, line.skew, line.alerts, traffic)


def _traffic(session: Session, names: Sequence[str], now: datetime) -> dict[str, Traffic]:
    row = TrafficRow
    theirs = row.model.in_(names)
    day = func.date(row.hour)
    midnight = now.astimezone(UTC).replace(hour=0, minute=0, second=0, microsecond=0)
    week = (
        select(row.model, day, func.sum(row.requests))
        .where(theirs, row.hour >= midnight - timedelta(days=_SPARK_DAYS), row.hour < midnight)
        .group_by(row.model, day)
        .order_by(row.model, day)
    )
    curves: dict[str, list[float]] = defaultdict(list)
    for name, _, requests in session.execute(week):
        curves[name].append(float(requests))
    last = (
        select(row.model, func.sum(row.requests), func.sum(row.errors))
        .where(theirs, row.hour > now - timedelta(days=1))
        .group_by(row.model)
    )
    found = {name: Traffic(0, 0.0, spark(curve)) for name, curve in curves.items()}
    for name, requests, errors in session.execute(last):
        found[name] = Traffic(int(requests), float(errors) / float(requests or 1), spark(curves.get(name, ())))
    return found
