"""A fleet as etcd has it at one revision: nodes, models, what was placed, and what routers want and use."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, TypeVar

from tidegate_serving.contract.errors import TidegateError
from tidegate_serving.contract.formats import MALFORMED, finite
from tidegate_serving.fleet.etcd.client import Entry, Snapshot
from tidegate_serving.fleet.state.keys import DRAINS, LEADER, MODELS, NODES, PLACEMENT, ROUTES, USAGE, WANTED
from tidegate_serving.fleet.state.model import FleetModel
from tidegate_serving.fleet.state.node import Node
from tidegate_serving.fleet.state.placement import Placement

_T = TypeVar("_T")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True)
class Usage:
    """What one router forwards of a model: requests per second, and Unix seconds of the last one."""

    rate: float
    used_at: float


@dataclass(frozen=True, slots=True)
class FleetView:
    """`revisions` are those of all keys, by what follows the fleet's prefix. A document that cannot be read is left
    out, and the log says so; `unread` are the models of which that is so. `wanted` is the Unix second at which a model
    that is loaded nowhere was asked for."""

    revision: int = 0
    revisions: Mapping[str, int] = field(default_factory=dict)
    nodes: Mapping[str, Node] = field(default_factory=dict)
    drains: frozenset[str] = frozenset()
    models: Mapping[str, FleetModel] = field(default_factory=dict)
    placement: Placement = field(default_factory=Placement)
    routes: bytes = b""
    wanted: Mapping[str, float] = field(default_factory=dict)
    usage: tuple[Mapping[str, Usage], ...] = ()
    leader: str = ""
    unread: frozenset[str] = frozenset()

    def revision_of(self, name: str) -> int:
        """The revision of a model's desired state, 0 for none."""
        return self.models[name].desired.revision if name in self.models else 0

    @classmethod
    def of(cls, snapshot: Snapshot) -> FleetView:
        """The fleet in a snapshot of its prefix."""
        entries = snapshot.entries
        models = _read_all(snapshot.below(MODELS), FleetModel.from_bytes)
        placement, routes, leader = (entries.get(key, Entry(b"", 0)).value for key in (PLACEMENT, ROUTES, LEADER))
        return cls(
            snapshot.revision,
            {key: one.revision for key, one in entries.items()},
            _read_all(snapshot.below(NODES), Node.from_bytes),
            frozenset(snapshot.below(DRAINS)),
            models,
            placement_from(placement),
            routes,
            _read_all(snapshot.below(WANTED), lambda _, data: finite(json.loads(data)["at"])),
            tuple(_read_all(snapshot.below(USAGE), _usage).values()),
            leader.decode(errors="replace"),
            frozenset(snapshot.below(MODELS).keys() - models.keys()),
        )


def placement_bytes(placement: Placement) -> bytes:
    """A placement as it is written; who left for others is not remembered."""
    document = {
        "format": "tidegate.fleet-placement/1",
        "nodes": {name: list(nodes) for name, nodes in placement.nodes.items()},
        "missing": dict(placement.missing),
        "sizes": dict(placement.sizes),
    }
    return json.dumps(document, sort_keys=True).encode()


def placement_from(data: bytes) -> Placement:
    """What `placement_bytes` wrote; none for what cannot be read, and everything is placed anew."""
    try:
        document: Any = json.loads(data) if data else {"nodes": {}, "missing": {}}
        nodes = {str(name): tuple(map(str, nodes)) for name, nodes in document["nodes"].items()}
        missing = {str(name): str(why) for name, why in document["missing"].items()}
        sizes = {str(name): int(finite(size)) for name, size in document.get("sizes", {}).items()}
        return Placement(nodes, missing=missing, sizes=sizes)
    except MALFORMED as error:
        _log.error("the fleet's placement cannot be read in etcd (%s): everything is placed anew", error)
        return Placement()


def usage_bytes(usage: Mapping[str, Usage]) -> bytes:
    """A router's usage as it is written."""
    models = {name: {"rate": one.rate, "used_at": one.used_at} for name, one in usage.items()}
    return json.dumps({"format": "tidegate.fleet-usage/1", "models": models}, sort_keys=True).encode()


def wanted_bytes(at: float) -> bytes:
    """A wish for a model as it is written; `at` in Unix seconds."""
    return json.dumps({"format": "tidegate.fleet-wanted/1", "at": at}).encode()


def _usage(_router: str, data: bytes) -> Mapping[str, Usage]:
    models = json.loads(data)["models"]
    return {str(name): Usage(finite(one["rate"]), finite(one["used_at"])) for name, one in models.items()}


def _read_all(entries: Mapping[str, Entry], read: Callable[[str, bytes], _T]) -> dict[str, _T]:
    found = {}
    for key, entry in entries.items():
        try:
            found[key] = read(key, entry.value)
        except (TidegateError, *MALFORMED) as error:
            _log.error("%s is left out of the fleet: %s", key, error)
    return found
