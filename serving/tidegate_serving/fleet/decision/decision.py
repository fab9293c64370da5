"""What the leading controller does next, as one pure function of what etcd has and what the nodes say.

    decide(view, seen, lost, memory, now) -> Decision

What is decided is written first, then nodes are told. A model leaves a node only a while after the routes that lead
there were withdrawn, so that routers know of it.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

from tidegate_serving.contract.desired_state import DesiredState
from tidegate_serving.control.overrides import NO_OVERRIDES, Overrides
from tidegate_serving.fleet.decision.placing import Demand, place
from tidegate_serving.fleet.decision.rollout import (
    Seen,
    fresh,
    held_back,
    is_ready,
    listed,
    may_load,
    refused_by,
    routed,
    told,
)
from tidegate_serving.fleet.decision.scaling import scaled
from tidegate_serving.fleet.state.model import FleetModel
from tidegate_serving.fleet.state.node import Node
from tidegate_serving.fleet.state.placement import Placement
from tidegate_serving.fleet.state.routes import Routes
from tidegate_serving.fleet.state.view import FleetView

UNROUTED_SECONDS = 1.0
WANTED_SECONDS = 60.0


@dataclass(frozen=True, slots=True)
class Memory:
    """What the leader knows of its last decision, in Unix seconds by its own clock: since when no route leads to a
    model on a node that still has it, since when a model has more copies than its load takes, and since when a wish for
    a model is there, by the time that its router wrote into it."""

    unrouted: Mapping[tuple[str, str], float] = field(default_factory=dict)
    calm: Mapping[str, float] = field(default_factory=dict)
    wished: Mapping[tuple[str, float], float] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Decision:
    """`models` are those that change, `gone` those that are forgotten, `served` wishes that are fulfilled or too old.
    `told` is what each node is to have, by servable, `admitted` the digests of manifests that nodes have
    admitted, `overrides` those that it is to obey, `memory` what the next decision has to know."""

    placement: Placement
    routes: Routes
    told: Mapping[str, Mapping[str, DesiredState]]
    overrides: Mapping[str, Mapping[str, Overrides]]
    models: Mapping[str, FleetModel] = field(default_factory=dict)
    gone: frozenset[str] = frozenset()
    served: frozenset[str] = frozenset()
    admitted: frozenset[str] = frozenset()
    memory: Memory = field(default_factory=Memory)


def decide(
    view: FleetView,
    seen: Mapping[str, Seen],
    lost: Collection[str],
    memory: Memory,
    now: float,
) -> Decision:
    """`seen` is what each node says, without those that have said nothing yet. `lost` are nodes of which nothing is
    heard for so long that they count as gone. `now` is in Unix seconds."""
    nodes = [
        replace(node, leaving=node.leaving or node.id in lost or node.id in view.drains) for node in view.nodes.values()
    ]
    seen = {node: one for node, one in seen.items() if node in view.nodes}
    calm: dict[str, float] = {}
    demands = [
        replace(_demand(view, model, memory, calm, now), refused_by=refused_by(model, seen))
        for model in view.models.values()
    ]
    demands += [_demand_unread(view.placement, name) for name in view.unread & view.placement.nodes.keys()]
    placed = place(nodes, demands, view.placement.nodes)
    changed = dict(_advanced(view.models, placed, seen))
    models = {**view.models, **changed}
    routes = _routes(view, models, placed, seen, {one.id for one in nodes if one.leaving})
    leaving = {
        (name, node): memory.unrouted.get((name, node), now)
        for node, one in seen.items()
        for name in models
        if one.wants(name) and node not in placed.nodes[name] and node not in routes.models.get(name, ())
    }
    ready = {pair for pair, since in leaving.items() if now - since >= UNROUTED_SECONDS}
    gone = frozenset(
        name
        for name, model in models.items()
        if not model.desired.versions and model.settled and model.overrides == NO_OVERRIDES and not _held(name, seen)
    )
    wished = {wish: memory.wished.get(wish, now) for wish in view.wanted.items()}
    told = {node: _told(view.nodes[node], one, models, placed, ready) for node, one in seen.items()}
    return Decision(
        placed,
        routes,
        told,
        {node: _overrides(told[node], one, models) for node, one in seen.items()},
        changed,
        gone,
        frozenset(name for (name, _), at in wished.items() if routes.models.get(name) or now - at > WANTED_SECONDS),
        frozenset().union(*(model.admitted for model in models.values())),
        Memory(leaving, calm, wished),
    )


def _advanced(
    models: Mapping[str, FleetModel], placed: Placement, seen: Mapping[str, Seen]
) -> Iterator[tuple[str, FleetModel]]:
    """The models of which more serves than did."""
    for name, model in models.items():
        back = held_back(model, placed)
        if not model.settled and (not model.wanted.versions or is_ready(model, placed.nodes[name], seen, back)):
            after = model.advanced(back)
            if after != model:
                yield name, after


def _demand(view: FleetView, model: FleetModel, memory: Memory, calm: dict[str, float], now: float) -> Demand:
    """`calm` gets since when the model has more copies than its load takes."""
    name, copies = model.name, model.copies
    wanted, usage = view.wanted.get(name, 0.0), [one[name] for one in view.usage if name in one]
    present = len(view.placement.nodes.get(name, ()))
    rate, used_at = sum(one.rate for one in usage), max([model.used_at, wanted, *(one.used_at for one in usage)])
    count, since = scaled(copies, model.rate_per_copy, present, rate, memory.calm.get(name), now)
    if since is not None:
        calm[name] = since
    count = max(count, int(bool(wanted))) if model.wanted.versions else 0
    serves = model.serving is not None and bool(model.serving.versions)
    anew = not serves or (model.settled and not present)
    held = None if anew else view.placement.sizes.get(name)
    return Demand(name, model.size, count, copies.least, model.labels, used_at, held=held)


def _demand_unread(before: Placement, name: str) -> Demand:
    """Of a model that cannot be read: it stays where it is."""
    copies = len(before.nodes[name])
    return Demand(name, before.sizes.get(name, 0), copies, copies)


def _routes(
    view: FleetView,
    models: Mapping[str, FleetModel],
    placed: Placement,
    seen: Mapping[str, Seen],
    leaving: set[str],
) -> Routes:
    """A model without a place stays routed where it is only on a node that is to be emptied."""
    found, evicted = {}, {name for name, _ in placed.evicted}
    for name, model in models.items():
        if model.is_known:
            places = placed.nodes[name]
            among = seen if places else {node: one for node, one in seen.items() if node in leaving}
            found[name] = routed(model, places, among, name in evicted)
    addresses = {key: (one.grpc, one.rest) for key, one in view.nodes.items()}
    states = {name: tuple(listed(models[name], placed, seen, bool(found[name]))) for name in found}
    refused = {name: why for name in found if (why := models[name].refusal)}
    routes = Routes(addresses, found, states, refused)
    return routes.keeping(view.unread, view.routes) if view.unread else routes


def _held(name: str, seen: Mapping[str, Seen]) -> bool:
    return any(one.holds(name) or name in one.overridden for one in seen.values())


def _overrides(told: Mapping[str, DesiredState], seen: Seen, models: Mapping[str, FleetModel]) -> dict[str, Overrides]:
    """What a node is to obey of the models that it has or gets; nothing any more of those that left it. A pin and a
    freeze are in what it is told already."""
    found = {name: replace(models[name].overrides, pin=None, freeze=None) for name in told}
    left = {name: NO_OVERRIDES for name in seen.overridden & models.keys() if not seen.holds(name)}
    return {**left, **found}


def _told(
    node: Node,
    seen: Seen,
    models: Mapping[str, FleetModel],
    placed: Placement,
    leaving: set[tuple[str, str]],
) -> dict[str, DesiredState]:
    """What a node is to have: its models as far as there is room by now, and nothing of those that may leave."""
    states: dict[str, DesiredState] = {}
    coming: set[str] = set()
    for name, model in models.items():
        if node.id in placed.nodes[name]:
            room = node.capacity_bytes - sum(placed.sizes[one] for one in coming)
            if may_load(name, room, placed.sizes, seen):
                states[name] = told(model, held_back(model, placed))
                if not seen.holds(name):
                    coming.add(name)
        elif (name, node.id) in leaving or (seen.wants(name) and not model.wanted.versions):
            states[name] = DesiredState(name, requested_by="fleet", reason=f"{name} is on other nodes now, or on none")
        elif seen.wants(name):
            states[name] = told(model, fresh(model))
    return states
