"""What operators decide about a model of a fleet, told to its controller: real engines, controller, router and etcd."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import adding, publish
from tests.support.neighbours.fleet import ControllerProcess, Fleet, RouterProcess, fleet_over

from tidegate_operators.steps.push import push
from tidegate_operators.steps.rollback import rollback
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, NotFound, TidegateError
from tidegate_serving.control.overrides import NO_OVERRIDES
from tidegate_serving.control.status import OverrideStatus
from tidegate_serving.control_client import ControlClient
from tidegate_serving.fleet.state.model import Copies

WHO: dict[str, Any] = {"requested_by": "anna", "reason": "it is late"}


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Two nodes with a controller."""
    with fleet_over(tmp_path_factory.mktemp("fleet")) as running:
        for name in "ab":
            running.node(name, state_directory=running.root / "state" / name)
        for node in running.nodes.values():
            node.await_ready()
        yield running


@pytest.fixture(scope="module")
def controller(fleet: Fleet) -> ControllerProcess:
    process = fleet.controller().await_ready()
    eventually(lambda: len(fleet.view().nodes) == 2)
    return process


@pytest.fixture(scope="module")
def router(fleet: Fleet, controller: ControllerProcess) -> RouterProcess:
    return fleet.router().await_ready()


@pytest.fixture
def control(controller: ControllerProcess) -> Iterator[ControlClient]:
    with controller.control() as client:
        yield client


def pushed(fleet: Fleet, controller: ControllerProcess, model: str, *versions: int, copies: int = 2) -> None:
    """Each version answers with ten times its number and one; the last one serves."""
    for number in versions:
        push(directory=publish(fleet.root, model, number, adding(10 * number)), control=controller.address)
    with controller.control() as control:
        control.set_desired_state(control.desired(model).promoting(versions[-1]))
    copied(fleet, model, copies)


def copied(fleet: Fleet, model: str, copies: int) -> tuple[str, ...]:
    with fleet.operations() as operations:
        operations.set_copies(model, Copies(copies, copies))
    return eventually(
        lambda: found if len(found := fleet.routes(model)) == copies and fleet.view().models[model].settled else ()
    )


def said(server: EngineProcess | RouterProcess, model: str) -> float | str:
    """The answer to one request, or why there is none."""
    try:
        with server.client() as client:
            return float(client.predict(model, {"x": np.array([1.0], np.float32)})["y"][0])
    except TidegateError as error:
        return error.message


def says(server: EngineProcess, model: str, answer: float) -> bool:
    return said(server, model) == answer


def everywhere(fleet: Fleet, model: str) -> set[float | str]:
    """What the nodes of a model say."""
    return {said(fleet.nodes[node], model) for node in "ab"}


def actions(node: EngineProcess, model: str) -> list[str]:
    """What was decided at a node itself, oldest first."""
    with node.control() as control:
        return [one.action for one in control.journal(servable=model) if one.kind.value == "control"]


def obeyed(node: EngineProcess, model: str) -> tuple[OverrideStatus, ...]:
    with node.control() as control:
        found = control.status(model).servable(model)
    return () if found is None else found.overrides


def test_a_model_that_is_switched_off_answers_on_no_node_and_a_new_copy_hears_of_it_before_it_serves(
    fleet: Fleet, controller: ControllerProcess, router: RouterProcess, control: ControlClient
) -> None:
    pushed(fleet, controller, "off", 1, copies=1)
    (first,) = fleet.routes("off")
    (second,) = {"a", "b"} - {first}
    eventually(lambda: said(router, "off") == 11.0)
    assert control.override("disable", "off", **WHO).changed
    assert not control.override("disable", "off", **WHO).changed
    eventually(lambda: "is switched off: it is late (by anna)" in str(said(fleet.nodes[first], "off")))
    assert "is switched off: it is late (by anna)" in str(said(router, "off"))
    copied(fleet, "off", 2)
    assert actions(fleet.nodes[second], "off")[:2] == ["overrides", "push"]
    assert "is switched off: it is late (by anna)" in str(said(fleet.nodes[second], "off"))
    status = control.status("off").servable("off")
    assert status is not None
    assert [one.action for one in status.overrides] == ["disable"]
    assert status.disabled == "it is late (by anna)"
    assert control.override("enable", "off", **WHO).changed
    eventually(lambda: everywhere(fleet, "off") == {11.0})
    eventually(lambda: said(router, "off") == 11.0)
    left = copied(fleet, "off", 1)
    control.override("disable", "off", **WHO)
    (gone,) = {"a", "b"} - set(left)
    eventually(lambda: obeyed(fleet.nodes[left[0]], "off"))
    eventually(lambda: not obeyed(fleet.nodes[gone], "off"))


