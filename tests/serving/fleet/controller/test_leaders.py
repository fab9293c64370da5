"""A leader that was stopped for longer than its lease while another one led: real processes, and signals to them."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

import numpy as np
import pytest
from tests.support.engine.process import free_port
from tests.support.eventually import eventually
from tests.support.models.versions import adding, publish
from tests.support.neighbours.fleet import ControllerProcess, Fleet, fleet_over
from tests.support.server_process import ServerProcess

from tidegate_operators.steps.promote import promote
from tidegate_operators.steps.push import push
from tidegate_serving.contract.errors import TidegateError


@pytest.fixture
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """One node, whose control address is the same each time that it starts."""
    with fleet_over(tmp_path_factory.mktemp("fleet")) as running:
        running.node("a", control_address=f"127.0.0.1:{free_port()}").await_ready()
        yield running


@contextmanager
def stopped(process: ServerProcess) -> Iterator[None]:
    """It does nothing meanwhile, and hears of nothing."""
    assert process.process is not None
    process.process.send_signal(signal.SIGSTOP)
    try:
        yield
    finally:
        process.process.send_signal(signal.SIGCONT)


def leading(fleet: Fleet) -> ControllerProcess:
    """A first controller, which leads."""
    first = fleet.controller("first").await_ready()
    eventually(lambda: fleet.view().leader)
    return first


def serve(fleet: Fleet, controller: ControllerProcess, number: int) -> None:
    """A version, which answers with ten times its number and one, is pushed and takes ordinary requests."""
    push(directory=publish(fleet.root, "m", number, adding(10 * number)), control=controller.address, timeout=60)
    promote(control=controller.address, servable="m", version=number, timeout=60)
    eventually(lambda: answers(fleet, 10.0 * number + 1))


def answers(fleet: Fleet, answer: float) -> bool:
    try:
        with fleet.nodes["a"].client() as client:
            return float(client.predict("m", {"x": np.array([1.0], np.float32)})["y"][0]) == answer
    except TidegateError:
        return False


def test_who_leads_again_tells_nodes_what_another_leader_told_them_otherwise(fleet: Fleet) -> None:
    first = leading(fleet)
    serve(fleet, first, 1)
    kept = fleet.view().models["m"].desired
    second = fleet.controller("second").await_ready()
    with stopped(first):
        serve(fleet, second, 2)
        second.kill()
        eventually(lambda: not fleet.view().leader)
        desired = fleet.view().models["m"].desired
        with fleet.operations() as operations:  # as a controller does that dies before it told the node
            operations.set_desired_state(replace(kept, requested_by="anna"), desired.revision)
    assert eventually(lambda: answers(fleet, 11.0))


def test_who_led_before_tells_a_node_that_comes_back_nothing_any_more(fleet: Fleet) -> None:
    first = leading(fleet)
    serve(fleet, first, 1)
    second = fleet.controller("second").await_ready()
    with stopped(first):
        serve(fleet, second, 2)
    node = fleet.nodes["a"]
    node.kill()
    node.start()
    push(directory=publish(fleet.root, "mark", 1, adding(1)), control=first.address, timeout=60)
    eventually(lambda: answers(fleet, 21.0))
    with node.control() as control:
        told = [one for one in control.journal(servable="m") if one.kind.value == "control"]
    assert {"versions 2," in one.text for one in told} == {True}, told
