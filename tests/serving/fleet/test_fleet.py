"""A fleet from outside: real engines, controllers and etcd, pushed to as to one engine."""

from __future__ import annotations

import contextlib
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from tests.support.clients import official_client
from tests.support.clients.rest import call
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import adding, publish
from tests.support.neighbours.fleet import ControllerProcess, Fleet, RouterProcess, fleet_over

from tidegate_operators.steps.promote import promote
from tidegate_operators.steps.push import push
from tidegate_operators.steps.rollback import rollback
from tidegate_serving.config import EngineConfig
from tidegate_serving.contract.errors import (
    FailedPrecondition,
    NotFound,
    PermissionRefused,
    ResourceExhausted,
    Tampered,
    Unavailable,
)
from tidegate_serving.contract.servable import State
from tidegate_serving.fleet.controller.process import ControllerProcess as Controller
from tidegate_serving.fleet.state.keys import NODES
from tidegate_serving.fleet.state.model import Copies

CAPACITY = 1000
CLIENTS = (over_grpc, "grpc"), (over_http, "rest")


@pytest.fixture(scope="module")
def fleet(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Fleet]:
    """Three nodes that hold a thousand bytes each."""
    with fleet_over(tmp_path_factory.mktemp("fleet")) as running:
        for name in "abc":
            running.node(name, capacity_bytes=CAPACITY)
        for node in running.nodes.values():
            node.await_ready()
        yield running


@pytest.fixture(scope="module")
def controller(fleet: Fleet) -> ControllerProcess:
    process = fleet.controller().await_ready()
    eventually(lambda: fleet.view().leader)
    eventually(lambda: len(fleet.view().nodes) == 3)
    return process


@pytest.fixture(scope="module")
def router(fleet: Fleet, controller: ControllerProcess) -> RouterProcess:
    return fleet.router().await_ready()


def size(fleet: Fleet, model: str, bytes: int, least: int = 1, most: int = 1) -> None:
    with fleet.operations() as operations:
        operations.set_copies(model, Copies(least, most), bytes, None)


def answer(server: EngineProcess | RouterProcess, model: str, seconds: float = 30.0) -> float:
    with server.client() as client:
        return float(client.predict(model, {"x": np.array([1.0], np.float32)}, timeout=seconds)["y"][0])


def answered(router: RouterProcess, model: str) -> float:
    """What a router answers once it has heard of the newest routes."""

    def ask() -> list[float]:
        with contextlib.suppress(NotFound, Unavailable):
            return [answer(router, model)]
        return []

    return eventually(ask)[0]


def settled(fleet: Fleet, model: str, copies: int) -> tuple[str, ...]:
    """The nodes of a model, once it is available on so many."""
    return eventually(lambda: found if len(found := fleet.routes(model)) == copies else ())


def test_a_version_is_pushed_promoted_and_taken_back_on_all_copies_without_a_failed_request(
    fleet: Fleet, controller: ControllerProcess, router: RouterProcess
) -> None:
    one, two = (publish(fleet.root, "rolling", number, adding(10 * number)) for number in (1, 2))
    push(directory=one, control=controller.address)
    size(fleet, "rolling", 10, 2, 2)
    nodes = settled(fleet, "rolling", 2)
    assert {answer(fleet.nodes[node], "rolling") for node in nodes} == {11.0}
    assert answered(router, "rolling") == 11.0
    answers: set[float] = set()
    asked = threading.Event()
    stop = threading.Event()

    def ask() -> None:
        while not stop.is_set():
            answers.add(answer(router, "rolling"))
            asked.set()

    asking = threading.Thread(target=ask)
    asking.start()
    assert asked.wait(60)
    pushed = push(directory=two, control=controller.address)
    assert pushed.beside == 1
    promoted = promote(control=controller.address, servable="rolling", version=2)
    assert promoted.ended == (1,)
    eventually(lambda: 21.0 in answers)
    assert {answer(fleet.nodes[node], "rolling") for node in nodes} == {21.0}
    back = rollback(control=controller.address, servable="rolling")
    assert (back.id.version, back.ended) == (1, (2,))
    stop.set()
    asking.join()
    assert answers == {11.0, 21.0}
    with controller.control() as control:
        status = control.status("rolling").servable("rolling")
    assert status is not None
    assert (status.ordinary, status.previous, status.source) == (1, None, "fleet")


