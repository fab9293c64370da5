"""Who counts as a node while its key in etcd is gone, with lines to nodes that are played."""

from __future__ import annotations

from dataclasses import replace

from tidegate_serving.connection import EngineConnection
from tidegate_serving.fleet.controller.absence import Absences
from tidegate_serving.fleet.controller.node_link import NodeLink
from tidegate_serving.fleet.state.node import Node

A, B = (Node(name, f"{name}:1", f"{name}:2", f"{name}:3", 1) for name in "ab")
NODES = {"a": A, "b": B}


class PlayedLink(NodeLink):
    """Counts how often its node is doubted."""

    def __init__(self) -> None:
        super().__init__(EngineConnection.of("127.0.0.1:9"), lambda: None, lambda: 0)
        self.doubted = 0

    def doubt(self) -> None:
        self.doubted += 1


def test_a_node_without_a_key_stays_for_a_beat_and_is_asked_once() -> None:
    absences, links = Absences(9), {"a": PlayedLink(), "b": PlayedLink()}
    assert absences.filled(NODES, links, 0.0) == NODES
    for now in (1.0, 2.0, 4.9):
        assert absences.filled({"b": B}, links, now) == NODES
    assert absences.filled({"b": B}, links, 5.0) == {"b": B}
    assert absences.filled({"b": B}, links, 5.1) == {"b": B}
    assert (links["a"].doubted, links["b"].doubted) == (1, 0)


def test_a_node_that_is_back_has_a_beat_the_next_time_too() -> None:
    absences, links = Absences(9), {"a": PlayedLink()}
    for begin in (0.0, 10.0):
        assert absences.filled({"a": A}, links, begin) == {"a": A}
        assert absences.filled({}, links, begin + 1.0) == {"a": A}
        assert absences.filled({}, links, begin + 4.9) == {"a": A}
    assert links["a"].doubted == 2


def test_a_node_that_does_not_answer_or_said_that_it_leaves_is_gone_at_once() -> None:
    absences, links = Absences(9), {"a": PlayedLink(), "b": PlayedLink()}
    absences.filled({"a": A, "b": replace(B, leaving=True)}, links, 0.0)
    assert absences.filled({}, links, 1.0) == {"a": A}
    links["a"]._problem = "refused"
    assert absences.filled({}, links, 1.1) == {}
    assert links["b"].doubted == 0
