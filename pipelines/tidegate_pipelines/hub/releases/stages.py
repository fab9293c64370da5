"""The steps of one release, each of which may be done again: a release that was cut short goes on where it stopped.

What each step begins with and ends in is written down first, so that another process can take it up.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path

from sqlalchemy import func, select

from tidegate_operators.steps import (
    Evidence,
    against_serving,
    canary,
    promote,
    push,
    require_passed,
    take_out,
    validate,
)
from tidegate_operators.steps.engine_group import engines_of
from tidegate_pipelines.hub.config import HubConfig, ReleaseConfig
from tidegate_pipelines.hub.releases.claims import ClaimLost
from tidegate_pipelines.hub.releases.fetch import MLFLOW, fetch, is_of_registry
from tidegate_pipelines.hub.releases.record import Change, Record
from tidegate_pipelines.hub.releases.requests import VERDICT, locked, note
from tidegate_pipelines.hub.store import FINAL, Database, ReleaseEventRow, ReleaseRow, ReleaseState, VerdictRow
from tidegate_serving.admission import Verdict, open_verdict
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract import times
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, Refused, TidegateError, Unavailable
from tidegate_serving.contract.repository import report_directory, verdict_path
from tidegate_serving.control_client import ControlClient
from tidegate_validation.progress import Progress

logger = logging.getLogger(__name__)
STAGES = ("fetch", "validate", "push", "canary", "promote")
"""In their order. A release that waits for a person stands before `push`."""
_IN_ENGINE = STAGES[STAGES.index("push") :]
_DELAYS = (2.0, 4.0, 8.0, 16.0, 32.0, 60.0)


class _Waits(Exception):
    """The release waits for somebody, and this process has no more to do with it."""


class _HeldBack(FailedPrecondition):
    """A freeze that began meanwhile ends the canary."""


@dataclass
class _Told:
    """Writes the name of each gate into the release's history as it begins."""

    record: Record
    last: str = ""
    works: list[str] = field(default_factory=list)

    def begin(self, work: str, parts: float | None = None, seconds: float | None = None) -> None:
        """Remembers what has begun."""
        self.works.append(work)

    def at(self, doing: str, done: float) -> None:
        """A gate has begun."""
        if len(self.works) == 1 and doing != self.last:
            self.last = doing
            self.record.note("progress", f"{self.works[0]}: {doing}", doing=doing, done=done)

    def end(self) -> None:
        """Forgets it."""
        self.works.pop()


def run_release(record: Record, config: HubConfig) -> None:
    """Takes the release to its end, or as far as it can go now, and writes down what came of it.

    What does not answer puts the release off; it is tried again after growing pauses. Somebody else's claim ends it.
    However it ends, a version that was not promoted is in no engine afterwards.
    """
    left: Callable[[str], str] = str
    try:
        steps = _Steps(record, config)
        left = steps.left
        if why := record.no_longer_wanted(steps.row):
            record.finish(ReleaseState.SUPERSEDED, left(why))
        else:
            record.finish(ReleaseState.RELEASED, steps.serves_already() or steps.all())
    except (ClaimLost, _Waits):
        return
    except Refused as error:
        record.finish(ReleaseState.REFUSED, left(error.message))
    except Unavailable as error:
        put_off(record, config, error, left)
    except TidegateError as error:
        record.finish(ReleaseState.FAILED, left(error.message))
    except Exception as error:
        logger.exception("release %d", record.claim.release_id)
        said = f"this is a fault of Tidegate, not yours: {type(error).__name__}: {error}; the hub's log shows where"
        record.finish(ReleaseState.FAILED, left(said))


def put_off(record: Record, config: HubConfig, error: Unavailable, left: Callable[[str], str] = str) -> None:
    """The release is tried again later, until the config's patience is over; it fails then with what `left` makes of
    its last sentence."""

    def edit(change: Change) -> str:
        row, patience = change.row, timedelta(seconds=config.run.patience_seconds)
        since = _put_off_since(change)
        if since is not None and change.now - since >= patience:
            return f"{error.message}; it was tried {row.delays + 1} times"
        row.not_before = change.now + timedelta(seconds=_DELAYS[min(row.delays, len(_DELAYS) - 1)])
        row.delays += 1
        row.state, row.claimed_by, row.claimed_until, row.attempts = ReleaseState.REQUESTED, "", None, 0
        row.sentence = error.message
        change.add("state", f"{error.message}; it is tried again", state=row.state.value, put_off=True)
        return ""

    with contextlib.suppress(ClaimLost):
        if sentence := record.change(edit):
            record.finish(ReleaseState.FAILED, left(sentence))


