"""Releases that ran without the hub, such as a DAG that somebody else started: kept once they are over.

Verdict and canary are read from the model repository, never taken from the message.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from sqlalchemy import select
from sqlalchemy.orm import Session

from tidegate_operators.steps.canary import REPORT_NAME, read_result
from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.releases.requests import finish, is_last, know_model, note
from tidegate_pipelines.hub.releases.stages import STAGES, verdict_row
from tidegate_pipelines.hub.store import Database, ReleaseRow, ReleaseState, VerdictRow
from tidegate_serving.admission import Outcome, claimed_verdict
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.repository import report_directory, verdict_path, version_directory
from tidegate_serving.contract.servable import ServableId, check_name
from tidegate_validation.canary.judgement import CanaryResult

ELSEWHERE = "elsewhere"
"""Where such a release came from, in the table's words."""
_AHEAD = timedelta(minutes=5)
"""As far ahead of the database's clock another machine's may be."""


@dataclass(frozen=True, slots=True)
class StageBegun:
    """A stage that the release reached, and when it began."""

    name: str
    at: datetime


@dataclass(frozen=True, slots=True)
class Told:
    """A release that is over. `key` makes it arrive once; `sentence` is what its last step said where it did not come
    through, and `run` leads to whatever ran it."""

    model: str
    version: int
    succeeded: bool
    begun: datetime
    ended: datetime
    key: str
    told_by: str
    sentence: str = ""
    run: str = ""
    stages: Sequence[StageBegun] = ()

    def __post_init__(self) -> None:
        check_name(self.model)
        if self.version < 1:
            raise InvalidInput(f"version {self.version} of {self.model} is no version: use 1 or more")
        if self.ended < self.begun:
            raise InvalidInput(f"ended {self.ended} lies before begun {self.begun}: exchange them")
        for one in self.stages:
            if one.name not in STAGES:
                raise InvalidInput(f"stage {one.name[:100]!r} is unknown: use {', '.join(STAGES)}")


def keep_told(
    database: Database, config: HubConfig, told: Told, kept: Callable[[Session, ReleaseRow], None]
) -> ReleaseRow:
    """The release in the table, with what it left in the repository since it began; the same again for a known key.
    `kept` is called last in the transaction of a new one."""
    settings = config.release_of(told.model)
    root = settings.repository or config.repository
    directory = version_directory(root, ServableId(told.model, told.version))
    with database.writing() as session:
        known = session.scalar(select(ReleaseRow).where(ReleaseRow.request_key == told.key))
        if known is not None:
            return known
        ahead = told.ended - database.now(session)
        if ahead > _AHEAD:
            raise InvalidInput(
                f"ended {told.ended} lies {ahead.total_seconds():.0f} s ahead of the hub's clock: tell a release once "
                "it is over, and set the clocks of both machines"
            )
        know_model(session, told.model, told.begun)
        row = ReleaseRow(
            model=told.model,
            version=told.version,
            source=ELSEWHERE,
            request_key=told.key,
            requested_by=told.told_by,
            requested_at=told.begun,
            state=ReleaseState.REQUESTED,
            external_run=told.run,
            directory=str(directory) if directory.is_dir() else "",
        )
        session.add(row)
        session.flush()
        is_last(session, row)
        note(session, row, told.begun, "state", "it ran without the hub", state=ReleaseState.RUNNING.value)
        verdict, canary = _verdict(row, directory, told), _canary(directory, told)
        _note_stages(session, row, told, verdict, canary)
        state = _state(told, verdict, canary[1] if canary else None)
        finish(session, row, told.ended, state, _sentence(told, verdict))
        kept(session, row)
    return row


def _note_stages(
    session: Session,
    row: ReleaseRow,
    told: Told,
    verdict: VerdictRow | None,
    canary: tuple[datetime, CanaryResult] | None,
) -> None:
    """In the order in which it happened."""
    found: list[tuple[datetime, str, str, str, dict[str, Any]]] = [
        (one.at, one.name, "stage", one.name, {}) for one in told.stages
    ]
    if verdict is not None:
        row.digest = verdict.document["manifest_digest"]
        if session.scalar(select(VerdictRow.id).where(VerdictRow.digest == verdict.digest)) is None:
            session.add(verdict)
        data = {"outcome": verdict.document["outcome"]}
        found.append((verdict.signed_at, "validate", "finding", verdict.sentence, data))
    if canary is not None:
        at, result = canary
        data = {"outcome": result.outcome.value, "numbers": result.numbers.to_dict()}
        found.append((at, "canary", "finding", result.sentence, data))
    for at, stage, kind, text, data in sorted(found, key=lambda one: one[0]):
        row.stage = stage
        note(session, row, at, kind, text, **data)


def _verdict(row: ReleaseRow, directory: Path, told: Told) -> VerdictRow | None:
    path = verdict_path(directory)
    if not path.is_file() or path.stat().st_mtime < told.begun.timestamp():
        return None
    return verdict_row(row, directory, claimed_verdict(path))


def _canary(directory: Path, told: Told) -> tuple[datetime, CanaryResult] | None:
    """What a canary left since the release began, and when."""
    path = report_directory(directory) / REPORT_NAME
    if not path.is_file() or path.stat().st_mtime < told.begun.timestamp():
        return None
    result = read_result(directory)
    return None if result is None else (datetime.fromtimestamp(path.stat().st_mtime, UTC), result)


def _state(told: Told, verdict: VerdictRow | None, canary: CanaryResult | None) -> ReleaseState:
    if told.succeeded:
        return ReleaseState.RELEASED
    denied = (verdict is not None and not verdict.allowed) or (
        canary is not None and not canary.allowed and canary.outcome is not Outcome.ERROR
    )
    return ReleaseState.REFUSED if denied else ReleaseState.FAILED


def _sentence(told: Told, verdict: VerdictRow | None) -> str:
    if verdict is not None and (told.succeeded or not verdict.allowed):
        return verdict.sentence
    return told.sentence
