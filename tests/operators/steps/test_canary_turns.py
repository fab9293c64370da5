"""A canary in turns, against a real engine: it goes on where it was, and what it found stands."""

from __future__ import annotations

import json
import sys
import zlib
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from tests.support.eventually import eventually
from tests.support.release.world import BETTER, RAISES, Endpoints, World, available, serve_first, traffic

from tidegate_operators.steps import CanaryRule, CanaryTurn, canary_turn, push
from tidegate_operators.steps.canary import begin
from tidegate_operators.steps.canary_turns import last_result
from tidegate_serving.admission import Outcome
from tidegate_serving.contract.desired_state import DesiredState, Shadow
from tidegate_serving.contract.errors import FailedPrecondition
from tidegate_serving.contract.repository import report_directory
from tidegate_serving.control_client import ControlClient
from tidegate_serving.sources.expiry import now_us
from tidegate_validation.canary.rule import CanaryMode

RULE = CanaryRule(pairs=30, within_seconds=60.0)
IMPATIENT = CanaryTurn("run 1", 0.0)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"t{zlib.crc32(request.node.name.encode()):08x}"


def desired(endpoints: Endpoints, name: str) -> DesiredState:
    with ControlClient(endpoints.control) as client:
        return client.desired(name)


def shadow(endpoints: Endpoints, name: str, version: int) -> None:
    with ControlClient(endpoints.control) as client:
        now = client.desired(name)
        client.set_desired_state(replace(now, shadow=Shadow(version, 1.0)), now.revision)


def candidate(endpoints: Endpoints, world: World, name: str, source: str = BETTER) -> Path:
    serve_first(endpoints, world, name)
    second = world.admitted(2, source, name=name)
    push(directory=second, control=endpoints.control)
    return second


def test_the_next_turn_goes_on_with_what_the_last_has_seen(
    endpoints: Endpoints, world: World, name: str, caplog: pytest.LogCaptureFixture
) -> None:
    second = candidate(endpoints, world, name)
    with caplog.at_level("INFO"):
        assert canary_turn(directory=second, control=endpoints.control, turn=IMPATIENT, rule=RULE) is None
    assert f"{name}:2: 0 answers compared so far" in caplog.text
    shadow = desired(endpoints, name).shadow
    assert shadow is not None
    assert replace(shadow, until_us=0) == Shadow(2, 1.0)
    record = json.loads((report_directory(second) / "canary-run.json").read_text())
    with traffic(endpoints.grpc, name) as versions:
        eventually(lambda: len(versions) > 400)
    found = canary_turn(directory=second, control=endpoints.control, turn=CanaryTurn("run 1", 20.0), rule=RULE)
    assert found is not None
    assert found.outcome is Outcome.PASS, found.sentence
    assert json.loads((report_directory(second) / "canary-run.json").read_text())["since"] == record["since"]
    assert (desired(endpoints, name).shadow, sorted(desired(endpoints, name).numbers)) == (None, [1, 2])
    again = canary_turn(directory=second, control=endpoints.control, turn=IMPATIENT, rule=RULE)
    assert again is not None
    assert (again.sentence, again.numbers) == (found.sentence, found.numbers)


def test_a_refusal_stands_and_is_carried_out_though_the_task_was_killed_before_that(
    endpoints: Endpoints, world: World, name: str
) -> None:
    second = candidate(endpoints, world, name, RAISES)
    turn = CanaryTurn("run 1", 30.0)
    with traffic(endpoints.grpc, name):
        found = canary_turn(directory=second, control=endpoints.control, turn=turn, rule=RULE)
    assert found is not None
    assert found.outcome is Outcome.FAIL, found.sentence
    assert available(endpoints, name) == [1]
    for killed in (False, True):
        if killed:
            push(directory=second, control=endpoints.control)
            shadow(endpoints, name, 2)
        again = canary_turn(directory=second, control=endpoints.control, turn=turn, rule=RULE)
        assert again is not None
        assert again.sentence == found.sentence
        assert (available(endpoints, name), desired(endpoints, name).shadow) == ([1], None)


def test_one_that_passed_keeps_its_share_though_the_task_was_killed_before_it_said_so(
    endpoints: Endpoints, world: World, name: str
) -> None:
    second = candidate(endpoints, world, name)
    turn, shares = CanaryTurn("run 1", 60.0), {1: 0.5, 2: 0.5}
    rule = CanaryRule(
        pairs=20, within_seconds=60.0, mode=CanaryMode.TRAFFIC, shares=(0.5,), step_rows=5, step_seconds=0.5
    )
    with traffic(endpoints.grpc, name):
        found = canary_turn(directory=second, control=endpoints.control, turn=turn, rule=rule)
    assert found is not None
    assert found.allowed, found.sentence
    over = now_us() + 1_000_000
    with ControlClient(endpoints.control) as client:
        client.split(name, shares, until_us=over, requested_by="tidegate", reason=f"canary of {name}:2 in traffic")
        assert canary_turn(directory=second, control=endpoints.control, turn=turn, rule=rule) is not None
        eventually(lambda: now_us() > over + 500_000)
        status = client.status(name).servable(name)
    assert status is not None
    assert [one.action for one in status.overrides] == ["split"]


