"""Engines and registries: whether they answer, since when not, what engines serve and what of it is wrong."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from datetime import datetime

from sqlalchemy import select
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.pages.queries.common import Served, served
from tidegate_pipelines.hub.pages.viewer import Viewer
from tidegate_pipelines.hub.store import EngineRow, RegistryRow

_PROBLEMS = 20


@dataclass(frozen=True, slots=True)
class Engine:
    """One engine. `models` and `versions` are how many it serves, `troubled` those that are not AVAILABLE, `problems`
    what is in the way of whole sources."""

    name: str
    addresses: tuple[str, ...]
    state: str
    since: datetime
    last_seen: datetime | None
    problem: str
    problems: tuple[str, ...]
    facts: tuple[tuple[str, str], ...]
    models: int
    versions: int
    states: tuple[tuple[str, int], ...]
    troubled: tuple[Served, ...]
    more_troubled: int


@dataclass(frozen=True, slots=True)
class Registry:
    """One registry whose aliases or tags start releases."""

    name: str
    address: str
    state: str
    since: datetime
    last_seen: datetime | None
    problem: str


@dataclass(frozen=True, slots=True)
class Engines:
    """All engines and registries, those that are away first."""

    engines: tuple[Engine, ...]
    registries: tuple[Registry, ...]


def engines(session: Session, viewer: Viewer) -> Engines:
    """The page of engines, with the versions of models that the viewer sees."""
    by_engine: dict[str, list[Served]] = defaultdict(list)
    for one in served(session):
        if viewer.sees(one.model):
            by_engine[one.engine].append(one)
    rows = session.scalars(select(EngineRow).order_by(EngineRow.state, EngineRow.name))
    asked = session.scalars(select(RegistryRow).order_by(RegistryRow.state, RegistryRow.name))
    registries = (
        Registry(row.name, row.address, row.state, row.since, row.last_seen, row.problem) for row in asked.all()
    )
    return Engines(tuple(_engine(row, by_engine[row.name]) for row in rows), tuple(registries))


def _engine(row: EngineRow, versions: list[Served]) -> Engine:
    counts: dict[str, int] = defaultdict(int)
    for one in versions:
        counts[one.state] += 1
    troubled = [one for one in versions if one.error or one.state not in ("AVAILABLE", "LOADING", "UNLOADING")]
    facts = tuple((name.replace("_", " "), str(value)) for name, value in row.status.items() if _plain(value))
    return Engine(
        row.name,
        tuple(one.strip() for one in row.addresses.split(",") if one.strip()),
        row.state,
        row.since,
        row.last_seen,
        row.problem,
        tuple(str(one["message"]) for one in row.status.get("problems", ())),
        facts[:12],
        len({one.model for one in versions}),
        len(versions),
        tuple(sorted(counts.items())),
        tuple(troubled[:_PROBLEMS]),
        max(0, len(troubled) - _PROBLEMS),
    )


def _plain(value: object) -> bool:
    return isinstance(value, str | int | float) and value != ""
