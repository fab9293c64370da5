"""Who runs which release: claimed by one hub at a time, for as long as it says again and again that it still does.

PostgreSQL hands each hub another row (SKIP LOCKED); SQLite lets one writer in at a time. The table itself refuses a
second winner of a model.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime, timedelta

from sqlalchemy import Select, and_, exists, or_, select, update
from sqlalchemy.exc import IntegrityError
from sqlalchemy.orm import Session, aliased

from tidegate_pipelines.hub.config import RunConfig
from tidegate_pipelines.hub.releases.requests import finish, note
from tidegate_pipelines.hub.store import Database, ReleaseRow, ReleaseState

_TRIES = 5


class ClaimLost(Exception):
    """Somebody else has the release now, or may have: whoever held it must stop."""


@dataclass(frozen=True, slots=True)
class Claim:
    """One release, held by whoever knows `token`."""

    release_id: int
    token: str


def claim_next(database: Database, token: str, run: RunConfig) -> Claim | None:
    """Claims the release that has waited longest and may begin, or was left by somebody who crashed; None for none.

    One that was taken up `run.attempts` times, and each time left, has failed.
    """
    for _ in range(_TRIES):
        try:
            with database.writing() as session:
                now = database.now(session)
                row = session.scalar(_claimable(now))
                if row is None:
                    return None
                if _take(session, row, token, now, run):
                    return Claim(row.id, token)
        except IntegrityError:
            continue  # Another hub began a release of the same model meanwhile.
    return None


def renew(database: Database, claim: Claim, run: RunConfig) -> None:
    """Vouches for the release for another while. ClaimLost where somebody else has it."""
    with database.writing() as session:
        until = database.now(session) + timedelta(seconds=run.lease_seconds)
        mine = and_(ReleaseRow.id == claim.release_id, ReleaseRow.claimed_by == claim.token)
        renewed = session.execute(
            update(ReleaseRow).where(mine, ReleaseRow.state == ReleaseState.RUNNING).values(claimed_until=until)
        )
        if renewed.rowcount == 0:  # type: ignore[attr-defined]
            raise ClaimLost


def held(session: Session, claim: Claim) -> ReleaseRow:
    """The release, which nobody else changes until the transaction ends. ClaimLost where somebody else has it."""
    query = select(ReleaseRow).where(ReleaseRow.id == claim.release_id).with_for_update(key_share=True)
    row = session.scalar(query)
    if row is None or row.claimed_by != claim.token or row.state is not ReleaseState.RUNNING:
        raise ClaimLost
    return row


def abandon(database: Database, claim: Claim, sentence: str) -> None:
    """Whoever ran it is gone: the next hub may take it up at once. Nothing where it is over, or somebody else's."""
    with database.writing() as session:
        try:
            row = held(session, claim)
        except ClaimLost:
            return
        now = database.now(session)
        row.claimed_until = now - timedelta(seconds=1)
        note(session, row, now, "note", sentence)


def _claimable(now: datetime) -> Select[ReleaseRow]:
    other = aliased(ReleaseRow)
    alone = ~exists().where(other.model == ReleaseRow.model, other.state == ReleaseState.RUNNING)
    due = or_(
        and_(ReleaseRow.state == ReleaseState.REQUESTED, ReleaseRow.not_before.is_(None)),
        and_(ReleaseRow.state.in_((ReleaseState.REQUESTED, ReleaseState.WAITING)), ReleaseRow.not_before <= now),
    )
    left = and_(ReleaseRow.state == ReleaseState.RUNNING, ReleaseRow.claimed_until < now)
    return (
        select(ReleaseRow)
        .where(or_(and_(due, alone), left))
        .order_by(ReleaseRow.requested_at, ReleaseRow.id)
        .limit(1)
        .with_for_update(skip_locked=True, key_share=True)
    )


def _take(session: Session, row: ReleaseRow, token: str, now: datetime, run: RunConfig) -> bool:
    crashed = row.state is ReleaseState.RUNNING
    if crashed and row.attempts >= run.attempts:
        finish(
            session, row, now, ReleaseState.FAILED, f"whoever ran it crashed, {row.attempts} times: ask for it again"
        )
        return False
    row.state, row.claimed_by, row.attempts = ReleaseState.RUNNING, token, row.attempts + 1
    row.claimed_until, row.not_before = now + timedelta(seconds=run.lease_seconds), None
    session.flush()
    words = f"taken up again at {row.stage or 'its beginning'}" if crashed or row.stage else "it runs"
    note(session, row, now, "state", words, state=row.state.value)
    return True
