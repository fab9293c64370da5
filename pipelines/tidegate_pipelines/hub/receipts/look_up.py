"""Finds a request in the logs of all engines, and the files of the versions that answered it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

from sqlalchemy import select
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.store import Database, EngineRow, ReleaseRow
from tidegate_pipelines.receipts import LoggedAnswer, Receipt, check_request_id, find_answers, receipt_of
from tidegate_pipelines.receipts.logged import nothing_logged
from tidegate_serving.contract.errors import FailedPrecondition, NotFound, ResourceExhausted
from tidegate_serving.contract.repository import version_directory
from tidegate_serving.contract.servable import ServableId

Sees = Callable[[str], bool]
"""Whether somebody may see what was asked of a model."""
Check = Callable[[str], None]
"""Raises PermissionRefused where somebody may not have a model asked again."""
_MOST_AGAIN = 5
_WAIT_SECONDS = 30.0
_MOST_WAITING = 4
"""Each takes one of the threads that answer everybody."""

_BUSY = "the hub computes other answers again: ask once more in a moment"


class Receipts:
    """Safe to use from several threads; one answer at a time is computed again, as a model takes memory."""

    def __init__(self, config: HubConfig, database: Database) -> None:
        self._config = config
        self._database = database
        self._computing = threading.Lock()
        self._places = threading.BoundedSemaphore(1 + _MOST_WAITING)

    def find(self, request_id: str, model: str | None, sees: Sees) -> list[Receipt]:
        """The receipts of a request, the newest first, of models that somebody sees. NotFound where there is none, as
        for one that is somebody else's; FailedPrecondition where no log can be read here."""
        return [receipt_of(one, self._directory(one), again=False) for one in self._answers(request_id, model, sees)]

    def compute_again(self, request_id: str, model: str | None, sees: Sees, check: Check) -> list[Receipt]:
        """The same, and the newest few are computed again. ResourceExhausted where others are under way; what `check`
        raises."""
        answers = self._answers(request_id, model, sees)
        for name in {one.model for one in answers}:
            check(name)
        if not self._places.acquire(blocking=False):
            raise ResourceExhausted(_BUSY)
        try:
            return self._one_at_a_time(answers)
        finally:
            self._places.release()

    def _one_at_a_time(self, answers: list[LoggedAnswer]) -> list[Receipt]:
        if not self._computing.acquire(timeout=_WAIT_SECONDS):
            raise ResourceExhausted(_BUSY)
        try:
            return [
                receipt_of(one, self._directory(one), again=place < _MOST_AGAIN) for place, one in enumerate(answers)
            ]
        finally:
            self._computing.release()

    def _answers(self, request_id: str, model: str | None, sees: Sees) -> list[LoggedAnswer]:
        check_request_id(request_id)
        roots = self._logs()
        found = [one for root in roots for one in _found(root, request_id, model) if sees(one.model)]
        if not found:
            raise NotFound(nothing_logged(request_id, "of the engines that this hub watches", model))
        return sorted(found, key=lambda one: one.received_at, reverse=True)

    def _logs(self) -> list[Path]:
        """The logs that engines said they keep, each once, as far as they lie where this hub sees them."""
        with self._database.reading() as session:
            said = {str(row.status.get("log_path") or "") for row in session.scalars(select(EngineRow))} - {""}
        if not said:
            raise FailedPrecondition("no engine of this hub keeps an inference log: start them with --log-path")
        here = [Path(path) for path in sorted(said) if Path(path).is_dir()]
        if not here:
            where = ", ".join(sorted(said))
            raise FailedPrecondition(f"the engines' logs lie in {where}, which this hub does not see: mount them there")
        return here

    def _directory(self, answer: LoggedAnswer) -> Path | None:
        """Where the version's files lie: where its last release had them, else in the model repository."""
        with self._database.reading() as session:
            found = next(_directories(session, answer), None)
        if found is not None:
            return found
        root = self._config.release_of(answer.model).repository or self._config.repository
        return version_directory(root, ServableId(answer.model, answer.version))


def _directories(session: Session, answer: LoggedAnswer) -> Iterator[Path]:
    query = (
        select(ReleaseRow.directory)
        .where(ReleaseRow.model == answer.model, ReleaseRow.version == answer.version, ReleaseRow.directory != "")
        .order_by(ReleaseRow.id.desc())
    )
    yield from (path for path in map(Path, session.scalars(query)) if path.is_dir())


def _found(root: Path, request_id: str, model: str | None) -> list[LoggedAnswer]:
    try:
        return find_answers(root, request_id, model)
    except NotFound:
        return []
