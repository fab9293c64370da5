"""A fleet on this machine: a real etcd, engines as nodes and controllers, each a process of its own."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.support.engine.process import ANY, EngineProcess, to_toml
from tests.support.neighbours.etcd import EtcdProcess, etcd_process
from tests.support.server_process import ServerProcess

from tidegate_serving.client import Client
from tidegate_serving.control_client import ControlClient
from tidegate_serving.fleet.controller.operations import FleetOperations
from tidegate_serving.fleet.state.keys import FleetKeys
from tidegate_serving.fleet.state.routes import Routes
from tidegate_serving.fleet.state.view import FleetView
from tidegate_serving.journal.journal import Journal

NAME = "tests"
LEASE_SECONDS = 2


class ControllerProcess(ServerProcess):
    """`tidegate fleet controller`."""

    def __init__(self, folder: Path, etcd: str) -> None:
        super().__init__(folder)
        config = folder / "controller.toml"
        config.write_text(f'control_address = "{ANY}"\n[fleet]\nname = "{NAME}"\nlease_seconds = {LEASE_SECONDS}\n')
        self.arguments = ["--config", str(config), "--etcd", etcd, "--ready-file", str(self.ready_file)]
        self.address = ""

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tidegate_pipelines.cli", "fleet", "controller", *self.arguments]

    def ready(self, told: Any) -> None:
        self.address = told["control"]

    def control(self) -> ControlClient:
        return ControlClient(self.address)


class RouterProcess(ServerProcess):
    """`tidegate fleet router`."""

    def __init__(self, folder: Path, etcd: str, fleet: Mapping[str, str], values: Mapping[str, str]) -> None:
        super().__init__(folder)
        config = folder / "router.toml"
        table = {"name": NAME, "lease_seconds": LEASE_SECONDS, **fleet}
        config.write_text(to_toml({"grpc_address": ANY, "rest_address": ANY, **values, "fleet": table}))
        self.arguments = ["--config", str(config), "--etcd", etcd, "--ready-file", str(self.ready_file)]
        self.addresses: dict[str, str] = {}

    def command(self) -> list[str]:
        return [sys.executable, "-m", "tidegate_pipelines.cli", "fleet", "router", *self.arguments]

    def ready(self, told: Any) -> None:
        self.addresses = told

    def client(self) -> Client:
        return Client(self.addresses["grpc"])


@dataclass
class Fleet:
    """Nodes by name. Models are published under `root`."""

    root: Path
    etcd: EtcdProcess
    nodes: dict[str, EngineProcess] = field(default_factory=dict)
    stack: ExitStack = field(default_factory=ExitStack)

    def node(self, name: str, capacity_bytes: int = 10**9, **values: Any) -> EngineProcess:
        """Launches a node, with further keys of its config; `await_ready` waits for it."""
        fleet: Mapping[str, object] = {
            "etcd": self.etcd.address,
            "name": NAME,
            "node": name,
            "lease_seconds": LEASE_SECONDS,
            "capacity_bytes": capacity_bytes,
        }
        given = {"allow_unverified": True, "roots": [self.root], "isolation": "engine", **values}
        engine = EngineProcess(self.root / "nodes" / name, **given, fleet=fleet)
        self.nodes[name] = engine
        self.stack.push(engine.launch())
        return engine

    def controller(self, name: str = "controller") -> ControllerProcess:
        """Launches a controller."""
        process = ControllerProcess(self.root / "controllers" / name, self.etcd.address)
        self.stack.push(process.launch())
        return process

    def router(self, fleet: Mapping[str, str] | None = None, **values: str) -> RouterProcess:
        """Launches a router; `fleet` are further keys of that table, `values` those of the data ports."""
        process = RouterProcess(self.root / "router", self.etcd.address, fleet or {}, values)
        self.stack.push(process.launch())
        return process

    def view(self) -> FleetView:
        """The fleet as etcd has it now."""
        with self.operations() as operations:
            return FleetView.of(operations.etcd.read(operations.keys.prefix))

    def routes(self, model: str) -> tuple[str, ...]:
        """The nodes that requests for a model go to."""
        return self.routed().get(model, ())

    def routed(self) -> Mapping[str, tuple[str, ...]]:
        """The nodes that requests go to, by model; without models that are loaded nowhere."""
        routes = self.view().routes
        models = Routes.from_bytes(routes).models if routes else {}
        return {model: nodes for model, nodes in models.items() if nodes}

    @contextmanager
    def operations(self) -> Iterator[FleetOperations]:
        etcd = self.etcd.client()
        try:
            yield FleetOperations(etcd, FleetKeys(NAME), Journal(None))
        finally:
            etcd.close()


@contextmanager
def fleet_over(root: Path) -> Iterator[Fleet]:
    """A fleet without nodes and controllers yet; all that is added ends with it."""
    with etcd_process() as etcd, ExitStack() as stack:
        yield Fleet(root, etcd, stack=stack)
