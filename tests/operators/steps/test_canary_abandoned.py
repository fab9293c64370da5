"""A canary whose process is gone: what it turned on ends by itself, so that nobody is asked what nobody looks at."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from tests.support.eventually import eventually
from tests.support.release.world import BETTER, Endpoints, World, serve_first

from tidegate_operators.steps import CanaryRule, canary_traffic, promote, push, take_out
from tidegate_operators.steps.canary import begin
from tidegate_operators.steps.canary_group import CanaryGroup
from tidegate_operators.steps.canary_traffic import ends_us
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.control_client import ControlClient
from tidegate_serving.sources.expiry import now_us
from tidegate_validation.canary.rule import CanaryMode


def is_tried(client: ControlClient, name: str) -> bool:
    """Whether a shadow or a split is on."""
    status = client.status(name).servable(name)
    assert status is not None
    return status.desired.shadow is not None or any(one.action == "split" for one in status.overrides)


def pushed(world: World, endpoints: Endpoints, name: str) -> ServableId:
    serve_first(endpoints, world, name)
    return push(directory=world.admitted(2, BETTER, name=name), control=endpoints.control).id


@pytest.mark.parametrize("mode", CanaryMode)
def test_what_a_canary_turned_on_ends_by_itself_once_it_is_surely_over(
    world: World, endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch, mode: CanaryMode
) -> None:
    monkeypatch.setattr(canary_traffic, "_AFTER_SECONDS", 0.5)
    identity = pushed(world, endpoints, f"gone_{mode.value}")
    with ControlClient(endpoints.control) as client:
        begin(CanaryGroup(endpoints.control), identity, CanaryRule(within_seconds=1.0, mode=mode))
        assert is_tried(client, identity.name)
        eventually(lambda: not is_tried(client, identity.name))
        last = client.journal(servable=identity.name)[-1]
        assert (last.action, last.requested_by) == ("split" if mode is CanaryMode.TRAFFIC else "push", "tidegate")
        assert f"canary of {identity}" in last.reason
        assert "its time was over and nobody had ended it" in last.reason
        assert client.desired(identity.name).numbers == {1, 2}


def test_one_that_passed_in_traffic_keeps_its_share_for_as_long_as_it_takes_to_promote_it(
    world: World, endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(canary_traffic, "_AFTER_SECONDS", 0.5)
    identity, group = pushed(world, endpoints, "passed"), CanaryGroup(endpoints.control)
    rule = CanaryRule(within_seconds=1.0, mode=CanaryMode.TRAFFIC)
    with ControlClient(endpoints.control) as client:
        observation = begin(group, identity, rule)
        over = ends_us(observation.since, rule.seconds)
        observation.end(group, passed=True)
        eventually(lambda: now_us() > over + 500_000)
        assert is_tried(client, identity.name)


@pytest.mark.parametrize("mode", CanaryMode)
def test_one_that_passed_and_is_not_promoted_after_all_goes_with_its_share(
    world: World, endpoints: Endpoints, mode: CanaryMode
) -> None:
    identity, group = pushed(world, endpoints, f"held_{mode.value}"), CanaryGroup(endpoints.control)
    said: dict[str, Any] = {"control": endpoints.control, "servable": identity.name, "version": identity.version}
    with ControlClient(endpoints.control) as client:
        begin(group, identity, CanaryRule(mode=mode)).end(group, passed=True)
        for _ in range(2):
            take_out(**said, reason="a freeze began")
            assert (is_tried(client, identity.name), client.desired(identity.name).numbers) == (False, frozenset({1}))
        push(directory=world.admitted(2, BETTER, name=identity.name), control=endpoints.control)
        promote(**said)
        take_out(**said, reason="it serves")
        assert client.desired(identity.name).stable == 2


def test_one_that_somebody_gave_a_label_since_stays_where_that_is_asked(world: World, endpoints: Endpoints) -> None:
    identity = pushed(world, endpoints, "labelled")
    said: dict[str, Any] = {"control": endpoints.control, "servable": identity.name, "version": identity.version}
    with ControlClient(endpoints.control) as client:
        desired = client.desired(identity.name)
        client.set_desired_state(replace(desired, labels={**desired.labels, "trial": 2}), desired.revision)
        take_out(**said, reason="another takes its place", labelled=False)
        assert client.desired(identity.name).labels == {"stable": 1, "trial": 2}
        take_out(**said, reason="a freeze began")
        assert client.desired(identity.name).labels == {"stable": 1}