def test_a_node_that_comes_back_obeys_the_fleet(
    fleet: Fleet, controller: ControllerProcess, control: ControlClient
) -> None:
    pushed(fleet, controller, "late", 1)
    fleet.nodes["b"].kill()
    control.override("disable", "late", **WHO)
    fleet.nodes["b"].start()
    eventually(lambda: "it is late (by anna)" in str(said(fleet.nodes["b"], "late")))
    control.override("enable", "late", **WHO)
    assert eventually(lambda: everywhere(fleet, "late") == {11.0})


def test_a_node_takes_no_decision_about_a_model_of_its_fleet_as_long_as_that_can_decide(
    fleet: Fleet, controller: ControllerProcess
) -> None:
    pushed(fleet, controller, "elsewhere", 1, 2)
    cure = "say it to a controller of the fleet, or take the node out by `tidegate fleet drain b`"
    with fleet.nodes["b"].control() as node:
        for action in ("disable", "freeze", "unpin"):
            with pytest.raises(FailedPrecondition, match=f"elsewhere is a model of fleet tests, .* node b: {cure}"):
                node.override(action, "elsewhere", **WHO)
        with pytest.raises(FailedPrecondition, match=cure):
            node.rollback("elsewhere", requested_by="anna")
        with pytest.raises(NotFound, match="knows no servable 'nobody'"):
            node.override("disable", "nobody", **WHO)
        wanted = node.desired("elsewhere")
        with pytest.raises(FailedPrecondition, match=f"elsewhere is a model of fleet tests, .* node b: {cure}"):
            node.set_desired_state(wanted.promoting(2))
        with pytest.raises(FailedPrecondition, match="does not lead fleet tests any more"):
            node.set_desired_state(wanted.promoting(2), lead=1)
        with pytest.raises(FailedPrecondition, match="does not lead fleet tests any more"):
            node.replace_overrides("elsewhere", NO_OVERRIDES, lead=1, requested_by="fleet")
        with controller.control() as control, pytest.raises(InvalidInput, match="a controller of fleet tests and no"):
            control.set_desired_state(wanted, lead=1)
        fleet.etcd.kill()
        try:
            node.override("disable", "elsewhere", **WHO)
            assert "it is late (by anna)" in str(said(fleet.nodes["b"], "elsewhere"))
        finally:
            fleet.etcd.start()
    eventually(lambda: len(fleet.view().nodes) == 2)
    fleet.nodes["b"].kill()
    fleet.nodes["b"].start()
    eventually(lambda: everywhere(fleet, "elsewhere") == {21.0})


