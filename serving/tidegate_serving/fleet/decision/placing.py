"""Which node is to hold which model, as one pure function of nodes, models and what was placed before.

    place(nodes, demands, before) -> Placement

What is placed stays where it is, unless its node is gone or is to be emptied, or has too little room while another one
has enough. A copy that is missing goes to the node with the most room. Where none has enough, and the copy is one of
the least that its model must have, copies that nobody has to have leave, least recently used first, as few as that
takes. A model that grows is placed as one that comes: where there is no room for all of it, it counts for what it did.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from tidegate_serving.fleet.state.node import Node
from tidegate_serving.fleet.state.placement import Placement


@dataclass(frozen=True, slots=True)
class Demand:
    """A model that is to be on `copies` nodes that have its `labels`, and takes `bytes` on each. Copies beyond `least`
    may leave where room is needed, all of them where that is 0. `used_at` is Unix seconds of its last request. The
    nodes of `refused_by` take it only where no other can. `held` is what it counts for as long as there is no room for
    all its bytes: what serves of it already; None for all."""

    name: str
    bytes: int
    copies: int = 1
    least: int = 1
    labels: Mapping[str, str] = field(default_factory=dict)
    used_at: float = 0.0
    refused_by: Collection[str] = ()
    held: int | None = None

    @property
    def counted(self) -> int:
        """The bytes that it counts for at first."""
        return self.bytes if self.held is None else min(self.held, self.bytes)


def place(nodes: Sequence[Node], demands: Sequence[Demand], before: Mapping[str, Collection[str]]) -> Placement:
    """`before` are the nodes of each model as they were decided last."""
    table = _Table(nodes, demands)
    table.keep(before)
    needed = {one.name: max(one.least, 1) for one in demands}
    for demand, copy in _in_turn(demands):
        if copy <= needed[demand.name]:
            table.add(demand, copy)
    for demand in sorted(demands, key=lambda one: (not one.least, -one.used_at, one.name)):
        table.grow(demand)
    for demand, copy in _in_turn(demands):
        if copy > needed[demand.name]:
            table.add(demand, copy)
    return table.placement()


def _in_turn(demands: Sequence[Demand]) -> Iterator[tuple[Demand, int]]:
    """Copies that must be there first, then the first ones of models that may leave, the last used before the others,
    then what is left. Every model's first copy comes before the second ones, and large ones before small ones."""

    def rank(copy: int, one: Demand) -> tuple[int, int, float, int, str]:
        group = 0 if copy <= one.least else 1 if copy == 1 else 2
        return group, copy, -one.used_at if group == 1 else 0.0, -one.counted, one.name

    pairs = [(one, copy) for one in demands for copy in range(1, one.copies + 1)]
    yield from sorted(pairs, key=lambda pair: rank(pair[1], pair[0]))


