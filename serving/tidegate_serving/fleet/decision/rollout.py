"""What each node is told, where requests go and how each version stands: pure functions of models, places and nodes.

A new version takes over the labels once every node of its model has it AVAILABLE; until then the nodes hold it beside
what serves. A model leaves a node once it is available elsewhere and no route leads to it any more.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from tidegate_serving.contract.desired_state import DesiredState
from tidegate_serving.contract.errors import (
    NotFound,
    PermissionRefused,
    ResourceExhausted,
    TidegateError,
    Unavailable,
    error_of,
)
from tidegate_serving.contract.servable import ServableId, State, StateChange
from tidegate_serving.fleet.state.model import FleetModel
from tidegate_serving.fleet.state.placement import Placement
from tidegate_serving.fleet.state.routes import VersionState

_COLD = "it is on no node: the first request for it has it loaded"
_MOST_TEXT = 300  # of an error in the routes of a fleet, which all are one key
_OF_THE_NODE = (NotFound, PermissionRefused, ResourceExhausted)
_MOST_TRIED = 3
_GONE = StateChange(ServableId("none", 0), State.END, at_us=0)


@dataclass(frozen=True, slots=True)
class Seen:
    """What one node says of itself: its desired states, the states of its versions, and what it refused of a model.
    `heard` is the revision of each desired state that it was told last, as far as that is known; `overridden` are
    models with overrides there."""

    desired: Mapping[str, DesiredState] = field(default_factory=dict)
    states: Mapping[ServableId, StateChange] = field(default_factory=dict)
    refused: Mapping[str, TidegateError] = field(default_factory=dict)
    heard: Mapping[str, int] = field(default_factory=dict)
    overridden: frozenset[str] = frozenset()
    versions: Mapping[str, Sequence[ServableId]] = field(init=False, compare=False, repr=False)
    """Those that it has or had, by model."""

    def __post_init__(self) -> None:
        versions: dict[str, list[ServableId]] = {}
        for one in self.states:
            versions.setdefault(one.name, []).append(one)
        object.__setattr__(self, "versions", versions)

    @property
    def held(self) -> set[str]:
        """Models of which anything takes memory there, or is about to."""
        return {name for name in {*self.desired, *self.versions} if self.holds(name)}

    def wants(self, name: str) -> bool:
        """Whether it was told to have versions of a model."""
        desired = self.desired.get(name)
        return desired is not None and bool(desired.versions)

    def has(self, name: str, number: int | None) -> bool:
        """Whether a version is AVAILABLE."""
        return number is not None and self._state(name, number).state is State.AVAILABLE

    def holds(self, name: str) -> bool:
        """Whether anything of a model takes memory there, or is about to."""
        return self.wants(name) or any(self.states[one].state is not State.END for one in self.versions.get(name, ()))

    def state(self, name: str, number: int) -> StateChange:
        """How a version stands; END with the error where the node refused it."""
        error = self.refused.get(name)
        found = self._state(name, number)
        if error is not None and found.state is State.END and not found.error_code:
            return replace(found, error_code=error.code, error_message=error.message)
        return found

    def _state(self, name: str, number: int) -> StateChange:
        return self.states.get(ServableId(name, number), _GONE)


def fresh(model: FleetModel) -> frozenset[int]:
    """Versions of a model that serves which come beside what serves; none that served before, or that comes in the
    place of a blocked one."""
    serving = model.serving
    if serving is None or not serving.versions or any(map(model.is_blocked, serving.versions)):
        return frozenset()
    return model.wanted.numbers - serving.numbers - {one.version for one in model.served}


def held_back(model: FleetModel, placed: Placement) -> frozenset[int]:
    """The versions that wait because the model's nodes have no room for them beside what serves."""
    return fresh(model) if placed.sizes.get(model.name, model.size) < model.size else frozenset()


def is_ready(
    model: FleetModel, places: Iterable[str], seen: Mapping[str, Seen], back: frozenset[int] = frozenset()
) -> bool:
    """Whether every version that the desired state's labels name, and the one for ordinary requests, is AVAILABLE on
    all nodes of the model. Those that are held `back` count as not desired, and with one for ordinary requests nothing
    is ready."""
    wanted = model.wanted
    needed = {*wanted.leaving_out(back).labels.values(), wanted.stable}
    there = [seen.get(node, Seen()) for node in places]
    return bool(there) and not back & needed and all(node.has(model.name, one) for node in there for one in needed)


def refused_by(model: FleetModel, seen: Mapping[str, Seen]) -> frozenset[str]:
    """The nodes that refused a model since it was pushed last, and that need not mean others do: a disk that is full,
    a folder that is not mounted; anything at all of a model that serves. Where several refused a version that was
    pushed just now it is not tried on all nodes of a fleet."""
    kinds = (TidegateError,) if model.settled else _OF_THE_NODE
    name, revision = model.name, model.desired.revision
    found = frozenset(
        node
        for node, one in seen.items()
        if isinstance(one.refused.get(name), kinds) and one.heard.get(name) == revision
    )
    return found if model.settled or len(found) <= _MOST_TRIED else frozenset()