def _put_off_since(change: Change) -> datetime | None:
    """When it was put off for the first time in a row: since it was asked for, waited, or came to a new step."""
    events = select(ReleaseEventRow).where(ReleaseEventRow.release_id == change.row.id).order_by(ReleaseEventRow.id)
    since, begun = None, set()
    for event in change.session.scalars(events):
        if event.kind == "stage" and event.stage not in begun:
            begun.add(event.stage)
            since = None
        elif event.data.get("put_off"):
            since = since or event.at
        elif event.data.get("state") in (ReleaseState.REQUESTED.value, ReleaseState.WAITING.value):
            since = None
    return since


class _Steps:
    """One release on its way."""

    def __init__(self, record: Record, config: HubConfig) -> None:
        self.record = record
        self.config = config
        self.row: ReleaseRow = record.change(lambda change: change.row)
        self.stopped_at = self.stage = self.row.stage
        self.settings = _settings(config, self.row)
        self.engine = _engine(config, self.settings)

    def all(self) -> str:
        """The sentence that the release ends with. Raises what the steps raise."""
        directory = self.fetched()
        digest, sentence = self.judged(directory)
        try:
            self._clear_away()
        except Unavailable:
            self._require_clearance()  # One that waits needs no engine; it clears away when it goes on.
            raise
        self._require_clearance()
        name, version, timeout = self.row.model, self.row.version, self.settings.timeout_seconds
        why, who = f"release {self.row.id}", self.row.requested_by
        self._begin("push")
        push(directory=directory, control=self.engine, verdict=digest, timeout=timeout, reason=why, requested_by=who)
        if self.settings.canary and self.stopped_at != "promote":
            self._try()
        self._begin("promote")
        self._require_clearance()  # A freeze may have begun while the canary ran.
        promote(control=self.engine, servable=name, version=version, timeout=timeout, reason=why, requested_by=who)
        return sentence

    def left(self, sentence: str) -> str:
        """As `left_engine`, for this release where it stands now, and for those that gave way to it."""
        said = left_engine(self.config, self.row, self.stage, sentence)
        try:
            self._clear_away()
        except TidegateError as error:
            said += f". What {self.row.model} had under trial before may still be in an engine: {error.message}"
        return said

    def _clear_away(self) -> None:
        """Takes out what earlier releases left behind; what somebody gave a label since is theirs."""
        why = f"release {self.row.id} takes its place"
        for other in self._left_behind():
            take_out(control=self.engine, servable=self.row.model, version=other, reason=why, labelled=False)

    def _begin(self, stage: str) -> None:
        self.record.stage(stage)
        self.stage = stage

    def _try(self) -> None:
        def check() -> None:
            if wait := self.record.wait():
                raise _HeldBack(wait.sentence)

        self._begin("canary")
        name, version, rule = self.row.model, self.row.version, self.settings.rule
        try:
            tried = canary(control=self.engine, servable=name, version=version, rule=rule, check=check)
        except _HeldBack as error:
            self._require_clearance()
            raise Unavailable(f"{error.message}; that is over by now") from error
        self.record.note("finding", tried.sentence, outcome=tried.outcome.value, numbers=tried.numbers.to_dict())
        require_passed(tried)

    def _require_clearance(self) -> None:
        """Leaves a release that has to wait as one that does, with its version in no engine; one for which that is over
        by then is tried again at once."""
        wait = self.record.wait()
        if wait is None:
            return
        if self.stage in _IN_ENGINE:
            take_out(control=self.engine, servable=self.row.model, version=self.row.version, reason=wait.sentence)
        if not self.record.cleared():
            raise _Waits
        raise Unavailable(f"{wait.sentence}; that is over by now")

    def _left_behind(self) -> list[int]:
        """Versions whose releases ended while an engine that did not answer had them, as by giving way to this one."""
        last = select(func.max(ReleaseRow.id)).where(
            ReleaseRow.model == self.row.model, ReleaseRow.state == ReleaseState.RELEASED
        )
        ended = (
            select(ReleaseRow.version)
            .where(ReleaseRow.model == self.row.model, ReleaseRow.id < self.row.id)
            .where(ReleaseRow.id > func.coalesce(last.scalar_subquery(), 0), ReleaseRow.version != self.row.version)
            .where(ReleaseRow.state.in_(FINAL), ReleaseRow.stage.in_(_IN_ENGINE))
        )
        with self.record.database.reading() as session:
            return list(session.scalars(ended.distinct()))

    def serves_already(self) -> str:
        """A sentence where ordinary clients get this version by now, and no step is needed; else empty, as where the
        registry has another one under its number. Unavailable where the engine or the registry does not answer."""
        if self.stopped_at:
            return ""
        for one in engines_of(self.engine):
            with ControlClient(one) as client:
                found = client.servable(self.row.model)
            if found.ordinary != self.row.version:
                return ""
        asked_by_registry = self.row.source == MLFLOW and self.config.mlflow.address
        if asked_by_registry and not is_of_registry(self.config, self.settings, self.row):
            return ""
        return f"{self.row.model}:{self.row.version} serves already, so nothing had to be done"

    def fetched(self) -> Path:
        """The version's directory, brought into the repository where it is not there yet."""
        if self.row.directory:
            return Path(self.row.directory)
        self._begin("fetch")
        directory, digest = fetch(self.config, self.settings, self.row)

        def edit(change: Change) -> None:
            change.row.directory, change.row.digest = str(directory), digest

        self.record.change(edit)
        return directory

    def judged(self, directory: Path) -> tuple[str, str]:
        """The verdict's digest and sentence. Refused where it denies. A verdict that this release has already got is
        not asked for again."""
        known = self._known_verdict(directory)
        if known is None:
            known = self._judge(directory)
        if not known.allowed and known.digest != self.row.settings.get(VERDICT):
            raise Refused(known.sentence)
        return known.digest, known.sentence

    def _known_verdict(self, directory: Path) -> VerdictRow | None:
        path = verdict_path(directory)
        if not path.is_file():
            return None
        digest = open_verdict(path).digest
        with self.record.database.reading() as session:
            found = session.scalar(select(VerdictRow).where(VerdictRow.digest == digest))
        if found is None or (found.release_id != self.row.id and digest != self.row.settings.get(VERDICT)):
            return None
        return found

    def _judge(self, directory: Path) -> VerdictRow:
        self._begin("validate")
        settings = self.settings
        if not settings.held_out:
            raise InvalidInput(
                f"nothing says what to judge {self.row.model} by: name data that training never saw, "
                f"held_out = FILE under [models.{self.row.model}] or [releases] of the hub's config"
            )
        private_key = settings.private_key or self.config.private_key
        evidence = Evidence(
            settings.held_out,
            label=settings.label,
            training=settings.training,
            policy=settings.policy,
            entity=settings.entity,
        )
        evidence = against_serving(evidence, directory=directory, control=self.engine)
        progress: Progress = _Told(self.record)
        found = validate(directory, evidence, private_key=private_key, progress=progress)
        row = verdict_row(self.row, directory, found.verdict)

        def edit(change: Change) -> None:
            keep_verdict(change, row)

        self.record.change(edit)
        return row


