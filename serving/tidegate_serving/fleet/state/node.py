"""A node: what one engine of a fleet says of itself, as written under its lease."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate_serving.config.addresses import check_address
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.errors import InvalidInput, Tampered
from tidegate_serving.contract.formats import MALFORMED, check_format, finite

_KIND, _VERSION = "fleet-node", "1"


@dataclass(frozen=True, slots=True)
class Node:
    """An engine that models may be placed on. Addresses are `host:port` as others reach them, empty for an endpoint
    that is closed; `capacity_bytes` is what all its models may take together. A `leaving` node is to be emptied."""

    id: str
    grpc: str
    rest: str
    control: str
    capacity_bytes: int
    labels: Mapping[str, str] = field(default_factory=dict)
    leaving: bool = False

    def suits(self, required: Mapping[str, str]) -> bool:
        """Whether it has all of these labels."""
        return all(self.labels.get(key) == value for key, value in required.items())

    def to_bytes(self) -> bytes:
        """As it is written; the key has the id."""
        document = {
            "format": f"tidegate.{_KIND}/{_VERSION}",
            "grpc": self.grpc,
            "rest": self.rest,
            "control": self.control,
            "capacity_bytes": self.capacity_bytes,
            "labels": dict(self.labels),
            "leaving": self.leaving,
        }
        return json.dumps(document, sort_keys=True).encode()

    @classmethod
    def from_bytes(cls, id: str, data: bytes) -> Node:
        """Raises Tampered for what is no node, Unsupported for one of another major version."""
        try:
            document = json.loads(data)
            check_format(document, kind=_KIND, version=_VERSION, where=f"node {id}")
            for endpoint in ("grpc", "rest", "control"):
                check_address(endpoint, str(document[endpoint]))
            EngineConnection.from_environment({"TIDEGATE_CONTROL": str(document["control"])})
            return cls(
                id,
                str(document["grpc"]),
                str(document["rest"]),
                str(document["control"]),
                int(finite(document["capacity_bytes"])),
                {str(key): str(value) for key, value in document["labels"].items()},
                bool(document["leaving"]),
            )
        except (InvalidInput, *MALFORMED) as error:
            raise Tampered(f"node {id} cannot be read in etcd ({error}): start its engine again") from error
