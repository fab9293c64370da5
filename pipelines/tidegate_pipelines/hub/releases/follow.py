"""Releases that run elsewhere: started once, followed by whichever hub has the claim, and ended as their run ended."""

from __future__ import annotations

import logging
import threading
import uuid
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from tidegate_operators.steps.canary import REPORT_NAME, read_result
from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.releases.claims import Claim, ClaimLost, abandon, claim_next, renew
from tidegate_pipelines.hub.releases.clearance import Clearance, nothing_to_wait_for
from tidegate_pipelines.hub.releases.record import Change, Record
from tidegate_pipelines.hub.releases.stages import keep_verdict, put_off, verdict_row
from tidegate_pipelines.hub.store import Database, ReleaseRow, ReleaseState
from tidegate_serving.admission import claimed_verdict
from tidegate_serving.contract.errors import TidegateError, Unavailable
from tidegate_serving.contract.repository import report_directory, verdict_path, version_directory
from tidegate_serving.contract.servable import ServableId

logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Ended:
    """How a run ended, with a sentence that leads to it."""

    well: bool
    sentence: str


class Runs(Protocol):
    """What runs releases elsewhere. Unavailable where it does not answer."""

    def start(self, release: ReleaseRow) -> str:
        """The run's id; the same release always gets the same run."""

    def ended(self, run: str) -> Ended | None:
        """How it ended; None while it runs."""

    def close(self) -> None:
        """Closes connections."""


class Follower:
    """A thread that starts runs and looks at them. What it did not live to see ended, another hub follows."""

    def __init__(
        self,
        config: HubConfig,
        database: Database,
        name: str,
        runs: Runs,
        no_longer_wanted: Callable[[ReleaseRow], str],
        poll_seconds: float,
        clearance: Clearance = nothing_to_wait_for,
    ) -> None:
        self._config = config
        self._database = database
        self._name = name
        self._runs = runs
        self._no_longer_wanted = no_longer_wanted
        self._poll_seconds = poll_seconds
        self._clearance = clearance
        self._claims: list[Claim] = []
        self._wake = threading.Event()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="runs")

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def wake(self) -> None:
        """There may be something to claim."""
        self._wake.set()

    def stop(self) -> None:
        """Leaves the runs to whoever comes next."""
        self._stopping.set()
        self._wake.set()
        self._thread.join()
        for claim in self._claims:
            try:
                abandon(self._database, claim, "the hub was stopped; the run goes on")
            except TidegateError as error:
                logger.warning("%s", error.message)
        self._runs.close()

    def _run(self) -> None:
        pause = min(self._poll_seconds, self._config.run.lease_seconds / 3)
        while not self._stopping.is_set():
            try:
                while (claim := claim_next(self._database, self._token(), self._config.run)) is not None:
                    self._claims.append(claim)
                self._claims = [claim for claim in self._claims if self._goes_on(claim)]
            except Unavailable as error:
                logger.warning("%s: it is asked again", error.message)
            except Exception:
                logger.exception("runs: this is a fault of Tidegate; it is tried again")
            self._wake.wait(pause)
            self._wake.clear()

    def _token(self) -> str:
        return f"{self._name}/{uuid.uuid4().hex[:12]}"

    def _goes_on(self, claim: Claim) -> bool:
        """Whether the release is still ours and not over."""
        record = Record(self._database, claim, threading.Event(), self._clearance)
        try:
            renew(self._database, claim, self._config.run)
            row = record.change(lambda change: change.row)
            return self._looked(record, row) if row.external_run else self._begun(record, row)
        except ClaimLost:
            return False
        except Unavailable as error:
            logger.warning("release %d: %s; it is looked at again", claim.release_id, error.message)
        except TidegateError as error:
            record.finish(ReleaseState.FAILED, error.message)
            return False
        except Exception:
            logger.exception("release %d: this is a fault of Tidegate; it is looked at again", claim.release_id)
        return True

    def _begun(self, record: Record, row: ReleaseRow) -> bool:
        try:
            if why := self._no_longer_wanted(row):
                record.finish(ReleaseState.SUPERSEDED, why)
                return False
            if not record.cleared():
                return False
            run = self._runs.start(row)
        except Unavailable as error:
            put_off(record, self._config, error)
            return False

        def edit(change: Change) -> None:
            change.row.external_run, change.row.stage = run, "run"
            change.add("stage", "run", run=run)

        record.change(edit)
        return True

    def _looked(self, record: Record, row: ReleaseRow) -> bool:
        """A run that nobody can be asked about goes on: it keeps its claim, so that no newer one runs beside it."""
        try:
            ended = self._runs.ended(row.external_run)
        except Unavailable as error:
            _say_once(record, row, f"{error.message}; the run goes on, and is looked at again")
            return True
        if ended is None:
            return True
        state, sentence = (ReleaseState.RELEASED if ended.well else ReleaseState.FAILED), ended.sentence
        verdict = self._keep_verdict(record, row)
        self._keep_canary(record, row)
        if verdict is not None:
            sentence = f"{verdict[1]} ({ended.sentence})"
            state = state if ended.well or verdict[0] else ReleaseState.REFUSED
        record.finish(state, sentence)
        return False

    def _keep_verdict(self, record: Record, row: ReleaseRow) -> tuple[bool, str] | None:
        """Whether the verdict that the run left in the repository allows, and its sentence; None where it left none."""
        directory = self._directory(row)
        path: Path = verdict_path(directory)
        if not _is_of(row, path):
            return None
        verdict = claimed_verdict(path)
        found = verdict_row(row, directory, verdict)

        def edit(change: Change) -> None:
            keep_verdict(change, found)
            change.row.directory, change.row.digest = str(directory), verdict.manifest_digest

        record.change(edit)
        return verdict.allowed, verdict.sentence

    def _keep_canary(self, record: Record, row: ReleaseRow) -> None:
        """What the run's canary wrote beside the version, as one that runs here says it."""
        directory = self._directory(row)
        tried = read_result(directory) if _is_of(row, report_directory(directory) / REPORT_NAME) else None
        if tried is not None:
            record.note("finding", tried.sentence, outcome=tried.outcome.value, numbers=tried.numbers.to_dict())

    def _directory(self, row: ReleaseRow) -> Path:
        repository = self._config.release_of(row.model).repository or self._config.repository
        return version_directory(repository, ServableId(row.model, row.version))


def _say_once(record: Record, row: ReleaseRow, sentence: str) -> None:
    def edit(change: Change) -> None:
        change.row.sentence = sentence
        change.add("note", sentence)

    if row.sentence != sentence:
        record.change(edit)


def _is_of(row: ReleaseRow, path: Path) -> bool:
    """Whether a file was written after the release was asked for, not by an earlier one."""
    return path.is_file() and path.stat().st_mtime >= row.requested_at.timestamp()
