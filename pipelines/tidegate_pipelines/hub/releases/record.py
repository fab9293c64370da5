"""What a running release writes down, always under its claim: a process that lost it writes nothing more."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from dataclasses import dataclass
from datetime import datetime
from typing import Any, TypeVar

from sqlalchemy.orm import Session

from tidegate_pipelines.hub.releases.claims import Claim, ClaimLost, held
from tidegate_pipelines.hub.releases.clearance import Clearance, Wait, nothing_to_wait_for
from tidegate_pipelines.hub.releases.requests import finish, note
from tidegate_pipelines.hub.store import Database, ReleaseRow, ReleaseState
from tidegate_serving.contract.errors import Unavailable

logger = logging.getLogger(__name__)
T = TypeVar("T")
_RETRY_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class Change:
    """One transaction over the release; `now` is the database's time."""

    session: Session
    row: ReleaseRow
    now: datetime

    def add(self, kind: str, text: str, **data: Any) -> None:
        """Adds to the history."""
        note(self.session, self.row, self.now, kind, text, **data)


@dataclass(frozen=True, slots=True)
class Record:
    """One release's rows, for the process that has the claim, and whom to ask about it.

    `lost` is set once the claim may be another's. `no_longer_wanted` says, as a sentence, why whoever asked for the
    release does not want it any more; empty where they do.
    """

    database: Database
    claim: Claim
    lost: threading.Event
    clearance: Clearance = nothing_to_wait_for
    no_longer_wanted: Callable[[ReleaseRow], str] = lambda release: ""

    def change(self, edit: Callable[[Change], T]) -> T:
        """What `edit` gives, in a transaction. ClaimLost where the release is another's by now.

        A database that does not answer is waited for as long as the claim lasts, and `edit` called again.
        """
        while not self.lost.is_set():
            try:
                with self.database.writing() as session:
                    row = held(session, self.claim)
                    return edit(Change(session, row, self.database.now(session)))
            except Unavailable as error:
                logger.warning("release %d waits: %s", self.claim.release_id, error.message)
                self.lost.wait(_RETRY_SECONDS)
        raise ClaimLost

    def stage(self, name: str) -> None:
        """A step begins."""

        def edit(change: Change) -> str:
            change.row.stage = name
            change.add("stage", name)
            return f"{change.row.model}:{change.row.version}"

        logger.info("release %d of %s: %s", self.claim.release_id, self.change(edit), name)

    def note(self, kind: str, text: str, **data: Any) -> None:
        """Adds to the history."""
        self.change(lambda change: change.add(kind, text, **data))

    def wait(self) -> Wait | None:
        """What it would have to wait for now; None for nothing."""
        return self.change(lambda change: self.clearance(change.session, change.row))

    def cleared(self) -> bool:
        """Whether nobody has to be asked, and nothing waited for; else the release is left as one that waits."""

        def edit(change: Change) -> bool:
            row = change.row
            wait = self.clearance(change.session, row)
            if wait is not None:
                row.state, row.sentence, row.not_before = ReleaseState.WAITING, wait.sentence, wait.until
                row.claimed_by, row.claimed_until, row.attempts = "", None, 0
                change.add("state", wait.sentence, state=row.state.value)
            return wait is None

        return self.change(edit)

    def finish(self, state: ReleaseState, sentence: str) -> None:
        """The release has ended so. Nothing where somebody else has it."""

        def edit(change: Change) -> None:
            change.row.delays = 0
            finish(change.session, change.row, change.now, state, sentence)

        try:
            self.change(edit)
        except ClaimLost:
            logger.warning("release %d is another's by now: %s is not written", self.claim.release_id, state.value)
        else:
            logger.info("release %d is %s: %s", self.claim.release_id, state.value, sentence)
