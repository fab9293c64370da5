"""Brings into the audit log what engines did and refused by themselves, from their journals: a rollback on the command
line is as much a control action as one in the hub."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from dataclasses import replace

from sqlalchemy import delete, func, select
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.audit.line import Act, Outcome
from tidegate_pipelines.hub.audit.log import AuditLog, lock
from tidegate_pipelines.hub.store.database import Database
from tidegate_pipelines.hub.store.people import DecisionRow, EngineEntryRow
from tidegate_serving.connection import EngineConnection
from tidegate_serving.control_client import ControlClient, Entry
from tidegate_serving.journal.entry import Kind, claim_of, is_by, to_line

_KINDS = {Kind.CONTROL: Outcome.DONE, Kind.REFUSED: Outcome.REFUSED}
_OVERLAP_US = 3600 * 1_000_000
"""An engine's clock may be set back: what it says within an hour before the newest known entry is looked at again."""


def fetch(database: Database, log: AuditLog, connection: EngineConnection, asked_by_hub: str) -> int:
    """Takes over what the journals of these engines have and the log has not; how many entries.

    What the hub itself asked for (`requested_by` begins with `asked_by_hub`) is in the log already. Unavailable where
    an engine does not answer; nothing is lost by asking again.
    """
    return sum(_fetch_one(database, log, one, asked_by_hub) for one in connection.each())


def _fetch_one(database: Database, log: AuditLog, connection: EngineConnection, asked_by_hub: str) -> int:
    name = connection.single()
    with database.reading() as session:
        known_until = session.scalar(select(func.max(EngineEntryRow.at_us)).where(EngineEntryRow.engine == name)) or 0
    since = max(0, known_until - _OVERLAP_US)
    with ControlClient(connection) as client:
        entries = [entry for entry in client.journal(since_us=since) if entry.kind in _KINDS]
    with database.writing() as session:
        theirs = [entry for entry in entries if not (asked_by_hub and _is_ours(session, entry, asked_by_hub))]
        kept = _keep(session, log, name, theirs)
        old = EngineEntryRow.engine == name, EngineEntryRow.at_us < since
        session.execute(delete(EngineEntryRow).where(*old))
    return kept


def _is_ours(session: Session, entry: Entry, asked_by_hub: str) -> bool:
    """Whether the hub has it in its log already. Behind access control whoever has a token may say that they ask for
    the hub: there it counts where the hub has this very decision, with its reason and from about that time."""
    if entry.requested_by.startswith(asked_by_hub):
        return True
    if entry.kind is not Kind.CONTROL or not claim_of(entry.requested_by).startswith(asked_by_hub):
        return False
    same = DecisionRow.kind == entry.action, DecisionRow.model == entry.servable
    return any(
        is_by(entry.requested_by, asked_by_hub + row.who)
        and entry.reason in (row.reason, told_reason(row.reason, row.key))
        and abs(entry.at_us - row.at.timestamp() * 1e6) < _OVERLAP_US
        for row in session.scalars(select(DecisionRow).where(*same))
    )


def told_reason(reason: str, key: str) -> str:
    """The reason that an engine is told for a decision that must arrive once: its key tells it from others."""
    return f"{reason} [{key}]"


def _keep(session: Session, log: AuditLog, name: str, entries: Sequence[Entry]) -> int:
    """Behind the log's lock, so that of two hubs one alone takes an entry over."""
    lock(session)
    known = set(session.scalars(select(EngineEntryRow.digest).where(EngineEntryRow.engine == name)))
    kept = 0
    for entry in entries:
        digest = hashlib.sha256(to_line(entry)).hexdigest()
        if digest in known:
            continue
        known.add(digest)
        session.add(EngineEntryRow(engine=name, digest=digest, at_us=entry.at_us))
        log.add(replace(_act(entry), engine=name), session)
        kept += 1
    return kept


def _act(entry: Entry) -> Act:
    version = "" if entry.version is None else f":{entry.version}"
    return Act(
        who=entry.requested_by,
        action=entry.action,
        thing=f"model {entry.servable}{version}" if entry.servable else "engine",
        outcome=_KINDS[entry.kind],
        reason=entry.reason,
        detail={"text": entry.text, "error_code": entry.error_code, "at_us": entry.at_us},
    )
