"""An etcd that was restored from a backup, or emptied: the fleet goes on without a restart."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from tests.support.eventually import eventually
from tests.support.models.versions import adding, publish
from tests.support.neighbours.fleet import ControllerProcess, Fleet, RouterProcess, fleet_over

from tidegate_operators.steps.promote import promote
from tidegate_operators.steps.push import push
from tidegate_serving.contract.errors import TidegateError
from tidegate_serving.contract.servable import State


@pytest.fixture
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    with fleet_over(tmp_path_factory.mktemp("fleet")) as running:
        for name in "ab":
            running.node(name)
        for node in running.nodes.values():
            node.await_ready()
        yield running


def answers(router: RouterProcess, model: str, answer: float) -> bool:
    try:
        with router.client() as client:
            return float(client.predict(model, {"x": np.array([1.0], np.float32)})["y"][0]) == answer
    except TidegateError:
        return False


def fill(fleet: Fleet, revisions: int) -> None:
    """So many revisions more."""
    etcd = fleet.etcd.client()
    for _ in range(revisions):
        etcd.commit({}, {"/other": b""})
    etcd.close()


def pushed(fleet: Fleet, controller: ControllerProcess, model: str, number: int) -> None:
    push(directory=publish(fleet.root, model, number, adding(10 * number)), control=controller.address, timeout=60)
    promote(control=controller.address, servable=model, version=number, timeout=60)


def test_pushes_reach_the_nodes_and_states_are_told_after_a_restore(fleet: Fleet) -> None:
    leader, other = fleet.controller("one").await_ready(), fleet.controller("two").await_ready()
    router = fleet.router().await_ready()
    eventually(lambda: len(fleet.view().nodes) == 2)
    pushed(fleet, leader, "kept", 1)
    kept = fleet.etcd.copy()
    eventually(lambda: len(fleet.view().nodes) == 2)
    fill(fleet, 3000)
    pushed(fleet, leader, "kept", 2)
    pushed(fleet, other, "lost", 5)
    eventually(lambda: answers(router, "kept", 21.0))
    fleet.etcd.restore(kept)
    eventually(lambda: answers(router, "kept", 11.0))
    for controller in (leader, other):
        with controller.control() as control:
            eventually(lambda: control.desired("kept").stable == 1)
            assert not control.desired("lost").versions
    pushed(fleet, other, "kept", 3)
    eventually(lambda: answers(router, "kept", 31.0))
    pushed(fleet, leader, "lost", 6)
    eventually(lambda: answers(router, "lost", 61.0))
    for controller in (leader, other):
        with controller.control() as control:
            for model, number in (("kept", 3), ("lost", 6)):
                control.wait_until(model, number, State.AVAILABLE, 30)


def problems(controller: ControllerProcess) -> list[str]:
    with controller.control() as control:
        return [one.error_message for one in control.status().problems]


def test_an_etcd_that_lost_everything_ends_no_route_and_is_told_until_a_backup_is_back(fleet: Fleet) -> None:
    controller = fleet.controller().await_ready()
    router = fleet.router().await_ready()
    eventually(lambda: len(fleet.view().nodes) == 2)
    pushed(fleet, controller, "kept", 1)
    kept = fleet.etcd.copy()
    eventually(lambda: answers(router, "kept", 11.0))
    fleet.etcd.empty()
    words = "etcd has nothing of fleet tests, and its nodes have 1 models, such as kept: restore etcd from a backup"
    eventually(lambda: any(words in one for one in problems(controller)))
    eventually(lambda: fleet.view().leader and len(fleet.view().nodes) == 2)
    assert answers(router, "kept", 11.0)
    fleet.etcd.restore(kept)
    eventually(lambda: fleet.routes("kept") and not problems(controller))
    assert answers(router, "kept", 11.0)
