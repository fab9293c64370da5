"""A canary over a fleet: its shadow is on every node of the model, and the evidence is of all their logs."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.operators.steps.test_canary_group import SHADOW, TRAFFIC
from tests.support.eventually import eventually
from tests.support.neighbours.fleet import Fleet, fleet_over
from tests.support.release.world import BETTER, NONSENSE, World, make_world, traffic

from tidegate_operators.steps import CanaryRule, canary, canary_traffic, promote, push
from tidegate_operators.steps.canary import begin
from tidegate_operators.steps.canary_group import CanaryGroup
from tidegate_operators.steps.serving_now import find_log
from tidegate_serving.admission import Outcome
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.fleet.state.model import Copies
from tidegate_serving.inference_log.reader import connect
from tidegate_validation.canary.rule import CanaryMode


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> World:
    return make_world(tmp_path_factory.mktemp("world"))


@pytest.fixture(scope="module")
def fleet(world: World) -> Iterator[Fleet]:
    """Two nodes, each with a log of its own below one folder."""
    with fleet_over(world.root) as running:
        for name in "ab":
            running.node(name, log_path=world.root / "log" / name)
        for node in running.nodes.values():
            node.await_ready()
        running.controller().await_ready()
        eventually(lambda: len(running.view().nodes) == 2)
        yield running


@pytest.fixture(scope="module")
def control(fleet: Fleet) -> str:
    return fleet.controller("second").await_ready().address


def logged(root: Path, node: str, name: str, version: int) -> int:
    with connect(root / "log" / node) as log:
        query = f"SELECT count(*) FROM log WHERE model = '{name}' AND version = {version}"
        return int(log.execute(query).fetchone()[0])


@pytest.mark.parametrize(
    ("name", "source", "outcome"), [("good", BETTER, Outcome.PASS), ("bad", NONSENSE, Outcome.FAIL)]
)
def test_a_canary_is_judged_by_the_logs_of_all_nodes(
    world: World, fleet: Fleet, control: str, name: str, source: str, outcome: Outcome
) -> None:
    push(directory=world.admitted(1, name=name), control=control)
    promote(control=control, servable=name, version=1)
    with fleet.operations() as operations:
        operations.set_copies(name, Copies(2, 2))
    eventually(lambda: len(fleet.routes(name)) == 2)
    push(directory=world.admitted(2, source, name=name), control=control)
    assert find_log(control=control) == world.root / "log"
    with (
        traffic(fleet.nodes["a"].addresses["grpc"], name),
        traffic(fleet.nodes["b"].addresses["grpc"], name),
    ):
        result = canary(control=control, servable=name, version=2, rule=SHADOW)
    assert result.outcome is outcome, result.sentence
    assert min(logged(world.root, node, name, 2) for node in "ab") > 0
    if outcome is Outcome.PASS:
        assert promote(control=control, servable=name, version=2).ended == (1,)
    else:
        eventually(lambda: fleet.view().models[name].desired.numbers == {1})


def test_a_canary_in_traffic_divides_ordinary_requests_on_every_node_and_ends_it(
    world: World, fleet: Fleet, control: str
) -> None:
    push(directory=world.admitted(1, name="shared"), control=control)
    promote(control=control, servable="shared", version=1)
    with fleet.operations() as operations:
        operations.set_copies("shared", Copies(2, 2))
    eventually(lambda: len(fleet.routes("shared")) == 2)
    push(directory=world.admitted(2, BETTER, name="shared"), control=control)
    with (
        traffic(fleet.nodes["a"].addresses["grpc"], "shared"),
        traffic(fleet.nodes["b"].addresses["grpc"], "shared"),
    ):
        result = canary(control=control, servable="shared", version=2, rule=TRAFFIC)
    assert result.outcome is Outcome.PASS, result.sentence
    assert min(logged(world.root, node, "shared", 2) for node in "ab") > 0
    assert promote(control=control, servable="shared", version=2).ended == (1,)
    assert fleet.view().models["shared"].overrides.split is None


@pytest.mark.parametrize("mode", CanaryMode)
def test_what_a_canary_turned_on_over_a_fleet_ends_by_itself(
    world: World, fleet: Fleet, control: str, monkeypatch: pytest.MonkeyPatch, mode: CanaryMode
) -> None:
    monkeypatch.setattr(canary_traffic, "_AFTER_SECONDS", 0.5)
    name = f"gone_{mode.value}"
    push(directory=world.admitted(1, name=name), control=control)
    promote(control=control, servable=name, version=1)
    push(directory=world.admitted(2, BETTER, name=name), control=control)

    def is_tried() -> bool:
        model = fleet.view().models[name]
        return model.desired.shadow is not None or model.overrides.split is not None

    begin(CanaryGroup(control), ServableId(name, 2), CanaryRule(within_seconds=2.0, mode=mode))
    assert is_tried()
    eventually(lambda: not is_tried())
    assert fleet.view().models[name].desired.numbers == {1, 2}
