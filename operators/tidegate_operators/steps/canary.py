"""Lets a pushed version answer live traffic beside the version that serves, and says whether it did well.

In mode shadow it answers copies, in mode traffic a growing share of clients. Numbers come from the inference log; where
it is not mounted here the engine gives them out. In the end the shadow is off and a version that did not pass is gone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from tidegate_operators.steps.canary_group import CanaryGroup
from tidegate_operators.steps.canary_log import read_numbers
from tidegate_operators.steps.canary_pairs import StepBegun
from tidegate_operators.steps.canary_traffic import (
    TrafficObservation,
    begin_traffic,
    classes_among,
    ends_us,
    take_out_of,
)
from tidegate_operators.steps.change_desired import change, give_up
from tidegate_operators.steps.decided import check_not_blocked
from tidegate_operators.steps.superseded import (
    check_beside,
    check_not_promoted,
    check_other_gets_requests,
    check_shadow_is_free,
    check_shadow_is_ours,
    require_live,
)
from tidegate_serving.admission import Outcome
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.desired_state import DesiredState, Shadow
from tidegate_serving.contract.errors import FailedPrecondition, Refused, Tampered, TidegateError
from tidegate_serving.contract.formats import MALFORMED, check_format
from tidegate_serving.contract.manifest import FILE_NAME, read_manifest
from tidegate_serving.contract.repository import report_directory
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.control_client import ControlClient, ServableStatus
from tidegate_serving.files import write_json
from tidegate_validation.canary.judgement import CanaryResult, judge
from tidegate_validation.canary.numbers import CanaryNumbers
from tidegate_validation.canary.rule import CanaryMode, CanaryRule
from tidegate_validation.progress import SILENT, Progress, working

REPORT_NAME = "canary.json"
RECORD_NAME = "canary-run.json"
"""What a canary in turns knows between two of them; see `canary_turns`."""
_VERSION = "1"
_POLL_SECONDS = 0.5
_CLOCKS_SECONDS = 60.0


def canary(
    *,
    control: str | EngineConnection,
    servable: str,
    version: int,
    rule: CanaryRule | None = None,
    progress: Progress = SILENT,
    check: Callable[[], None] = lambda: None,
) -> CanaryResult:
    """Tries a live version until it is surely good enough or surely not, at most `rule.within_seconds`: on copies of
    traffic, or with `rule.mode` traffic on a share of clients, which grows. In a group every engine is told, and the
    evidence is that of all their logs; while one of them does not answer, nothing grows or passes. Where none answers
    that is to be told something they are waited for, for a minute.

    It may be looked at all the time: the evidence is such that looking costs no error rate. The result is also written
    as `canary.json` into the version's report directory. Whatever happens the shadow is off afterwards, and unless the
    version passed it is given up; one that passed in traffic keeps its share until it is promoted. A first version,
    with nothing beside it, gets WARN: there is no traffic to share. Superseded where another release took its place, or
    the canary of a newer version is under way; FailedPrecondition where the version was never pushed, the engine keeps
    no log, or somebody else splits the traffic. `check` is called before each look, and what it raises ends the canary.
    """
    rule = rule or CanaryRule()
    group = CanaryGroup(control)
    observation = begin(group, ServableId(servable, version), rule)
    result = None

    def look() -> CanaryResult:
        check()
        return observation.look(group, progress)

    try:
        with working(progress, f"canary of {observation.id}", rule.pairs, rule.seconds):
            result = observe(look, rule.seconds)
        write_result(observation.directory, result, observation.manifest_digest)
    except BaseException as error:
        write_failure(observation.directory, error, observation.manifest_digest)
        raise
    finally:
        _end(observation, group, result)
    return result


def _end(observation: Observation | TrafficObservation, group: CanaryGroup, result: CanaryResult | None) -> None:
    """Ends it. Where the engine refuses that, as one whose model was frozen does, the error tells the result, too."""
    try:
        observation.end(group, result is not None and result.allowed)
    except FailedPrecondition as error:
        if result is None:
            raise
        stays = f"{observation.id} stays as it is, with the requests that it gets"
        raise FailedPrecondition(f"{result.sentence} But {stays}: {error.message}") from error


@dataclass(frozen=True, slots=True)
class Observation:
    """A canary under way: the version, where it lies, whom it is compared with since when, and the log of both.

    `primary` is None for a first version, which has nothing beside it.
    """

    id: ServableId
    directory: Path
    manifest_digest: str
    primary: int | None
    since: datetime
    log_path: Path
    rule: CanaryRule

    def look(self, group: CanaryGroup, progress: Progress = SILENT) -> CanaryResult:
        """What the log says by now; WARN for a first version."""
        if self.primary is None:
            sentence = f"{self.id} is what ordinary clients get already, so there was no traffic to share."
            return CanaryResult(Outcome.WARN, sentence, CanaryNumbers())
        missing = group.missing(self.id, lambda client: _turn_on(client, self.id, self.rule, self.since))
        primary = self.primary

        def check(status: ServableStatus) -> None:
            check_shadow_is_ours(status, self.id.version)
            check_not_blocked(status, self.id.version)
            check_beside(status, self.id.version, primary)

        group.check(self.id.name, check)
        log = group.logged(self.log_path, self.id, self.primary, self.since)
        numbers = read_numbers(log, self.id, self.primary, self.since, self.rule)
        result = judge(str(self.id), numbers, self.rule)
        progress.at("answers compared", result.numbers.compared)
        return missing.told_in(result)

    def end(self, group: CanaryGroup, passed: bool) -> None:
        """The shadow is off afterwards, and a version that did not pass is wanted no more."""
        reason = f"the canary of {self.id} ended"
        if not passed:
            group.tell(lambda client: give_up(client, self.id.name, self.id.version, reason))
        elif self.primary is not None:
            group.tell(lambda client: change(client, self.id.name, self._without_shadow, reason))

    def _without_shadow(self, status: ServableStatus) -> DesiredState:
        desired = status.desired
        ours = desired.shadow is not None and desired.shadow.version == self.id.version
        return replace(desired, shadow=None) if ours else desired


@dataclass(frozen=True, slots=True)
class Resumption:
    """Where an observation stood that was interrupted, and whom to tell of each step in traffic before it is made."""

    since: datetime
    step: StepBegun | None = None
    keep: Callable[[StepBegun], None] = lambda step: None


def begin(
    group: CanaryGroup, identity: ServableId, rule: CanaryRule, resumption: Resumption | None = None
) -> Observation | TrafficObservation:
    """Turns the shadow, or the first share, on; with `resumption` an observation that was interrupted goes on.

    Where it cannot begin, the version is taken out with the error as its result; what becomes of one that was
    interrupted is its caller's.
    """
    desired, primary, log_root = group.begin(identity)
    live = desired.version(identity.version)
    directory, digest = (Path(), "") if live is None else (live.directory, live.manifest_digest)
    if not group.resumed:
        for name in (REPORT_NAME, RECORD_NAME):
            (report_directory(directory) / name).unlink(missing_ok=True)
    resumption = resumption or Resumption(datetime.now(UTC))
    since = resumption.since
    if desired.stable in (None, identity.version) and primary in (None, identity.version):
        return Observation(identity, directory, digest, None, since, Path(), rule)
    try:
        if primary is None or primary == identity.version:
            group.check(identity.name, lambda status: check_other_gets_requests(status, identity.version))
            raise FailedPrecondition(f"{identity} got all ordinary requests when its canary began: release it again")
        log_path = _require_log(log_root)
        if rule.mode is CanaryMode.TRAFFIC:
            group.tell(lambda client: _check_clock_in(client, identity))
            step, classes = resumption.step or StepBegun(0, since), classes_among(desired, directory)
            growing = TrafficObservation(
                identity, directory, digest, primary, since, log_path, rule, step, resumption.keep, classes
            )
            begin_traffic(group, growing)
            return growing
        group.tell(lambda client: _turn_on(client, identity, rule, since))
    except TidegateError as error:
        if group.resumed:
            raise
        why = f"the canary of {identity} could not begin"
        try:
            write_failure(directory, error, digest)
        finally:
            group.tell(lambda client: take_out_of(client, identity, why))
        raise
    return Observation(identity, directory, digest, primary, since, log_path, rule)


def write_result(directory: Path, result: CanaryResult, manifest_digest: str) -> None:
    """Writes the result into the version's report directory, where the version lies on this machine; the digest is that
    of the manifest that the engine loaded."""
    if directory.is_dir():
        document = {**result.to_dict(), "manifest_digest": manifest_digest}
        write_json(report_directory(directory) / REPORT_NAME, document)


def write_failure(directory: Path, error: BaseException, manifest_digest: str) -> None:
    """Writes an error that ended the canary as its result, ERROR, so that whoever waits for one does not wait on."""
    sentence = error.message if isinstance(error, TidegateError) else f"{type(error).__name__}: {error}"
    write_result(directory, CanaryResult(Outcome.ERROR, sentence, CanaryNumbers()), manifest_digest)
    (report_directory(directory) / RECORD_NAME).unlink(missing_ok=True)


def read_result(directory: Path) -> CanaryResult | None:
    """What `write_result` wrote; None where that was nothing, was of other files under this number, or a canary has
    begun since."""
    path = report_directory(directory) / REPORT_NAME
    try:
        document: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
        check_format(document, kind="canary", version=_VERSION, where=str(path))
        tried = document["manifest_digest"]
        result = CanaryResult(Outcome(document["outcome"]), document["sentence"], CanaryNumbers.from_dict(document))
    except FileNotFoundError:
        return None
    except MALFORMED as error:
        raise Tampered(f"{path} is no canary's result ({error}): remove it, and try the version again") from error
    return result if (directory / FILE_NAME).is_file() and tried == read_manifest(directory)[1] else None


def require_passed(result: CanaryResult) -> CanaryResult:
    """The same, or Refused with its sentence where the canary did not pass."""
    if not result.allowed:
        raise Refused(result.sentence)
    return result


def _require_log(log_root: Path | None) -> Path:
    if log_root is None:
        raise FailedPrecondition(
            "the engine keeps no inference log, which a canary is judged by: start it with a `log_path`, and each "
            "node of a fleet, or promote the version without a canary"
        )
    return log_root


def _turn_on(client: ControlClient, identity: ServableId, rule: CanaryRule, since: datetime) -> None:
    shadow = Shadow(identity.version, rule.fraction, ends_us(since, rule.seconds))
    change(client, identity.name, lambda now: _with_shadow(now, shadow), f"canary of {identity}")
    _check_clock(client, identity.name)


def _with_shadow(status: ServableStatus, shadow: Shadow) -> DesiredState:
    require_live(status, shadow.version, "before its canary")
    check_not_promoted(status, shadow.version)
    check_shadow_is_free(status, shadow.version)
    return replace(status.desired, shadow=shadow)


def _check_clock_in(client: ControlClient, identity: ServableId) -> None:
    """The same where nothing has changed yet."""
    change(client, identity.name, lambda now: now.desired, f"canary of {identity} in traffic")
    _check_clock(client, identity.name)


def _check_clock(client: ControlClient, servable: str) -> None:
    """FailedPrecondition where this machine's clock is far from the engine's, which has just noted a change."""
    ahead = time.time() - client.desired(servable).at_us / 1e6
    if abs(ahead) > _CLOCKS_SECONDS:
        raise FailedPrecondition(
            f"this machine's clock is {abs(ahead):.0f} s {'ahead of' if ahead > 0 else 'behind'} the engine's, and a "
            f"canary of {servable} goes by both: have both set by NTP, then release again"
        )


def observe(
    look: Callable[[], CanaryResult],
    within_seconds: float,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> CanaryResult:
    """Looks until the result is decided or the time is over; returns the last one. Clock and pause in seconds.

    A look at a long log takes its time, so the pauses between looks grow with it.
    """
    deadline = clock() + within_seconds
    while True:
        began = clock()
        result = look()
        now = clock()
        if result.decided or now >= deadline:
            return result
        pause(min(max(_POLL_SECONDS, now - began), deadline - now))