def test_what_was_refused_and_pushed_anew_is_observed_anew(endpoints: Endpoints, world: World, name: str) -> None:
    second = candidate(endpoints, world, name)
    first = canary_turn(
        directory=second, control=endpoints.control, turn=CanaryTurn("run 1", 9.0), rule=CanaryRule(within_seconds=0.1)
    )
    assert first is not None
    assert first.outcome is Outcome.INCONCLUSIVE
    push(directory=second, control=endpoints.control)
    assert canary_turn(directory=second, control=endpoints.control, turn=IMPATIENT, rule=RULE) is None


def test_another_run_observes_anew_and_time_runs_out(endpoints: Endpoints, world: World, name: str) -> None:
    second = candidate(endpoints, world, name)
    began = datetime.now(UTC)
    assert canary_turn(directory=second, control=endpoints.control, turn=IMPATIENT, rule=RULE) is None
    assert canary_turn(directory=second, control=endpoints.control, turn=CanaryTurn("run 2", 0.0), rule=RULE) is None
    late = canary_turn(
        directory=second,
        control=endpoints.control,
        turn=CanaryTurn("run 2", 0.0),
        rule=RULE,
        clock=lambda: began + timedelta(seconds=120),
    )
    assert late is not None
    assert late.outcome is Outcome.INCONCLUSIVE
    assert (desired(endpoints, name).shadow, sorted(desired(endpoints, name).numbers)) == (None, [1])
    with pytest.raises(FailedPrecondition, match="push it again before its canary"):
        canary_turn(directory=second, control=endpoints.control, turn=CanaryTurn("run 3", 0.0), rule=RULE)


@pytest.mark.parametrize("under_way", [False, True])
def test_a_version_that_is_pinned_is_no_first_one_and_does_not_pass(
    endpoints: Endpoints, world: World, name: str, under_way: bool
) -> None:
    second = candidate(endpoints, world, name)
    if under_way:
        assert canary_turn(directory=second, control=endpoints.control, turn=IMPATIENT, rule=RULE) is None
    with ControlClient(endpoints.control) as client:
        client.pin(name, 2, requested_by="anna", reason="an audit")
    said = rf"go to version 2 and not any more to version 1, which {name}:2 .*by anna \(an audit\)"
    with pytest.raises(FailedPrecondition, match=said):
        canary_turn(directory=second, control=endpoints.control, turn=IMPATIENT, rule=RULE)
    assert desired(endpoints, name).shadow is None
    found = last_result(second)
    assert found is not None, "nobody waits on for what has ended"
    assert (found.outcome, "by anna (an audit)" in found.sentence) == (Outcome.ERROR, True)


def test_a_turn_that_fails_leaves_nothing(endpoints: Endpoints, world: World, name: str) -> None:
    second = candidate(endpoints, world, name)
    rule = CanaryRule(pairs=30, within_seconds=60.0)
    with pytest.raises(ZeroDivisionError):
        canary_turn(
            directory=second, control=endpoints.control, turn=IMPATIENT, rule=rule, clock=iter_clock(datetime.now(UTC))
        )
    assert (desired(endpoints, name).shadow, sorted(desired(endpoints, name).numbers)) == (None, [1])
    found = last_result(second)
    assert found is not None
    assert (found.outcome, found.sentence) == (Outcome.ERROR, "ZeroDivisionError: the clock broke")


def test_a_canary_in_traffic_that_cannot_go_on_gives_its_share_back_at_once(
    endpoints: Endpoints, world: World, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    second, rule = candidate(endpoints, world, name), replace(RULE, mode=CanaryMode.TRAFFIC)
    assert canary_turn(directory=second, control=endpoints.control, turn=IMPATIENT, rule=rule) is None
    monkeypatch.setattr(sys.modules[begin.__module__], "_CLOCKS_SECONDS", -1.0)
    with pytest.raises(FailedPrecondition, match="have both set by NTP"):
        canary_turn(directory=second, control=endpoints.control, turn=IMPATIENT, rule=rule)
    with ControlClient(endpoints.control) as client:
        status = client.servable(name)
        told = {entry.reason for entry in client.journal(servable=name)}
    assert (status.overrides, status.desired.numbers) == ((), frozenset({1}))
    assert f"the canary of {name}:2 could not go on" in told


def iter_clock(first: datetime) -> Callable[[], datetime]:
    moments = [first]

    def clock() -> datetime:
        if not moments:
            raise ZeroDivisionError("the clock broke")
        return moments.pop()

    return clock