def test_a_pinned_version_serves_on_all_nodes_until_it_is_unpinned(
    fleet: Fleet, controller: ControllerProcess, control: ControlClient
) -> None:
    pushed(fleet, controller, "pinned", 1, 2)
    eventually(lambda: everywhere(fleet, "pinned") == {21.0})
    outcome = control.pin("pinned", 1, **WHO)
    assert (outcome.changed, outcome.from_version, outcome.to_version) == (True, 2, 1)
    eventually(lambda: everywhere(fleet, "pinned") == {11.0})
    pushed(fleet, controller, "pinned", 3)
    assert everywhere(fleet, "pinned") == {11.0}
    with pytest.raises(FailedPrecondition, match="pinned to version 1 by anna: run `tidegate unpin pinned`"):
        control.split("pinned", {3: 1.0}, **WHO)
    with pytest.raises(NotFound, match="pinned:7 was never pushed to this fleet"):
        control.pin("pinned", 7, **WHO)
    with pytest.raises(NotFound, match="pinned served nothing before in this fleet: name a version"):
        rollback(control=controller.address, servable="pinned")
    assert rollback(control=controller.address, servable="pinned", version=2).id.version == 2
    eventually(lambda: everywhere(fleet, "pinned") == {21.0})
    control.override("unpin", "pinned", **WHO)
    eventually(lambda: everywhere(fleet, "pinned") == {31.0})


def test_of_a_frozen_model_pushes_and_decisions_are_refused_until_it_is_let_go(
    fleet: Fleet, controller: ControllerProcess, control: ControlClient
) -> None:
    pushed(fleet, controller, "frozen", 1, 2)
    control.override("freeze", "frozen", **WHO)
    cure = r"frozen by anna \(it is late\): nothing changes until `tidegate unfreeze frozen`"
    with pytest.raises(FailedPrecondition, match=cure):
        push(directory=publish(fleet.root, "frozen", 3, adding(30)), control=controller.address)
    with pytest.raises(FailedPrecondition, match=cure):
        rollback(control=controller.address, servable="frozen")
    with pytest.raises(FailedPrecondition, match=cure):
        control.pin("frozen", 1, **WHO)
    assert everywhere(fleet, "frozen") == {21.0}
    control.override("unfreeze", "frozen", **WHO)
    assert rollback(control=controller.address, servable="frozen").id.version == 1


def test_a_blocked_version_leaves_all_nodes_for_what_served_before_and_is_refused_from_then_on(
    fleet: Fleet, controller: ControllerProcess, router: RouterProcess, control: ControlClient
) -> None:
    pushed(fleet, controller, "blocked", 1, 2)
    control.block("blocked", 2, **WHO)
    eventually(lambda: everywhere(fleet, "blocked") == {11.0})
    eventually(lambda: said(router, "blocked") == 11.0)
    with pytest.raises(FailedPrecondition, match=r"blocked:2 was blocked by anna \(it is late\)"):
        push(directory=fleet.root / "blocked" / "2", control=controller.address)
    control.block("blocked", 1, **WHO)
    eventually(lambda: not fleet.routes("blocked"))
    status = control.status("blocked").servable("blocked")
    assert status is not None
    assert "all versions of blocked were blocked" in status.disabled
    eventually(lambda: "all versions of blocked were blocked" in str(said(router, "blocked")))
    control.unblock("blocked", 1, requested_by="anna")
    eventually(lambda: everywhere(fleet, "blocked") == {11.0})
    control.unblock("blocked", 2, requested_by="anna")
    eventually(lambda: everywhere(fleet, "blocked") == {21.0})


def test_ordinary_requests_are_split_on_every_node_and_a_rollback_ends_it(
    fleet: Fleet, controller: ControllerProcess, control: ControlClient
) -> None:
    pushed(fleet, controller, "split", 1, 2)
    push(directory=publish(fleet.root, "split", 3, adding(30)), control=controller.address)
    with pytest.raises(InvalidInput, match="names version 5, which nobody wants live"):
        control.split("split", {2: 0.5, 5: 0.5}, **WHO)
    assert everywhere(fleet, "split") == {21.0}
    control.split("split", {2: 0.5, 3: 0.5}, **WHO)
    for node in fleet.nodes.values():
        for answer in (21.0, 31.0):
            eventually(partial(says, node, "split", answer))
    assert rollback(control=controller.address, servable="split").id.version == 1
    eventually(lambda: not any(obeyed(node, "split") for node in fleet.nodes.values()))
    assert everywhere(fleet, "split") == {11.0}
