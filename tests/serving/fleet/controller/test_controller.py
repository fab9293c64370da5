"""A controller's turn with many nodes, and with some whose lines take long to end; none of them needs etcd."""

from __future__ import annotations

import threading
from collections.abc import Mapping
from pathlib import Path

import pytest
from tests.support.eventually import eventually

from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.desired_state import DesiredState, VersionReference
from tidegate_serving.contract.servable import ServableId, State, StateChange
from tidegate_serving.fleet.controller import controller as module
from tidegate_serving.fleet.controller.controller import Controller
from tidegate_serving.fleet.controller.node_link import NodeLink
from tidegate_serving.fleet.decision.rollout import Seen
from tidegate_serving.fleet.etcd.client import Etcd
from tidegate_serving.fleet.state.keys import FleetKeys
from tidegate_serving.fleet.state.model import FleetModel
from tidegate_serving.fleet.state.node import Node
from tidegate_serving.fleet.state.placement import Placement
from tidegate_serving.fleet.state.view import FleetView
from tidegate_serving.lifecycle.events import EventBus
from tidegate_serving.sources.problems import SourceProblems

NOBODY = EngineConnection.of("127.0.0.1:9")


def controller(problems: SourceProblems, events: EventBus | None = None) -> Controller:
    return Controller(Etcd("127.0.0.1:9"), FleetKeys("f"), "c", lambda _: NOBODY, 5, events or EventBus(), problems)


def nodes(count: int) -> dict[str, Node]:
    return {f"n{one}": Node(f"n{one}", "g:1", "r:1", f"c{one}:1", 1) for one in range(count)}


def placed(numbers: Mapping[int, State]) -> tuple[FleetView, dict[str, Seen]]:
    """A fleet of one node that has versions of a model, and what the node says of them."""
    references = tuple(VersionReference(number, Path(f"/m/{number}"), f"digest {number}") for number in numbers)
    desired = DesiredState("m", references, {}, revision=len(numbers))
    model = FleetModel(desired)
    states = {ServableId("m", one): StateChange(ServableId("m", one), state) for one, state in numbers.items()}
    view = FleetView(1, nodes=nodes(1), models={"m": model}, placement=Placement({"m": ("n0",)}))
    return view, {"n0": Seen({"m": desired}, states, heard={"m": desired.revision})}


def test_a_version_starts_before_it_loads_also_where_a_look_sees_the_write_before_it_is_expected() -> None:
    events, told = EventBus(), list[StateChange]()
    events.subscribe(told.append)
    found = controller(SourceProblems(), events)
    found._publish(*placed({1: State.AVAILABLE}))
    view, seen = placed({1: State.AVAILABLE, 2: State.LOADING})
    found._publish(view, seen)
    found.expect(view.models["m"].desired)
    found._publish(*placed({1: State.AVAILABLE, 2: State.AVAILABLE}))
    states = [(1, State.AVAILABLE), (2, State.START), (2, State.LOADING), (2, State.AVAILABLE)]
    assert [(one.id.version, one.state) for one in told] == states
    assert [one.at_us for one in told] == sorted(one.at_us for one in told)


def test_what_counts_again_once_another_copy_has_gone_is_told_as_of_now() -> None:
    events, told = EventBus(), list[StateChange]()
    events.subscribe(told.append)
    found = controller(SourceProblems(), events)
    before = placed({1: State.AVAILABLE})
    found._publish(*before)
    found._publish(*placed({1: State.LOADING}))
    found._publish(*before)
    assert [one.state for one in told] == [State.AVAILABLE, State.LOADING, State.AVAILABLE]
    assert sorted(told, key=lambda one: one.at_us) == told


def test_a_node_that_died_is_told_as_gone_and_not_as_well_again() -> None:
    problems, told = SourceProblems(), list[str]()
    problems.subscribe(lambda one, present: told.append(f"{one.source} {'is in trouble' if present else one.ending}"))
    found = controller(problems)
    found._listen_to(nodes(1))
    assert eventually(lambda: found._lost({}) is not None and told)
    found._listen_to({})
    assert told == ["node n0 is in trouble", "node n0 is gone: its entry in etcd has ended"]


def test_no_more_nodes_are_listened_to_than_a_controller_has_threads_for(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MOST_NODES", 2)
    problems = SourceProblems()
    found = controller(problems)
    assert list(found._few(nodes(5))) == ["n0", "n1"]
    (problem,) = problems.of_sources()
    assert "5 nodes are registered in etcd and 2 are used" in problem.error.message
    assert list(found._few(nodes(2))) == ["n0", "n1"]
    assert not problems.of_sources()


def test_a_node_that_has_gone_is_not_waited_for_while_its_line_ends() -> None:
    found, go_on = controller(SourceProblems()), threading.Event()
    link = NodeLink(NOBODY, lambda: None, lambda: 0)
    link._threads = [threading.Thread(target=go_on.wait, daemon=True)]
    link.start()
    found._lines["gone"] = module._Line(nodes(1)["n0"], link, 0.0)
    turn = threading.Thread(target=found._listen_to, args=({},), daemon=True)
    turn.start()
    turn.join(10)
    ended = not turn.is_alive()
    go_on.set()
    turn.join(10)
    assert ended
    assert not found._lines


def test_who_leads_anew_gives_nodes_that_lost_their_keys_a_lease_to_be_back(monkeypatch: pytest.MonkeyPatch) -> None:
    found, written = controller(SourceProblems()), list[Placement]()
    monkeypatch.setattr(found, "_lead", lambda: 7)
    monkeypatch.setattr(found, "_write", lambda view, decision, lead: written.append(decision.placement))
    found._feed.view = FleetView(revision=7, placement=Placement({"m": ("n0",)}))
    found._turn()
    assert not written
    found._led_since -= 5
    found._turn()
    assert written
    found._feed.view = FleetView(revision=8)
    monkeypatch.setattr(found, "_lead", lambda: 8)
    found._turn()
    assert len(written) == 1
    found._feed.view = FleetView(revision=8, routes=b"{}")
    found._turn()
    assert len(written) == 2
