"""Requests for releases: kept once each, and the older ones of a model that have not begun give way to the newest."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from datetime import datetime
from fnmatch import fnmatchcase
from typing import Any

from sqlalchemy import or_, select, update
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.store import (
    Database,
    ModelRow,
    ReleaseEventRow,
    ReleaseRow,
    ReleaseState,
    write_last,
)
from tidegate_serving.contract.errors import Conflict, InvalidInput, NotFound
from tidegate_serving.contract.servable import check_name

VERDICT = "verdict"
"""The key of a release's settings that names a verdict (the SHA-256 of its file) to go on with although it denies,
because somebody signed an override; whether that counts is for the engine to say."""
_NOT_BEGUN = (ReleaseState.REQUESTED, ReleaseState.WAITING)


@dataclass(frozen=True, slots=True)
class Request:
    """What somebody wants released. `key` makes it arrive once however often it is sent; None for no such key.

    `settings` are those of `ReleaseConfig` that differ for this one release.
    """

    model: str
    version: int
    source: str
    requested_by: str
    reason: str = ""
    settings: Mapping[str, Any] = field(default_factory=dict)
    key: str | None = None


def request_release(database: Database, session: Session, request: Request) -> ReleaseRow:
    """The release that was asked for, new or, where the key is known, the one that is there already.

    InvalidInput for a name or number that no model can have.
    """
    check_name(request.model)
    if request.version < 1:
        raise InvalidInput(f"version {request.version} of {request.model} is no version: use 1 or more")
    if request.key is not None:
        known = session.scalar(select(ReleaseRow).where(ReleaseRow.request_key == request.key))
        if known is not None:
            return known
    now = database.now(session)
    know_model(session, request.model, now)
    row = ReleaseRow(
        model=request.model,
        version=request.version,
        source=request.source,
        request_key=request.key,
        requested_by=request.requested_by,
        requested_at=now,
        reason=request.reason,
        settings=dict(request.settings),
        state=ReleaseState.REQUESTED,
    )
    _supersede(session, request, now)
    session.add(row)
    session.flush()
    is_last(session, row)
    note(session, row, now, "state", request.reason or f"{request.requested_by} asked for it", state=row.state.value)
    return row


def know_model(session: Session, name: str, now: datetime) -> None:
    """Puts a model that nobody has heard of into the table of models."""
    if session.get(ModelRow, name) is None:
        session.add(ModelRow(name=name, first_seen=now))
        session.flush()


def is_last(session: Session, row: ReleaseRow) -> None:
    """Remembers a new release as the last one of its model."""
    older = or_(ModelRow.last_release.is_(None), ModelRow.last_release < row.id)
    session.execute(update(ModelRow).where(ModelRow.name == row.model, older).values(last_release=row.id))


def note(session: Session, row: ReleaseRow, at: datetime, kind: str, text: str, **data: Any) -> None:
    """Adds what happened to a release's history, which live pages read."""
    write_last(session, ReleaseEventRow(release_id=row.id, at=at, stage=row.stage, kind=kind, text=text, data=data))


def finish(session: Session, row: ReleaseRow, at: datetime, state: ReleaseState, sentence: str) -> None:
    """The release has ended so, and nobody runs it any more."""
    row.state, row.sentence, row.finished_at = state, sentence, at
    row.claimed_by, row.claimed_until, row.not_before = "", None, None
    note(session, row, at, "state", sentence, state=state.value)


def cancel(database: Database, session: Session, release_id: int, *, by: str, reason: str) -> ReleaseRow:
    """Ends a release that has not begun, waits, or runs elsewhere, where its run goes on: the sentence names that.
    NotFound, or Conflict for one that runs here or is over."""
    row = locked(session, release_id)
    elsewhere = row.state is ReleaseState.RUNNING and row.external_run
    if row.state not in _NOT_BEGUN and not elsewhere:
        raise Conflict(
            f"release {release_id} of {row.model}:{row.version} is {row.state.value}: it cannot be cancelled"
        )
    why = f"{by} cancelled it" + (f": {reason}" if reason else "")
    if elsewhere:
        why += f". Its run {row.external_run} goes on: stop it where it runs, or it may still release something"
    finish(session, row, database.now(session), ReleaseState.CANCELLED, why)
    return row


def let_go_on(database: Database, session: Session, release_id: int, *, because: str) -> ReleaseRow:
    """A release that waited for a person goes on where it stopped. Conflict for one that does not wait."""
    row = locked(session, release_id)
    if row.state is not ReleaseState.WAITING:
        raise Conflict(f"release {release_id} of {row.model}:{row.version} is {row.state.value}: it does not wait")
    row.state, row.not_before, row.sentence = ReleaseState.REQUESTED, None, because
    note(session, row, database.now(session), "state", because, state=row.state.value)
    return row


def look_again(session: Session, pattern: str, now: datetime) -> None:
    """Releases of models like `pattern` that wait for a moment, as for the end of a freeze, look at once whether they
    still have to."""
    waiting = select(ReleaseRow).where(ReleaseRow.state == ReleaseState.WAITING, ReleaseRow.not_before > now)
    for row in session.scalars(waiting.with_for_update(key_share=True)).all():
        if fnmatchcase(row.model, pattern):
            row.not_before = now


def locked(session: Session, release_id: int) -> ReleaseRow:
    """A release that nobody else changes until the transaction ends. NotFound for a number that there is not."""
    query = select(ReleaseRow).where(ReleaseRow.id == release_id).with_for_update(key_share=True)
    row = session.scalar(query)
    if row is None:
        raise NotFound(f"there is no release {release_id}: see /api/v1/releases")
    return row


def _supersede(session: Session, request: Request, now: datetime) -> None:
    older = (
        select(ReleaseRow)
        .where(ReleaseRow.model == request.model, ReleaseRow.state.in_(_NOT_BEGUN))
        .with_for_update(key_share=True)
    )
    for row in session.scalars(older).all():
        asked = f"{request.requested_by} asked for version {request.version}"
        finish(session, row, now, ReleaseState.SUPERSEDED, f"{asked} before version {row.version} was released")
