"""Lets a pushed version answer copies of live traffic beside the version that serves, and says whether it did well.

The shadow goes on through the RPC Source, numbers come from the inference log, and in the end the shadow is off and a
version that did not pass is gone.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

from tidegate_operators.steps.canary_log import read_numbers
from tidegate_operators.steps.change_desired import change, give_up
from tidegate_serving.admission import Outcome
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.desired_state import DesiredState, Shadow
from tidegate_serving.contract.errors import FailedPrecondition, Refused
from tidegate_serving.contract.repository import report_directory
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.control_client import ControlClient
from tidegate_serving.files import write_json
from tidegate_validation.canary.judgement import CanaryResult, judge
from tidegate_validation.canary.numbers import CanaryNumbers
from tidegate_validation.canary.rule import CanaryRule
from tidegate_validation.progress import SILENT, Progress, working

REPORT_NAME = "canary.json"
_POLL_SECONDS = 0.5


def canary(
    *,
    control: str | EngineConnection,
    servable: str,
    version: int,
    rule: CanaryRule | None = None,
    progress: Progress = SILENT,
) -> CanaryResult:
    """Shadows traffic to a live version until it is surely good enough or surely not, at most `rule.within_seconds`.

    It may be looked at all the time: the evidence is such that looking costs no error rate. The result is also written
    as `canary.json` into the version's report directory. Whatever happens the shadow is off afterwards, and unless the
    version passed it is given up. A first version, with nothing beside it, gets WARN: there is no traffic to copy.
    FailedPrecondition where the version is not live or the engine keeps no log.
    """
    rule = rule or CanaryRule()
    identity = ServableId(servable, version)
    with ControlClient(control) as client:
        desired = client.desired(servable)
        directory = _live_directory(desired, version)
        primary = desired.stable
        if primary is None or primary == version:
            return _write(directory, _first(identity))
        passed = False
        try:
            result = _write(directory, _observe(client, primary, identity, rule, progress))
            passed = result.allowed
        finally:
            _finish(client, identity, passed)
    return result


def require_passed(result: CanaryResult) -> CanaryResult:
    """The same, or Refused with its sentence where the canary did not pass."""
    if not result.allowed:
        raise Refused(result.sentence)
    return result


def _finish(client: ControlClient, identity: ServableId, passed: bool) -> None:
    reason = f"the canary of {identity} ended"
    if passed:
        change(client, identity.name, lambda desired: replace(desired, shadow=None), reason)
    else:
        give_up(client, identity.name, identity.version, reason)


def _live_directory(desired: DesiredState, version: int) -> Path:
    found = desired.version(version)
    if found is None:
        raise FailedPrecondition(f"{desired.servable}:{version} is not live: push it before its canary")
    return found.directory


def _first(identity: ServableId) -> CanaryResult:
    sentence = f"{identity} is what ordinary clients get already, so there was no traffic to copy to it."
    return CanaryResult(Outcome.WARN, sentence, CanaryNumbers())


def _observe(
    client: ControlClient, primary: int, identity: ServableId, rule: CanaryRule, progress: Progress
) -> CanaryResult:
    log_path = client.status(identity.name).log_path
    if not log_path:
        raise FailedPrecondition(
            "the engine keeps no inference log, which a canary is judged by: start it with a `log_path`"
        )
    since = datetime.now(UTC)
    shadow = Shadow(identity.version, rule.fraction)
    change(client, identity.name, lambda desired: replace(desired, shadow=shadow), f"canary of {identity}")

    def look() -> CanaryResult:
        result = judge(str(identity), read_numbers(Path(log_path), identity, primary, since, rule), rule)
        progress.at("answers compared", result.numbers.compared)
        return result

    with working(progress, f"canary of {identity}", rule.pairs, rule.within_seconds):
        return observe(look, rule.within_seconds)


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


def _write(directory: Path, result: CanaryResult) -> CanaryResult:
    write_json(report_directory(directory) / REPORT_NAME, result.to_dict())
    return result
