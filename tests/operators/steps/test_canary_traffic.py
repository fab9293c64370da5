"""Canaries that answer a growing share of clients, against a real engine under real traffic."""

from __future__ import annotations

import json
import zlib
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from tests.support.eventually import eventually
from tests.support.log_blocks import FakeBlock, write_log
from tests.support.release.world import BETTER, OFTEN_NAN, Endpoints, World, available, serve_first, traffic

from tidegate_operators.steps import CanaryRule, CanaryTurn, canary, canary_turn, promote, push, rollback
from tidegate_operators.steps.canary import begin
from tidegate_operators.steps.canary_group import CanaryGroup
from tidegate_operators.steps.canary_traffic import TrafficObservation
from tidegate_serving.admission import Outcome
from tidegate_serving.contract.errors import FailedPrecondition, NotFound
from tidegate_serving.contract.manifest import FILE_NAME
from tidegate_serving.contract.repository import report_directory
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.control.status import OverrideStatus
from tidegate_serving.control_client import ControlClient
from tidegate_validation.canary.rule import CanaryMode

RULE = CanaryRule(
    mode=CanaryMode.TRAFFIC,
    shares=(0.1, 0.5, 1.0),
    pairs=30,
    step_rows=20,
    step_seconds=0.0,
    within_seconds=300.0,  # until the answers decide, however few a busy machine gives
    max_error_share=0.05,
    max_slow_share=0.9,
    max_slowdown=9.0,
    slowdown_grace_us=50_000.0,
)
IMPATIENT = CanaryTurn("run 1", 0.0)
PATIENT = CanaryTurn("run 1", 60.0)


@pytest.fixture
def name(request: pytest.FixtureRequest) -> str:
    return f"g{zlib.crc32(request.node.name.encode()):08x}"


def candidate(endpoints: Endpoints, world: World, name: str, source: str = BETTER) -> Path:
    serve_first(endpoints, world, name)
    second = world.admitted(2, source, name=name)
    push(directory=second, control=endpoints.control)
    return second


def splits(endpoints: Endpoints, name: str) -> list[OverrideStatus]:
    with ControlClient(endpoints.control) as client:
        found = client.status(name).servable(name)
    assert found is not None
    return [one for one in found.overrides if one.action == "split"]


def test_a_good_version_gets_all_clients_step_by_step_and_the_promotion_ends_the_split(
    endpoints: Endpoints, world: World, name: str
) -> None:
    candidate(endpoints, world, name)
    with traffic(endpoints.grpc, name) as versions:
        result = canary(control=endpoints.control, servable=name, version=2, rule=RULE)
        assert result.outcome is Outcome.PASS, result.sentence
        assert (result.numbers.share, len(splits(endpoints, name))) == (1.0, 1)
        passed = len(versions)
        promote(control=endpoints.control, servable=name, version=2)
        eventually(lambda: len(versions) > passed + 50)
    assert splits(endpoints, name) == []
    assert set(versions[passed + 1 :]) == {2}, "nobody goes back to the old version meanwhile"
    first = versions[versions.index(2) :][:300]
    assert 0 < first.count(2) < 120, "it began with a tenth"


def test_a_bad_version_is_taken_from_clients_with_the_reason(endpoints: Endpoints, world: World, name: str) -> None:
    second = candidate(endpoints, world, name, OFTEN_NAN)
    with traffic(endpoints.grpc, name) as versions:
        result = canary(control=endpoints.control, servable=name, version=2, rule=replace(RULE, max_error_share=0.01))
        ended = len(versions)
        eventually(lambda: len(versions) > ended + 50)
    assert result.outcome is Outcome.FAIL, result.sentence
    assert "stepped back at 10.00 % of the traffic" in result.sentence
    assert "it alone failed in" in result.sentence
    assert (splits(endpoints, name), available(endpoints, name)) == ([], [1])
    assert set(versions[ended + 1 :]) == {1}
    assert versions.count(2) < 0.3 * ended
    assert json.loads((report_directory(second) / "canary.json").read_text())["sentence"] == result.sentence


