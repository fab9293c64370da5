"""Lets a pushed version answer copies of live traffic beside the version that serves, and says whether it did well.

In come the live servable and the rule; the tee goes on through the RPC Source, numbers come back from the inference
log, and in the end the tee is off and a version that did not pass is gone.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path

from tidegate_operators.steps.canary_log import read_numbers
from tidegate_operators.steps.canary_rule import CanaryNumbers, CanaryResult, CanaryRule, is_decided, judge
from tidegate_operators.steps.wanted import Wanted, give_up, read_wanted, set_wanted
from tidegate_serving.contract.errors import FailedPrecondition, Refused
from tidegate_serving.contract.repository import report_directory
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.verdict import Outcome
from tidegate_serving.control_client import ControlClient, Tee

REPORT_NAME = "canary.json"
_POLL_SECONDS = 0.5


def canary(*, control: str, servable: str, version: int, rule: CanaryRule | None = None) -> CanaryResult:
    """Tees traffic to a live version until `rule` can be judged, at most `rule.within_seconds`.

    The result is also written as `canary.json` into the version's report directory. Whatever happens the tee is off
    afterwards, and unless the version passed it is un-aspired. A first version, with nothing beside it, gets WARN:
    there is no traffic to copy. FailedPrecondition where the version is not live or the engine keeps no log.
    """
    rule = rule or CanaryRule()
    identity = ServableId(servable, version)
    with ControlClient(control) as client:
        wanted = read_wanted(client, servable)
        directory = _live_directory(wanted, version)
        primary = wanted.stable
        if primary is None or primary == version:
            return _write(directory, _first(identity))
        passed = False
        try:
            result = _write(directory, _observe(client, wanted, primary, identity, rule))
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
    wanted = read_wanted(client, identity.name)
    if passed:
        set_wanted(client, wanted.teeing(None), reason)
    else:
        give_up(client, wanted, identity.version, reason)


def _live_directory(wanted: Wanted, version: int) -> Path:
    entry = wanted.get(version)
    if entry is None:
        raise FailedPrecondition(f"{wanted.servable}:{version} is not live: push it before its canary")
    return entry.path


def _first(identity: ServableId) -> CanaryResult:
    sentence = f"{identity} is what ordinary clients get already, so there was no traffic to copy to it."
    return CanaryResult(Outcome.WARN, sentence, CanaryNumbers())


def _observe(
    client: ControlClient, wanted: Wanted, primary: int, identity: ServableId, rule: CanaryRule
) -> CanaryResult:
    log_path = client.status(identity.name).log_path
    if not log_path:
        raise FailedPrecondition(
            "the engine keeps no inference log, which a canary is judged by: start it with --log-path"
        )
    since = datetime.now(UTC)
    set_wanted(client, wanted.teeing(Tee(identity.version, rule.fraction)), f"canary of {identity}")
    numbers = wait_for_numbers(lambda: read_numbers(Path(log_path), identity, primary, since), rule)
    return judge(str(identity), numbers, rule)


def wait_for_numbers(
    read: Callable[[], CanaryNumbers],
    rule: CanaryRule,
    clock: Callable[[], float] = time.monotonic,
    pause: Callable[[float], object] = time.sleep,
) -> CanaryNumbers:
    """Reads until the rule is decided or its time is over; returns the last numbers. Clock and pause in seconds."""
    deadline = clock() + rule.within_seconds
    while True:
        numbers = read()
        left = deadline - clock()
        if is_decided(numbers, rule) or left <= 0.0:
            return numbers
        pause(min(_POLL_SECONDS, left))


def _write(directory: Path, result: CanaryResult) -> CanaryResult:
    folder = report_directory(directory)
    folder.mkdir(parents=True, exist_ok=True)
    aside = folder / f".{REPORT_NAME}"
    aside.write_text(json.dumps(result.to_dict(), indent=1) + "\n")
    aside.replace(folder / REPORT_NAME)
    return result
