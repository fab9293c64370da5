"""What an engine said, into the tables: its state, what it serves, and how much it was asked since it was last heard.

Counters are compared with those of the row under its lock, so several hubs may watch an engine and count nothing twice.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

from sqlalchemy import delete, select
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.store import Database, EngineRow, ModelRow, ServedVersionRow, TrafficRow
from tidegate_serving.contract.servable import State
from tidegate_serving.control.status import EngineStatus, ServableStatus

UP, AWAY = "UP", "AWAY"
_ANSWERS = "tidegate_requests_total"
_LABEL = re.compile(r'(\w+)="((?:[^"\\]|\\.)*)"')
_GOOD = "OK"
_MOST_LETTERS = 255
_Counts = dict[str, float]


def note_status(database: Database, name: str, address: str, status: EngineStatus, asked: datetime) -> None:
    """The engine answered what it was asked at `asked`."""
    with database.writing() as session:
        now = database.now(session)
        row = _row(session, name, address, now)
        if row.last_seen is not None and asked <= row.last_seen:
            return  # Another hub has asked it later.
        if row.state != UP:
            row.state, row.since = UP, now
        counts = _answers(status.counters)
        if row.last_seen is not None:
            _add_traffic(session, name, now, row.status.get("answers", {}), counts)
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


def _row(session: Session, name: str, address: str, now: datetime) -> EngineRow:
    row = session.get(EngineRow, name, with_for_update=True)
    if row is None:
        row = EngineRow(name=name, addresses=address, state="", since=now, last_seen=None, status={})
        session.add(row)
    row.addresses = address
    return row


def _document(status: EngineStatus, counts: _Counts) -> dict[str, Any]:
    return {
        "grpc_address": status.grpc_address,
        "rest_address": status.rest_address,
        "log_path": status.log_path,
        "problems": [{"source": one.source, "message": one.error_message} for one in status.problems],
        "models": {one.servable: _model(one) for one in status.servables},
        "answers": counts,
    }


def _model(one: ServableStatus) -> dict[str, Any]:
    return {
        "source": one.source,
        "ordinary": one.ordinary,
        "previous": one.previous,
        "disabled": one.disabled,
        "problem": one.source_problem,
        "overrides": [
            {"action": found.action, "text": found.text, "by": found.requested_by, "reason": found.reason}
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
            row.ordinary = found.state is State.AVAILABLE and found.version == one.ordinary
            row.since = datetime.fromtimestamp(found.since_us / 1e6, UTC) if found.since_us else now
            row.error = found.error_message


def _answers(counters: Mapping[str, float]) -> _Counts:
    """Answers by model, version and whether they were good, over all endpoints; the key is `MODEL\\tVERSION\\tok`."""
    found: defaultdict[str, float] = defaultdict(float)
    for sample, value in counters.items():
        if not sample.startswith(_ANSWERS + "{"):
            continue
        labels = dict(_LABEL.findall(sample))
        if labels.get("model") and labels.get("version"):
            good = "ok" if labels.get("status") == _GOOD else "error"
            found[f"{labels['model']}\t{labels['version']}\t{good}"] += value
    return dict(found)


def _add_traffic(session: Session, engine: str, now: datetime, before: _Counts, after: _Counts) -> None:
    hour = now.replace(minute=0, second=0, microsecond=0)
    for key, value in after.items():
        earlier = before.get(key, 0.0)
        more = int(value - earlier if value >= earlier else value)  # It counts from nothing after a restart.
        if more == 0:
            continue
        model, version, good = key.split("\t")
        identity = (engine, model, int(version), hour)
        row = session.get(TrafficRow, identity)
        if row is None:
            row = TrafficRow(engine=engine, model=model, version=int(version), hour=hour, requests=0, errors=0)
            session.add(row)
        row.requests += more
        row.errors += more if good == "error" else 0