def test_a_turn_goes_on_with_the_share_that_the_last_one_reached(endpoints: Endpoints, world: World, name: str) -> None:
    second = candidate(endpoints, world, name)
    endless = replace(RULE, key="x-user-id")
    slow = replace(endless, step_rows=10**9)
    assert canary_turn(directory=second, control=endpoints.control, turn=IMPATIENT, rule=slow) is None
    assert "split by x-user-id: 0.9 to 1, 0.1 to 2" in splits(endpoints, name)[0].text

    def looked() -> str:
        canary_turn(directory=second, control=endpoints.control, turn=IMPATIENT, rule=endless)
        return splits(endpoints, name)[0].text

    with traffic(endpoints.grpc, name):
        eventually(lambda: "0.5 to 2" in looked())
    record = json.loads((report_directory(second) / "canary-run.json").read_text())
    assert record["step"]["number"] == 1
    assert canary_turn(directory=second, control=endpoints.control, turn=IMPATIENT, rule=slow) is None
    assert "0.5 to 2" in splits(endpoints, name)[0].text
    late = replace(slow, within_seconds=0.001)
    found = canary_turn(directory=second, control=endpoints.control, turn=PATIENT, rule=late)
    assert found is not None
    assert found.outcome is Outcome.INCONCLUSIVE
    assert (splits(endpoints, name), available(endpoints, name)) == ([], [1])


def test_a_split_of_somebody_else_is_left_alone(endpoints: Endpoints, world: World, name: str) -> None:
    candidate(endpoints, world, name)
    with ControlClient(endpoints.control) as client:
        client.split(name, {1: 1.0}, requested_by="anna", reason="a trial")
    with pytest.raises(FailedPrecondition, match=r"is split already .a trial.: end that first"):
        canary(control=endpoints.control, servable=name, version=2, rule=RULE)
    assert [one.reason for one in splits(endpoints, name)] == ["a trial"]


def test_a_rollback_takes_back_what_passed_and_was_not_promoted(endpoints: Endpoints, world: World, name: str) -> None:
    for version in (1, 2):
        push(directory=world.admitted(version, name=name), control=endpoints.control)
        promote(control=endpoints.control, servable=name, version=version)
    push(directory=world.admitted(3, BETTER, name=name), control=endpoints.control)
    with traffic(endpoints.grpc, name):
        assert canary(control=endpoints.control, servable=name, version=3, rule=RULE).allowed
    rollback(control=endpoints.control, servable=name)
    assert splits(endpoints, name) == []


def test_a_first_version_has_no_traffic_to_share(endpoints: Endpoints, world: World, name: str) -> None:
    serve_first(endpoints, world, name)
    assert canary(control=endpoints.control, servable=name, version=1, rule=RULE).outcome is Outcome.WARN
    assert splits(endpoints, name) == []


def test_labels_are_read_by_the_classes_that_both_manifests_name(endpoints: Endpoints, world: World, name: str) -> None:
    serve_first(endpoints, world, name)
    second = world.publish(2, name=name, metadata={"classes": "1, 0"})
    world.admit(second)
    push(directory=second, control=endpoints.control)
    group = CanaryGroup(endpoints.control)
    observation = begin(group, ServableId(name, 2), RULE)
    assert isinstance(observation, TrafficObservation)
    assert (observation.classes(1), observation.classes(2)) == ((), ("1", "0"))
    observation.end(group, passed=False)


def test_labels_that_need_a_manifest_that_is_not_here_are_told_before_the_first_share(
    endpoints: Endpoints, world: World, name: str
) -> None:
    second = candidate(endpoints, world, name)
    write_log(world.log, FakeBlock({"x": np.zeros(1)}, {"y": np.array([[0.1, 0.9]], "f4")}, model=name))
    (second.parent / "1" / FILE_NAME).rename(second.parent / "away")
    with pytest.raises(NotFound, match=FILE_NAME):
        begin(CanaryGroup(endpoints.control), ServableId(name, 2), replace(RULE, labels="labels.parquet"))
    assert splits(endpoints, name) == []
