"""Where requests go: what the leading controller writes at one revision, and routers read."""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping, Set
from dataclasses import dataclass, field
from typing import Any

from tidegate_serving.contract.errors import Tampered, TidegateError
from tidegate_serving.contract.formats import MALFORMED, check_format

VersionState = tuple[int, int, int, str]
"""Version, `ModelVersionStatus.State`, canonical gRPC code and text of what went wrong."""
_log = logging.getLogger(__name__)
_KIND, _VERSION = "fleet-routes", "1"


@dataclass(frozen=True, slots=True)
class Routes:
    """`nodes` are gRPC and REST address by node of the fleet, also of one without models. `models` are the nodes by
    model that have its ordinary version AVAILABLE; one without any is known to the fleet, and loaded nowhere. `states`
    are how its versions stand in the fleet; `refused` says why no request for a model is answered, where operators
    decided so.
    """

    nodes: Mapping[str, tuple[str, str]] = field(default_factory=dict)
    models: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    states: Mapping[str, tuple[VersionState, ...]] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    def keeping(self, names: Set[str], before: bytes) -> Routes:
        """With what earlier routes, as they were written, say of these models; nothing where they cannot be read."""
        try:
            old = Routes.from_bytes(before)
        except TidegateError as error:
            _log.error("models that cannot be read have no routes either: %s", error)
            return self
        kept = {
            name: tuple(node for node in old.models[name] if node in self.nodes) for name in names & old.models.keys()
        }
        states = {name: old.states[name] for name in kept}
        refused = {name: old.refused[name] for name in kept.keys() & old.refused.keys()}
        return Routes(self.nodes, {**self.models, **kept}, {**self.states, **states}, {**self.refused, **refused})

    def to_bytes(self) -> bytes:
        """As it is written."""
        document = {
            "format": f"tidegate.{_KIND}/{_VERSION}",
            "nodes": {one: {"grpc": grpc, "rest": rest} for one, (grpc, rest) in self.nodes.items()},
            "models": {
                name: {
                    "nodes": list(nodes),
                    "states": [list(one) for one in self.states.get(name, ())],
                    "refused": self.refused.get(name, ""),
                }
                for name, nodes in self.models.items()
            },
        }
        return json.dumps(document, sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, data: bytes) -> Routes:
        """Raises Tampered for what are no routes, Unsupported for those of another major version."""
        try:
            document: Any = json.loads(data)
            check_format(document, kind=_KIND, version=_VERSION, where="the fleet's routes")
            nodes = {str(key): (str(one["grpc"]), str(one["rest"])) for key, one in document["nodes"].items()}
            models = {str(name): tuple(map(str, one["nodes"])) for name, one in document["models"].items()}
            states = {str(name): tuple(map(_state, one["states"])) for name, one in document["models"].items()}
            refused = {str(name): str(why) for name, one in document["models"].items() if (why := one["refused"])}
            return cls(nodes, models, states, refused)
        except MALFORMED as error:
            raise Tampered(
                f"the fleet's routes cannot be read in etcd ({error}): the controller writes them anew"
            ) from error


def _state(row: Any) -> VersionState:
    version, state, code, text = row
    return int(version), int(state), int(code), str(text)