def left_engine(config: HubConfig, row: ReleaseRow, stage: str, sentence: str) -> str:
    """A sentence that a release ends with, once its version is out of the engine where it stood in `stage`; with what
    the engine says, where it does not let go of it. One that was promoted stays."""
    if stage not in _IN_ENGINE:
        return sentence
    try:
        engine = _engine(config, _settings(config, row))
        take_out(control=engine, servable=row.model, version=row.version, reason=sentence)
    except TidegateError as error:
        return f"{sentence}. {row.model}:{row.version} may still be in an engine: {error.message}"
    return sentence


def out_of_engine(database: Database, config: HubConfig, release_id: int) -> ReleaseRow:
    """A cancelled release whose version may be in an engine, as one that was put off: the engine is told, and the
    release says where that was in vain."""
    with database.reading() as session:
        row = session.get_one(ReleaseRow, release_id)
    sentence = left_engine(config, row, row.stage, row.sentence)
    if sentence == row.sentence:
        return row
    with database.writing() as session:
        ended = locked(session, row.id)
        ended.sentence = sentence
        note(session, ended, database.now(session), "note", sentence)
        return ended


def _settings(config: HubConfig, row: ReleaseRow) -> ReleaseConfig:
    return config.release_of(row.model, {key: value for key, value in row.settings.items() if key != VERDICT})


def _engine(config: HubConfig, settings: ReleaseConfig) -> EngineConnection:
    connections = config.connections()
    return connections[settings.engine or next(iter(connections))]


def keep_verdict(change: Change, verdict: VerdictRow) -> None:
    """Once, however often it is found."""
    known = change.session.scalar(select(VerdictRow).where(VerdictRow.digest == verdict.digest))
    if known is None:
        change.session.add(verdict)
    change.add("finding", verdict.sentence, outcome=verdict.document["outcome"])


def verdict_row(release: ReleaseRow, directory: Path, verdict: Verdict) -> VerdictRow:
    """The verdict that lies beside a version, for the table."""
    envelope = open_verdict(verdict_path(directory))
    return VerdictRow(
        release_id=release.id,
        model=release.model,
        version=release.version,
        digest=envelope.digest,
        allowed=verdict.allowed,
        sentence=verdict.sentence,
        document=verdict.to_dict(),
        signed_at=times.from_text(verdict.issued_at, "issued_at"),
        key_id=next(iter(envelope.signatures), ""),
        report=str(report_directory(directory)),
    )
