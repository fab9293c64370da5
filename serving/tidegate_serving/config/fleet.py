"""How an engine takes part in a fleet: where etcd is, and what the node says of itself."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.servable import is_name, name_fault
from tidegate_serving.typed_config import check_bounds, within

PROBLEM = "fleet"
"""Under this name an engine says what stands between it and its fleet; what it serves does not hang on it."""
IN_VARIABLES = ("etcd", "name", "node", "host")
"""Keys that a variable may give, such as TIDEGATE_FLEET_NODE, where processes share a config."""
LEASE_SECONDS = (2, 600)
LEAVE_SECONDS = (0, 10**9)
ROUTER_SECONDS = (0, 86400)
_BYTES = (0, 2**63 - 1)
_HOST = re.compile(r"[A-Za-z0-9._-]+|\[[0-9A-Fa-f:.]+\]")


@dataclass(frozen=True, slots=True)
class FleetConfig:
    """The table `[fleet]`. Without `etcd` the engine is in no fleet.

    etcd: etcd's endpoints, `host:port` with commas between, or `tidegates://host:port?ca=FILE` with TLS.
    name: the fleet's name.
    node: this engine's name in it; empty for host and port of its control address.
    host: the host at which others reach this engine's ports; empty for that of each address.
    capacity_bytes: what all models of this node may take; 0 for memory_limit_bytes, and where that is 0 too, for the
        memory that this process may use.
    labels: what models can ask of a node, such as `gpu = "yes"`.
    lease_seconds: so long after its process died does a node count as gone.
    leave_seconds: how long a stopping engine waits, before it drains, for its models to be available elsewhere.
    cold_seconds: how long a router has a request wait for a model that is loaded nowhere.
    node_ca: certificates (PEM) of who signs those of the nodes' data ports; a router then speaks TLS to all nodes.
    node_certificate, node_key: what a router shows to nodes whose config has data_client_ca (PEM).
    node_server_name: the name in the nodes' certificates, where it is not the host of each one's address.
    hedge_seconds: without an answer for so long a router asks a second node too; 0 for never.
    """

    etcd: str = ""
    name: str = "default"
    node: str = ""
    host: str = ""
    capacity_bytes: int = within(_BYTES, 0)
    labels: Mapping[str, str] = field(default_factory=dict)
    lease_seconds: int = within(LEASE_SECONDS, 10)
    leave_seconds: float = within(LEAVE_SECONDS, 10.0)
    cold_seconds: float = within(ROUTER_SECONDS, 30.0)
    node_ca: Path | None = None
    node_certificate: Path | None = None
    node_key: Path | None = None
    node_server_name: str = ""
    hedge_seconds: float = within(ROUTER_SECONDS, 0.0)

    def __post_init__(self) -> None:
        check_bounds(self)
        if self.etcd:
            EngineConnection.of(self.etcd)
        for key in ("name", "node"):
            value = getattr(self, key)
            if value and not is_name(value):
                raise InvalidInput(f"{key} is {value!r}, {name_fault(value)}")
        if self.host and not _HOST.fullmatch(self.host):
            raise InvalidInput(
                f"host is {self.host!r}: write a name in letters of ASCII (`xn--...` for others), an IPv4 address, or "
                "an IPv6 address in brackets"
            )
        self._check_tls()
        if not self.name:
            raise InvalidInput("name is empty: name the fleet, or leave it out for `default`")

    def _check_tls(self) -> None:
        if (self.node_certificate is None) != (self.node_key is None):
            given, lacks = (
                ("node_certificate", "node_key") if self.node_key is None else ("node_key", "node_certificate")
            )
            raise InvalidInput(f"{given} is given without {lacks}: give the files of both, or neither")
        if self.node_ca is None and (self.node_certificate or self.node_server_name):
            given = "node_certificate" if self.node_certificate else "node_server_name"
            raise InvalidInput(f"{given} is given without node_ca: name who signs the nodes' certificates, too")
