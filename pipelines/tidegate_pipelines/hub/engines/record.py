"""What an engine said, into the tables: its state, what it serves, and how much it was asked since it was last heard.

Counters are compared with those of the row under its lock, so several hubs may watch an engine and count nothing twice.
"""

from __future__ import annotations

from collections.abc import Collection
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.engines.traffic import Counted, Versions, add_traffic, counted, with_away
from tidegate_pipelines.hub.store import Database, EngineRow, ModelRow, ServedVersionRow
from tidegate_serving.contract.servable import State
from tidegate_serving.control.status import EngineStatus, ServableStatus

UP, AWAY = "UP", "AWAY"
_COUNTED = "counted"
_MOST_LETTERS = 255


def note_status(database: Database, name: str, address: str, status: EngineStatus, asked: datetime) -> None:
    """The engine answered what it was asked at `asked`."""
    with database.writing() as session:
        now = database.now(session)
        row = _row(session, name, address, now)
        asked = min(asked, now)
        if row.last_seen is not None and asked <= row.last_seen <= now:
            return  # Another hub has asked it later. What lies ahead is by a clock that was wrong.
        if row.state != UP:
            row.state, row.since = UP, now
        counts = counted(status.counters)
        if (known := row.status.get(_COUNTED)) is not None:
            before = {one: Counted.from_dict(said) for one, said in known.items()}
            add_traffic(session, name, now, before, counts)
            versions = {(one.servable, found.version) for one in status.servables for found in one.versions}
            counts = with_away(before, counts, versions)
        row.problem, row.last_seen = "", asked
        row.status = _document(status, counts)
        _note_served(session, name, status, now)


def note_away(database: Database, name: str, address: str, problem: str) -> None:
    """The engine did not answer. What it served stays as it was last seen."""
    with database.writing() as session:
        now = database.now(session)
        row = _row(session, name, address, now)
        if row.state != AWAY:
            row.state, row.since = AWAY, now
        row.problem = problem


def forget_others(database: Database, names: Collection[str]) -> None:
    """Forgets how engines were that have none of these names, and what they served; their traffic stays."""
    with database.reading() as session:
        known = session.scalars(select(EngineRow.name)).all()
    if gone := sorted(set(known) - set(names)):
        with database.writing() as session:
            session.execute(delete(ServedVersionRow).where(ServedVersionRow.engine.in_(gone)))
            session.execute(delete(EngineRow).where(EngineRow.name.in_(gone)))


def _row(session: Session, name: str, address: str, now: datetime) -> EngineRow:
    row = session.get(EngineRow, name, with_for_update=True)
    if row is None:
        row = EngineRow(name=name, addresses=address, state="", since=now, last_seen=None, status={})
        session.add(row)
    row.addresses = address
    return row


def _document(status: EngineStatus, counts: Versions) -> dict[str, Any]:
    return {
        "grpc_address": status.grpc_address,
        "rest_address": status.rest_address,
        "log_path": status.log_path,
        "problems": [{"source": one.source, "message": one.error_message} for one in status.problems],
        "models": {one.servable: _model(one) for one in status.servables},
        _COUNTED: {name: one.to_dict() for name, one in counts.items()},
    }


def _model(one: ServableStatus) -> dict[str, Any]:
    return {
        "source": one.source,
        "ordinary": one.ordinary,
        "previous": one.previous,
        "disabled": one.disabled,
        "problem": one.source_problem,
        "overrides": [
            {
                "action": found.action,
                "text": found.text,
                "by": found.requested_by,
                "reason": found.reason,
                "at_us": found.at_us,
                "version": found.version,
            }
            for found in one.overrides
        ],
    }


def _note_served(session: Session, name: str, status: EngineStatus, now: datetime) -> None:
    seen = {(one.servable, version.version) for one in status.servables for version in one.versions}
    known = session.scalars(select(ServedVersionRow).where(ServedVersionRow.engine == name)).all()
    rows = {(row.model, row.version): row for row in known}
    for model, version in rows.keys() - seen:
        session.execute(
            delete(ServedVersionRow).where(
                ServedVersionRow.engine == name, ServedVersionRow.model == model, ServedVersionRow.version == version
            )
        )
    for one in status.servables:
        if session.get(ModelRow, one.servable) is None:
            session.add(ModelRow(name=one.servable, first_seen=now))
        for found in one.versions:
            row = rows.get((one.servable, found.version))
            if row is None:
                row = ServedVersionRow(engine=name, model=one.servable, version=found.version)
                session.add(row)
            row.state = found.state.name
            row.label = ",".join(found.labels)[:_MOST_LETTERS]
            row.ordinary = found.state is State.AVAILABLE and found.version == one.ordinary and not one.disabled
            row.since = datetime.fromtimestamp(found.since_us / 1e6, UTC) if found.since_us else now
            row.error = found.error_message
