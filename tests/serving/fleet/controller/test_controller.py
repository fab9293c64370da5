"""A controller's turn with many nodes, and with some whose lines take long to end; none of them needs etcd."""

from __future__ import annotations

import threading

import pytest

from tidegate_serving.connection import EngineConnection
from tidegate_serving.fleet.controller import controller as module
from tidegate_serving.fleet.controller.controller import Controller
from tidegate_serving.fleet.controller.node_link import NodeLink
from tidegate_serving.fleet.etcd.client import Etcd
from tidegate_serving.fleet.state.keys import FleetKeys
from tidegate_serving.fleet.state.node import Node
from tidegate_serving.fleet.state.placement import Placement
from tidegate_serving.fleet.state.view import FleetView
from tidegate_serving.lifecycle.events import EventBus
from tidegate_serving.sources.problems import SourceProblems

NOBODY = EngineConnection.of("127.0.0.1:9")


def controller(problems: SourceProblems) -> Controller:
    return Controller(Etcd("127.0.0.1:9"), FleetKeys("f"), "c", lambda _: NOBODY, 5, EventBus(), problems)


def nodes(count: int) -> dict[str, Node]:
    return {f"n{one}": Node(f"n{one}", "g:1", "r:1", f"c{one}:1", 1) for one in range(count)}


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
