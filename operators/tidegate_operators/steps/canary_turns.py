"""A canary that is looked at in turns, for an orchestrator that waits elsewhere in between, or is killed and goes on.

What is known between two turns lies beside the version's report: who observes, since when, and how it ended.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from tidegate_operators.steps.away import is_away
from tidegate_operators.steps.canary import (
    RECORD_NAME,
    Observation,
    Resumption,
    begin,
    observe,
    read_result,
    write_failure,
    write_result,
)
from tidegate_operators.steps.canary_group import CanaryGroup
from tidegate_operators.steps.canary_pairs import StepBegun
from tidegate_operators.steps.canary_traffic import TrafficObservation, has_split, take_out_of
from tidegate_serving.admission import Outcome
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract import times
from tidegate_serving.contract.errors import DeadlinePassed, TidegateError, Unavailable
from tidegate_serving.contract.formats import check_format
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.repository import report_directory
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.control_client import ControlClient
from tidegate_serving.files import write_json
from tidegate_validation.canary.judgement import CanaryResult
from tidegate_validation.canary.numbers import CanaryNumbers
from tidegate_validation.canary.rule import CanaryMode, CanaryRule
from tidegate_validation.counts import counted

_VERSION = "1"
logger = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class CanaryTurn:
    """One turn. `run` names the observation: the same one goes on where it was, and once it has ended its result
    stands, unless it was a refusal and the version was pushed anew. A turn ends after `patience` seconds although
    nothing is decided."""

    run: str
    patience: float


@dataclass(frozen=True, slots=True)
class _Record:
    """What is known of the last observation of a version; `step` is its share of traffic where it gets one, `result`
    None while it goes on."""

    run: str
    manifest_digest: str
    since: datetime
    step: StepBegun | None = None
    result: CanaryResult | None = None

    def write(self, directory: Path) -> None:
        ended = None if self.result is None else self.result.to_dict()
        document = {
            "format": f"tidegate.canary-run/{_VERSION}",
            "run": self.run,
            "manifest_digest": self.manifest_digest,
            "since": self.since.isoformat(),
            "step": None if self.step is None else {"number": self.step.number, "at": self.step.at.isoformat()},
            "result": ended,
        }
        write_json(report_directory(directory) / RECORD_NAME, document)


def canary_turn(
    *,
    directory: Path,
    control: str | EngineConnection,
    turn: CanaryTurn,
    rule: CanaryRule | None = None,
    clock: Callable[[], datetime] = lambda: datetime.now(UTC),
) -> CanaryResult | None:
    """Observes the version in `directory` for a turn, as `canary` does; None where the observation has to go on.

    While it goes on the shadow, or the share of traffic, stays on. In the end the shadow is off, and unless the
    version passed it is given up; where the turn itself fails, so too, unless the engine did not answer: the next turn
    goes on then.
    """
    rule = rule or CanaryRule()
    manifest, digest = read_manifest(directory)
    before = _read(directory)
    known = before if before is not None and (before.run, before.manifest_digest) == (turn.run, digest) else None
    group = CanaryGroup(control, resumed=known is not None)
    ended = None if known is None else known.result
    if ended is not None:
        if not all(group.tell(lambda client: _was_pushed_again(client, manifest.id, ended))):
            _end_again(group, manifest.id, directory, ended, rule, known.step if known else None, digest)
            return ended
        known, group = None, CanaryGroup(control)
    record = known or _Record(turn.run, digest, clock())

    def keep(step: StepBegun) -> None:
        nonlocal record
        record = replace(record, step=step)
        record.write(directory)

    try:
        observation = begin(group, manifest.id, rule, Resumption(record.since, record.step, keep))
    except TidegateError as error:
        if known is not None and not is_away(error):
            _give_up(group, manifest.id, directory, error, digest)
        raise
    try:
        if known is None:
            record.write(directory)
        left = (record.since + timedelta(seconds=rule.seconds) - clock()).total_seconds()
        result = observe(lambda: observation.look(group), max(min(turn.patience, left), 0.0))
        if not result.decided and turn.patience < left:
            compared = counted(result.numbers.compared, "answer")
            logger.info("%s: %s compared so far, %.0f s are left", manifest.id, compared, left - turn.patience)
            return None
        write_result(directory, result, observation.manifest_digest)
        replace(record, result=result).write(directory)
    except (Unavailable, DeadlinePassed):  # the next turn goes on
        raise
    except BaseException as error:
        try:
            write_failure(directory, error, observation.manifest_digest)
        finally:
            observation.end(group, passed=False)
        raise
    observation.end(group, result.allowed)
    return result


def _give_up(group: CanaryGroup, identity: ServableId, directory: Path, error: TidegateError, digest: str) -> None:
    """Of an interrupted canary that cannot go on: the error is its result, and its version is taken out."""
    why = f"the canary of {identity} could not go on"
    try:
        write_failure(directory, error, digest)
    finally:
        group.tell(lambda client: take_out_of(client, identity, why))


def last_result(directory: Path) -> CanaryResult | None:
    """How the last canary of the version in `directory` ended; None while it goes on, where there was none, and where
    it tried other files under this number; ERROR where an error ended it.

    Tampered or Unsupported for a file that is no such result.
    """
    going_on = _read(directory)
    if going_on is not None and going_on.result is None:
        return None
    return read_result(directory)


def _was_pushed_again(client: ControlClient, identity: ServableId, result: CanaryResult) -> bool:
    """Whether somebody pushed the version after its refusal, which was carried out: there is no shadow and no split
    any more."""
    if result.allowed:
        return False
    status = client.servable(identity.name)
    pushed = status.desired.version(identity.version) is not None and status.desired.shadow is None
    return pushed and not has_split(status, identity)


def _end_again(
    group: CanaryGroup,
    identity: ServableId,
    directory: Path,
    result: CanaryResult,
    rule: CanaryRule,
    reached: StepBegun | None,
    digest: str,
) -> None:
    """What follows from a result, for a task that was killed between writing it and doing it."""
    states = group.tell(lambda client: client.desired(identity.name))
    live = [desired for desired in states if desired.version(identity.version) is not None]
    primary, now = live[0].stable if live else None, times.now()
    if primary is None or primary == identity.version:
        return
    if rule.mode is CanaryMode.TRAFFIC:
        step = reached or StepBegun(0, now)
        TrafficObservation(identity, directory, digest, primary, now, Path(), rule, step).end(group, result.allowed)
    else:
        Observation(identity, directory, digest, primary, now, Path(), rule).end(group, result.allowed)


def _read(directory: Path) -> _Record | None:
    path = report_directory(directory) / RECORD_NAME
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError:
        return None
    check_format(document, kind="canary-run", version=_VERSION, where=str(path))
    ended, step = document["result"], document.get("step")
    return _Record(
        document["run"],
        document["manifest_digest"],
        times.from_text(document["since"], f"since of {path}"),
        None if step is None else StepBegun(step["number"], times.from_text(step["at"], f"step of {path}")),
        None
        if ended is None
        else CanaryResult(Outcome(ended["outcome"]), ended["sentence"], CanaryNumbers.from_dict(ended)),
    )
