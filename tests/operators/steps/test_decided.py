"""Releases beside what an operator decided: judged, pushed and tried beside the version that clients get by that."""

from __future__ import annotations

from contextlib import nullcontext
from pathlib import Path

import pytest
from tests.support.eventually import eventually
from tests.support.release.world import BETTER, Endpoints, World, available, serve_first, traffic

from tidegate_operators.airflow.waiting import version_state
from tidegate_operators.steps import CanaryRule, canary, find_baseline, promote, push, serving_directory
from tidegate_operators.steps.canary import begin
from tidegate_operators.steps.canary_group import CanaryGroup
from tidegate_operators.steps.superseded import check_beside, check_still_promoted
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.desired_state import DesiredState, VersionReference
from tidegate_serving.contract.errors import FailedPrecondition, Superseded
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.control.status import OverrideStatus, ServableStatus
from tidegate_serving.control_client import ControlClient
from tidegate_validation.canary.rule import CanaryMode

ANNA = {"requested_by": "anna", "reason": "an audit"}


@pytest.mark.parametrize("mode", CanaryMode)
def test_what_replaces_a_blocked_version_is_released_beside_what_clients_got_before_it(
    world: World, endpoints: Endpoints, mode: CanaryMode
) -> None:
    control, name = endpoints.control, f"fix_{mode.value}"
    first = serve_first(endpoints, world, name)
    bad, fix = (world.admitted(version, BETTER, name=name) for version in (3, 2))
    push(directory=bad, control=control)
    promote(control=control, servable=name, version=3)
    with ControlClient(control) as client:
        client.block(name, 3, **ANNA)
    eventually(lambda: available(endpoints, name) == [1])
    assert find_baseline(control=control, directory=fix) == first
    assert serving_directory(control=control, servable=name) == first
    assert version_state(EngineConnection.of(control), name, None).state == "AVAILABLE"
    eventually(lambda: version_state(EngineConnection.of(control), name, 3).state == "END")
    with pytest.raises(FailedPrecondition, match=rf"{name}:3 was blocked by anna \(an audit\): publish a new version"):
        push(directory=bad, control=control)
    push(directory=fix, control=control, judged_against=1)
    with pytest.raises(FailedPrecondition, match=rf"{name}:3 was blocked by anna"):
        promote(control=control, servable=name, version=3)
    assert available(endpoints, name) == [1, 2]
    rule = CanaryRule(pairs=20, within_seconds=60.0, mode=mode, shares=(0.5,), step_rows=5, step_seconds=0.5)
    with traffic(endpoints.grpc, name) as versions:
        assert canary(control=control, servable=name, version=2, rule=rule).allowed
        promote(control=control, servable=name, version=2)
    assert set(versions) == {1, 2}
    assert available(endpoints, name) == [2]


@pytest.mark.parametrize("mode", CanaryMode)
def test_a_candidate_that_took_the_place_of_a_blocked_version_is_not_taken_from_clients(
    world: World, endpoints: Endpoints, mode: CanaryMode
) -> None:
    control, name = endpoints.control, f"took_{mode.value}"
    serve_first(endpoints, world, name)
    push(directory=world.admitted(2, BETTER, name=name), control=control)
    group = CanaryGroup(control)
    observation = begin(group, ServableId(name, 2), CanaryRule(within_seconds=60.0, mode=mode))
    with ControlClient(control) as client:
        client.block(name, 1, **ANNA)
        eventually(lambda: available(endpoints, name) == [2])
        with pytest.raises(FailedPrecondition, match=r"go to version 2 and not any more to version 1.*by anna"):
            observation.look(group)
        observation.end(group, passed=False)
        desired = client.desired(name)
        assert (sorted(desired.numbers), desired.shadow) == ([1, 2], None)
    assert available(endpoints, name) == [2]


def test_a_candidate_is_judged_against_the_version_that_ordinary_traffic_is_pinned_to(
    world: World, endpoints: Endpoints
) -> None:
    control, name = endpoints.control, "pinned_baseline"
    first = serve_first(endpoints, world, name)
    second, third = (world.admitted(version, BETTER, name=name) for version in (2, 3))
    push(directory=second, control=control)
    promote(control=control, servable=name, version=2)
    assert find_baseline(control=control, directory=third) == second
    with ControlClient(control) as client:
        client.pin(name, 1, **ANNA)
    eventually(lambda: available(endpoints, name) == [1, 2])
    assert find_baseline(control=control, directory=third) == first
    with ControlClient(control) as client:
        client.override("unpin", name, **ANNA)
    assert find_baseline(control=control, directory=third) == second


@pytest.mark.parametrize(
    ("desired", "says"),
    [
        (
            DesiredState("m", (VersionReference(1, Path("/m/1"), "1"),), {"stable": 1}, requested_by="anna"),
            "m:1 took its",
        ),
        (
            DesiredState("m", requested_by="anna"),
            r"m:2 was promoted, and was taken out since, by anna \(no reason given\)",
        ),
    ],
)
def test_a_promotion_says_what_became_of_it_meanwhile(desired: DesiredState, says: str) -> None:
    with pytest.raises(Superseded, match=says):
        check_still_promoted(ServableStatus("m", desired), 2)
    kept = DesiredState("m", (VersionReference(2, Path("/m/2"), "2"),), {"stable": 2})
    check_still_promoted(ServableStatus("m", kept), 2)


@pytest.mark.parametrize(("pinned", "raises"), [(1, False), (None, True)])
def test_a_canary_goes_on_while_what_it_is_tried_beside_is_still_loading(pinned: int | None, raises: bool) -> None:
    versions = tuple(VersionReference(one, Path(f"/m/{one}"), f"{one:064x}") for one in (2, 3))
    pins = () if pinned is None else (OverrideStatus("pin", "it is pinned", "anna", version=pinned),)
    status = ServableStatus("m", DesiredState("m", versions, {"stable": 2}), ordinary=2, overrides=pins)
    with pytest.raises(FailedPrecondition, match="go to version 2") if raises else nullcontext():
        check_beside(status, 3, 1)