def told(model: FleetModel, back: frozenset[int] = frozenset()) -> DesiredState:
    """What the model's nodes are told now: what was pushed last, or, while that does not serve yet, its versions beside
    those that serve, with the labels as they were, unless one of them is blocked; without those held `back`."""
    desired, serving = model.wanted, model.serving
    if serving is None or not serving.versions or not desired.versions or model.settled:
        return desired
    if any(map(model.is_blocked, serving.versions)):
        return desired
    state = replace(serving, keep_previous=desired.keep_previous)
    for version in desired.leaving_out(back).versions:
        state = state.adding(version)
    return replace(state, requested_by=desired.requested_by, reason=desired.reason, revision=desired.revision)


def ordinary(model: FleetModel) -> int | None:
    """The version that ordinary requests get, or are to get where none serves yet."""
    serving = model.serving
    if serving is None or not serving.versions or model.is_blocked(serving.version(serving.stable)):
        return model.wanted.stable
    return serving.stable


def routed(model: FleetModel, places: Collection[str], seen: Mapping[str, Seen], evicted: bool) -> tuple[str, ...]:
    """The nodes that requests for the model go to: its own that have it AVAILABLE; without any those that it is to
    leave and still has, unless it had to leave for others."""
    if not model.is_known:
        return ()
    there = [node for node, one in sorted(seen.items()) if one.has(model.name, ordinary(model))]
    own = tuple(node for node in there if node in places)
    return own or (() if evicted else tuple(there))


def may_load(name: str, capacity: int, sizes: Mapping[str, int], seen: Seen) -> bool:
    """Whether a node has room for a model by what it holds, which may be what is still on its way out; `sizes` are
    what models count for."""
    return seen.wants(name) or sum(sizes.get(one, 0) for one in {*seen.held, name}) <= capacity


def version_states(model: FleetModel, placed: Placement, seen: Mapping[str, Seen]) -> Iterator[StateChange]:
    """How each version of a model stands in the whole fleet."""
    places, missing = placed.nodes.get(model.name, ()), placed.missing.get(model.name, "")
    back = held_back(model, placed) if missing else frozenset()
    known = {one.version for node in seen.values() for one in node.versions.get(model.name, ())}
    wanted = model.wanted.numbers
    for number in sorted(known | wanted, reverse=True):
        everywhere = {node: one.state(model.name, number) for node, one in sorted(seen.items())}
        own = {} if number in back else {node: _answer(model, seen.get(node, Seen()), number) for node in places}
        yield replace(
            _wanted(own, missing) if number in wanted else _unwanted(everywhere.values()),
            id=ServableId(model.name, number),
        )


def listed(model: FleetModel, placed: Placement, seen: Mapping[str, Seen], routed: bool) -> Iterator[VersionState]:
    """How a model's versions stand, as routers list them: those that are desired, and those that are on their way out.
    One that is on no node without an error is cold."""
    places, numbers = placed.nodes[model.name], model.wanted.numbers
    for one in version_states(model, placed, seen):
        wanted = one.id.version in numbers
        if one.state is State.END and not wanted:
            continue
        code, text = error_of(one.error_code, "").grpc_code if one.error_code else 0, one.error_message
        if wanted and not places and not routed and not code:
            code, text = Unavailable.grpc_code, _COLD
        yield one.id.version, one.state.value, code, text[:_MOST_TEXT]


def _answer(model: FleetModel, node: Seen, number: int) -> StateChange:
    """How a version stands on a node; an error from before the node was told does not count."""
    found = node.state(model.name, number)
    late = node.heard.get(model.name, model.desired.revision) != model.desired.revision
    return _GONE if late and found.error_code else found


def _wanted(own: Mapping[str, StateChange], missing: str) -> StateChange:
    """Of a version that is desired: as far as the last of the model's nodes is."""
    for node, one in own.items():
        if one.state is State.END and one.error_code:
            return replace(one, error_message=f"node {node}: {one.error_message}")
    if not own:
        error = ResourceExhausted(missing) if missing else None
        return replace(_GONE, error_code=error.code if error else "", error_message=missing)
    if all(one.state is State.AVAILABLE for one in own.values()):
        return max(own.values(), key=lambda one: one.at_us)
    return replace(_GONE, state=State.LOADING)


def _unwanted(everywhere: Iterable[StateChange]) -> StateChange:
    """Of a version that is to go: as far as the last of all nodes is."""
    for state in (State.AVAILABLE, State.LOADING, State.START, State.UNLOADING):
        for one in everywhere:
            if one.state is state:
                return one
    return _GONE