def test_a_promotion_does_not_wait_for_versions_that_stay_because_of_a_pin_or_for_a_rollback(
    fleet: Fleet, controller: ControllerProcess
) -> None:
    for number in (1, 2, 3):
        push(directory=publish(fleet.root, "kept", number, adding(number)), control=controller.address)
        if number < 3:
            promote(control=controller.address, servable="kept", version=number, keep_previous=True, timeout=30)
    with controller.control() as control:
        kept = control.status("kept").servable("kept")
        assert kept is not None
        assert (kept.kept, kept.previous, kept.ordinary) == ((1,), 1, 2)
        control.pin("kept", 2, requested_by="ann")
        promote(control=controller.address, servable="kept", version=3, keep_previous=False, timeout=30)
        pinned = control.status("kept").servable("kept")
    assert pinned is not None
    assert (pinned.kept, pinned.ordinary) == ((2,), 2)


def test_a_version_that_a_node_refuses_fails_the_push_and_the_old_one_serves(
    fleet: Fleet, controller: ControllerProcess
) -> None:
    push(directory=publish(fleet.root, "judged", 1, adding(1)), control=controller.address)
    broken = publish(fleet.root, "judged", 2, adding(2))
    (broken / "model.py").write_text("broken")
    with pytest.raises(Tampered, match=r"node [abc]: .*model\.py"):
        push(directory=broken, control=controller.address)
    (node,) = settled(fleet, "judged", 1)
    assert answer(fleet.nodes[node], "judged") == 2.0
    with controller.control() as control:
        assert control.desired("judged").numbers == {1}


def test_a_first_version_that_was_refused_is_taken_once_it_is_mended(
    fleet: Fleet, controller: ControllerProcess
) -> None:
    first = publish(fleet.root, "mended", 1, adding(1))
    whole = (first / "model.py").read_text()
    (first / "model.py").write_text("broken")
    with pytest.raises(Tampered, match=r"model\.py"):
        push(directory=first, control=controller.address)
    eventually(lambda: "mended" not in fleet.view().models)
    (first / "model.py").write_text(whole)
    push(directory=first, control=controller.address, timeout=20)
    (node,) = settled(fleet, "mended", 1)
    assert answer(fleet.nodes[node], "mended") == 2.0


def test_a_node_that_can_keep_nothing_leaves_new_models_to_the_others_and_is_named_where_all_are_needed(
    tmp_path_factory: pytest.TempPathFactory,
) -> None:
    with fleet_over(tmp_path_factory.mktemp("fleet")) as fleet:
        fleet.node("a", capacity_bytes=10**9, roots=[fleet.root / "not mounted"])
        fleet.node("b", capacity_bytes=10**6)
        for node in fleet.nodes.values():
            node.await_ready()
        controller = fleet.controller().await_ready()
        eventually(lambda: len(fleet.view().nodes) == 2)
        push(directory=publish(fleet.root, "m", 1, adding(10)), control=controller.address)
        assert settled(fleet, "m", 1) == ("b",)
        with fleet.operations() as operations:
            operations.set_copies("m", Copies(2, 2))
        eventually(lambda: b"node a" in fleet.view().routes)
        with pytest.raises(PermissionRefused, match=r"node a: .* lies outside the engine's roots"):
            push(directory=publish(fleet.root, "m", 2, adding(20)), control=controller.address)
        assert fleet.routes("m") == ("b",)
        assert answer(fleet.nodes["b"], "m") == 11.0


def test_of_a_first_push_is_told_that_it_is_wanted_loads_and_is_there_and_then_how_often_each_node_was_asked(
    fleet: Fleet, controller: ControllerProcess
) -> None:
    push(directory=publish(fleet.root, "told", 1, adding(10)), control=controller.address)
    size(fleet, "told", 10)
    (node,) = settled(fleet, "told", 1)
    for _ in range(3):
        assert answer(fleet.nodes[node], "told") == 11.0
    with controller.control() as control:
        told = [one.action for one in control.journal(servable="told") if one.kind.value == "state"]
        assert told == ["START", "LOADING", "AVAILABLE"]

        def asked() -> float:
            samples = control.status("told").counters.items()
            mark = f'tidegate_requests_total{{node="{node}",'
            return sum(value for name, value in samples if name.startswith(mark) and 'model="told"' in name)

        eventually(lambda: asked() == 3.0)