class _Table:
    """What is on each node while places are found."""

    def __init__(self, nodes: Sequence[Node], demands: Sequence[Demand]) -> None:
        self._nodes = {node.id: node for node in sorted(nodes, key=lambda node: node.id) if not node.leaving}
        self._demands = {demand.name: demand for demand in sorted(demands, key=lambda demand: demand.name)}
        self._sizes = {name: demand.counted for name, demand in self._demands.items()}
        self._places: dict[str, set[str]] = {name: set() for name in self._demands}
        self._held: dict[str, set[str]] = {node_id: set() for node_id in self._nodes}
        self._room = {node_id: node.capacity_bytes for node_id, node in self._nodes.items()}
        self._evicted: set[tuple[str, str]] = set()
        self._left: set[str] = set()
        self._missing: dict[str, str] = {}

    def keep(self, before: Mapping[str, Collection[str]]) -> None:
        """What may stay where it is."""
        for name, demand in self._demands.items():
            there = {node_id for node_id in before.get(name, ()) if node_id in self._nodes}
            for node_id in there:
                if self._nodes[node_id].suits(demand.labels) and node_id not in demand.refused_by:
                    self._put(name, node_id)
        for node_id in self._nodes:
            self._relieve(node_id)
        for name, demand in self._demands.items():
            while len(self._places[name]) > demand.copies:
                self._take(name, min(self._places[name], key=lambda node_id: (self._room[node_id], node_id)))

    def add(self, demand: Demand, copy: int) -> None:
        """Finds a place for one copy, unless there are so many already or the model had to leave."""
        places = self._places[demand.name]
        if len(places) >= copy or demand.name in self._left:
            return
        suited = self._suited(demand)
        willing = [node_id for node_id in suited if node_id not in demand.refused_by]
        others = [node_id for node_id in suited if node_id in demand.refused_by]
        put = self._put_on_one(demand, copy, willing) or self._put_on_one(demand, copy, others)
        if not put and copy <= max(demand.least, 1):
            self._missing[demand.name] = self._why(demand, copy, suited)

    def grow(self, demand: Demand) -> None:
        """Has a model count for all its bytes, on its nodes or on others instead; copies beyond the least for which
        there is no room leave. Where there is none for the least, everything stays as it is."""
        name, counted = demand.name, self._sizes[demand.name]
        homes = sorted(self._places[name], key=lambda node_id: (-self._room[node_id], node_id))
        if not homes or counted >= demand.bytes:
            return
        evicted, left = set(self._evicted), set(self._left)
        for node_id in homes:
            self._take(name, node_id)
        self._sizes[name] = demand.bytes
        for copy, home in enumerate(homes, 1):
            others = [node_id for node_id in self._willing(demand) if node_id not in homes]
            near = [home] if self._room[home] >= demand.bytes else [home, *others]
            if not self._put_on_one(demand, copy, near) and copy <= max(demand.least, 1):
                break
        else:
            return
        for node_id in tuple(self._places[name]):
            self._take(name, node_id)
        self._sizes[name] = counted
        for node_id in homes:
            self._put(name, node_id)
        for other, node_id in self._evicted - evicted:
            self._put(other, node_id)
        self._evicted, self._left = evicted, left
        self._missing[name] = self._why_not_all(demand)

    def _relieve(self, node_id: str) -> None:
        """Has what is too much on a node leave: copies that nobody must have, the longest unused first, then such as
        have a place elsewhere. What has none stays."""

        def by_use(name: str) -> tuple[float, str]:
            return self._demands[name].used_at, name

        while self._room[node_id] < 0 and (spare := [name for name in self._held[node_id] if self._is_spare(name)]):
            self._take(min(spare, key=by_use), node_id)
        for name in sorted(self._held[node_id], key=by_use):
            if self._room[node_id] < 0 < self._sizes[name]:
                others = self._willing(self._demands[name])
                self._take(name, node_id)
                if not self._put_on_one(self._demands[name], 1, others):
                    self._put(name, node_id)

    def _suited(self, demand: Demand) -> list[str]:
        """The nodes without the model that have its labels."""
        places = self._places[demand.name]
        return [one for one, node in self._nodes.items() if node.suits(demand.labels) and one not in places]

    def _willing(self, demand: Demand) -> list[str]:
        """Those of them that have not refused it."""
        return [node_id for node_id in self._suited(demand) if node_id not in demand.refused_by]

    def _is_spare(self, name: str) -> bool:
        return len(self._places[name]) > self._demands[name].least

    def _put_on_one(self, demand: Demand, copy: int, node_ids: Sequence[str]) -> bool:
        """Whether one of them has room for the copy, or gets it by what may leave."""
        roomy = [node_id for node_id in node_ids if self._room[node_id] >= self._sizes[demand.name]]
        if roomy:
            self._put(demand.name, self._roomiest(roomy))
            return True
        if copy > max(demand.least, 1):
            return False
        found = [(victims, node_id) for node_id in node_ids if (victims := self._victims(node_id, demand)) is not None]
        if not found:
            return False
        victims, node_id = min(found, key=lambda one: (max(self._demands[name].used_at for name in one[0]), one[1]))
        for name in victims:
            self._take(name, node_id)
            self._evicted.add((name, node_id))
            self._left.add(name)
        self._put(demand.name, node_id)
        return True

    def placement(self) -> Placement:
        """What came of it."""
        places = {name: tuple(sorted(found)) for name, found in self._places.items()}
        return Placement(places, frozenset(self._evicted), self._missing, self._sizes)

    def _victims(self, node_id: str, demand: Demand) -> list[str] | None:
        """The copies on a node that have to leave for one of this model, as few as that takes; None where that cannot
        be: one that may leave itself takes the place of none that was used later."""
        lacking = self._sizes[demand.name] - self._room[node_id]
        leaving: list[str] = []
        for name in sorted(self._held[node_id], key=lambda name: (self._demands[name].used_at, name)):
            other = self._demands[name]
            if lacking > 0 and self._is_spare(name) and (demand.least or other.used_at < demand.used_at or other.least):
                leaving.append(name)
                lacking -= self._sizes[name]
        if lacking > 0:
            return None
        for name in reversed(leaving.copy()):
            if lacking + self._sizes[name] <= 0:
                leaving.remove(name)
                lacking += self._sizes[name]
        return leaving

    def _put(self, name: str, node_id: str) -> None:
        self._places[name].add(node_id)
        self._held[node_id].add(name)
        self._room[node_id] -= self._sizes[name]

    def _take(self, name: str, node_id: str) -> None:
        self._places[name].remove(node_id)
        self._held[node_id].remove(name)
        self._room[node_id] += self._sizes[name]

    def _roomiest(self, node_ids: Sequence[str]) -> str:
        """The one with the most room, of equals the first by id."""
        return min(node_ids, key=lambda node_id: (-self._room[node_id], node_id))

    def _why_not_all(self, demand: Demand) -> str:
        counted, places = self._sizes[demand.name], self._places[demand.name]
        free = {node_id: max(self._room[node_id], 0) for node_id in self._suited(demand)}
        free |= {node_id: max(self._room[node_id] + counted, 0) for node_id in places}
        node_id = min(free, key=lambda node_id: (-free[node_id], node_id))
        return (
            f"{demand.name} needs {demand.bytes:,} bytes on each of its nodes, of which it has {counted:,}, and node "
            f"{node_id}, which has the most room, has {free[node_id]:,} of {self._nodes[node_id].capacity_bytes:,} for "
            "it: start a node, lower what others must have, or retire a version first"
        )

    def _why(self, demand: Demand, copy: int, suited: Sequence[str]) -> str:
        wanted = f"copy {copy} of {demand.name} needs {self._sizes[demand.name]:,} bytes"
        if not suited:
            labels = ", ".join(f"{key}={value}" for key, value in sorted(demand.labels.items()))
            lacks, cure = (f" with {labels}", ", or change --require") if labels else ("", "")
            return f"{wanted} on a node{lacks} of its own, and there is none: start a node{cure}, or undo a drain"
        node_id = self._roomiest(suited)
        return (
            f"{wanted}, and node {node_id}, which has the most room, has {max(self._room[node_id], 0):,} of "
            f"{self._nodes[node_id].capacity_bytes:,} free: start a node, or lower what others must have"
        )
