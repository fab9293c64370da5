"""Nodes whose keys in etcd went while they answer: one that lost its lease alone writes its key again at its next beat.

Until then such a node counts as there, and nothing is moved for that. One that does not answer counts as gone at once.
"""

from __future__ import annotations

from collections.abc import Mapping

from tidegate_serving.fleet.controller.node_link import NodeLink
from tidegate_serving.fleet.etcd.presence import BEATS
from tidegate_serving.fleet.state.node import Node

_LATE_SECONDS = 1.0


class Absences:
    """`seconds` is how long a node's key outlives it."""

    def __init__(self, seconds: int) -> None:
        self._patience = seconds / BEATS + _LATE_SECONDS
        self._known: Mapping[str, Node] = {}
        self._until: dict[str, float] = {}

    def filled(self, nodes: Mapping[str, Node], links: Mapping[str, NodeLink], now: float) -> Mapping[str, Node]:
        """The nodes with those that are absent for a moment; `now` is in monotonic seconds. Whoever is found absent is
        asked whether it is there. A node that said that it leaves is not waited for."""
        absent = {name: node for name, node in self._known.items() if name not in nodes and not node.leaving}
        for name in absent.keys() & (links.keys() - self._until.keys()):
            links[name].doubt()
        until = {name: self._until.get(name, now + self._patience) for name in absent.keys() & links.keys()}
        self._until = {name: end for name, end in until.items() if now < end and not links[name].problem}
        self._known = {**nodes, **{name: absent[name] for name in self._until}}
        return self._known