def test_a_model_that_fits_nowhere_fails_the_push_with_its_bytes(fleet: Fleet, controller: ControllerProcess) -> None:
    large = publish(fleet.root, "large", 1, adding(1, files={"model.py": "#" * 2000}))
    with pytest.raises(
        ResourceExhausted, match=r"copy 1 of large needs 2,400 bytes, and node [abc], which has the most"
    ):
        push(directory=large, control=controller.address)
    eventually(lambda: "large" not in fleet.view().models)


def test_a_node_that_is_drained_has_its_models_elsewhere_before_they_leave(
    fleet: Fleet, controller: ControllerProcess
) -> None:
    push(directory=publish(fleet.root, "moving", 1, adding(1)), control=controller.address)
    size(fleet, "moving", 10)
    (node,) = settled(fleet, "moving", 1)
    with fleet.operations() as operations:
        operations.drain(node)
    (other,) = eventually(lambda: found if (found := fleet.routes("moving")) and node not in found else ())
    assert answer(fleet.nodes[other], "moving") == 2.0
    with fleet.nodes[node].control() as control:
        eventually(lambda: not any(one.desired.versions for one in control.status().servables))
    with fleet.operations() as operations:
        operations.drain(node, empty=False)


def test_a_fleet_and_a_node_of_another_name_are_named_as_what_there_is_not(
    fleet: Fleet, controller: ControllerProcess
) -> None:
    command = [sys.executable, "-m", "tidegate_pipelines.cli", "fleet", "status", "--etcd", fleet.etcd.address]
    done = subprocess.run(command, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 2
    words = " ".join(done.stderr.split())
    assert "has no fleet default: name another by --fleet, there are tests" in words
    with fleet.operations() as operations, pytest.raises(NotFound, match="zz is no node of fleet tests: its nodes are"):
        operations.drain("zz", empty=False)


def held_by_others(fleet: Fleet, names: Sequence[str]) -> dict[str, int]:
    """Bytes on each node of models that are not among `names`, such as those of other tests."""
    view = fleet.view()
    held = dict.fromkeys(fleet.nodes, 0)
    for name, model in view.models.items():
        for node in view.placement.nodes.get(name, ()) if name not in names else ():
            held[node] += model.size
    return held


def test_of_models_that_nobody_has_to_have_the_least_recently_used_leaves_and_comes_back_when_it_is_asked_for(
    fleet: Fleet, controller: ControllerProcess, router: RouterProcess
) -> None:
    names = [f"cold{number}" for number in range(8)]
    for name in names:
        push(directory=publish(fleet.root, name, 1, adding(1)), control=controller.address)
        size(fleet, name, 400)
        settled(fleet, name, 1)  # what nobody has to have and nobody has asked for would be placed nowhere
        size(fleet, name, 400, 0)
    fit = sum((CAPACITY - held) // 400 for held in held_by_others(fleet, names).values())
    assert 4 <= fit <= 6
    loaded = eventually(lambda: found if len(found := sorted(fleet.routed().keys() & names)) == fit else [])
    assert loaded == names[-fit:]
    oldest, next_oldest = loaded[:2]
    assert answered(router, oldest) == 2.0
    eventually(lambda: any(oldest in usage for usage in fleet.view().usage))
    assert answered(router, names[0]) == 2.0
    assert answered(router, oldest) == 2.0
    assert not fleet.routes(next_oldest)
    with controller.control() as control:
        for name in names:
            control.set_desired_state(control.desired(name).without(1))
    eventually(lambda: not set(names) & fleet.view().models.keys())


def test_lists_at_the_router_are_of_the_whole_fleet_and_tell_cold_models(
    fleet: Fleet, controller: ControllerProcess, router: RouterProcess
) -> None:
    for name in ("listed", "asleep"):
        push(directory=publish(fleet.root, name, 3, adding(1)), control=controller.address)
        size(fleet, name, 10)
    settled(fleet, "listed", 1)
    with fleet.operations() as operations:
        operations.set_copies("asleep", Copies(0, 1), labels={"zone": "of no node"})
    eventually(lambda: not fleet.routes("asleep"))
    grpc, rest = (library.InferenceServerClient(router.addresses[port]) for library, port in CLIENTS)

    def entry(name: str) -> dict[str, str]:
        return next((one for one in rest.get_model_repository_index() if one["name"] == name), {})

    eventually(lambda: "the first request for it has it loaded" in entry("asleep").get("reason", ""))
    assert entry("asleep")["state"] == "UNAVAILABLE"
    assert entry("listed") == {"name": "listed", "version": "3", "state": "READY", "reason": ""}
    index = grpc.get_model_repository_index(as_json=True)["models"]
    assert {(one["name"], one["state"]) for one in index} >= {("listed", "READY"), ("asleep", "UNAVAILABLE")}
    names = call(router.addresses["rest"], "GET", "/v2/models").json()["models"]
    assert "listed" in names
    assert "asleep" not in names
    state, text = official_client.run("states", router.addresses["grpc"], "asleep")["3"]
    assert (state, "on no node" in text) == (State.END.value, True)
    assert not fleet.routes("asleep")
    with controller.control() as control:
        for name in ("listed", "asleep"):
            control.set_desired_state(control.desired(name).without(3))
    eventually(lambda: not {"listed", "asleep"} & fleet.view().models.keys())


def test_a_node_that_loses_its_key_alone_keeps_its_models(
    fleet: Fleet, controller: ControllerProcess, router: RouterProcess
) -> None:
    push(directory=publish(fleet.root, "staying", 1, adding(1)), control=controller.address)
    size(fleet, "staying", 10)
    (node,) = settled(fleet, "staying", 1)
    before = fleet.view()
    with fleet.operations() as operations:
        operations.etcd.commit({}, {}, [operations.keys.key(NODES, node)])
    eventually(lambda: node in fleet.view().nodes)
    push(directory=publish(fleet.root, "after", 1, adding(1)), control=controller.address)
    assert fleet.view().placement.nodes.items() >= before.placement.nodes.items()
    assert fleet.routes("staying") == (node,)
    assert answer(router, "staying") == 2.0


def test_what_waits_at_a_node_that_stands_still_is_answered_once_the_fleet_has_lost_it(
    fleet: Fleet, controller: ControllerProcess, router: RouterProcess
) -> None:
    """As its machine loses power: no connection ends, and a client's own deadline may be far."""
    push(directory=publish(fleet.root, "still", 1, adding(1)), control=controller.address)
    size(fleet, "still", 10, least=2, most=2)
    node, _ = settled(fleet, "still", 2)
    assert answered(router, "still") == 2.0
    assert {answer(router, "still") for _ in range(32)} == {2.0}, "by then both nodes were asked"
    process = fleet.nodes[node].process
    assert process is not None
    process.send_signal(signal.SIGSTOP)
    try:
        with ThreadPoolExecutor(16) as threads:
            asked = [threads.submit(answer, router, "still", 600.0) for _ in range(16)]
            eventually(lambda: all(one.done() for one in asked), 25.0)
            assert {one.result() for one in asked} == {2.0}
    finally:
        process.send_signal(signal.SIGCONT)
    eventually(lambda: node in fleet.view().nodes)


def test_a_killed_node_and_a_killed_controller_and_an_etcd_that_restarts_leave_every_model_served(
    fleet: Fleet, controller: ControllerProcess, router: RouterProcess
) -> None:
    standby = fleet.controller("standby").await_ready()
    push(directory=publish(fleet.root, "lasting", 1, adding(1)), control=standby.address)
    size(fleet, "lasting", 10)
    (node,) = settled(fleet, "lasting", 1)
    before = fleet.view()
    assert answered(router, "lasting") == 2.0
    fleet.etcd.kill()
    assert answer(router, "lasting") == 2.0
    fleet.etcd.start()
    controller.kill()
    fleet.nodes[node].kill()
    (other,) = eventually(lambda: found if (found := fleet.routes("lasting")) and node not in found else ())
    assert answer(fleet.nodes[other], "lasting") == answered(router, "lasting") == 2.0
    after = fleet.view()
    assert after.leader not in ("", before.leader)
    moved = {name for name, nodes in before.placement.nodes.items() if after.placement.nodes[name] != nodes}
    assert moved == {name for name, nodes in before.placement.nodes.items() if node in nodes}


def test_a_controller_without_etcd_says_how_to_name_it() -> None:
    with pytest.raises(FailedPrecondition, match="a controller needs etcd: name its endpoints with --etcd"):
        Controller(EngineConfig())
