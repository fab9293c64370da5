"""An engine as a node of a fleet: it is there from the start of its service until it is told to stop, and leaves first.

The server enters this while the engine serves. Whether etcd answers changes nothing of what the engine serves: that is
told as a problem in status, journal and log, and by the gauge `tidegate_fleet_connected`.
"""

from __future__ import annotations

import contextlib
import json
import logging
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tidegate_serving.config import EngineConfig, FleetConfig
from tidegate_serving.config.fleet import PROBLEM
from tidegate_serving.config.machine_memory import usable_memory
from tidegate_serving.contract.errors import FailedPrecondition, TidegateError, Unavailable
from tidegate_serving.contract.gauges import Gauges
from tidegate_serving.engine import Engine
from tidegate_serving.fleet.etcd.client import Etcd
from tidegate_serving.fleet.etcd.presence import Presence
from tidegate_serving.fleet.state.keys import LEADER, MODELS, NODES, ROUTES, FleetKeys
from tidegate_serving.fleet.state.node import Node
from tidegate_serving.runtime.running_engine import EngineAddresses
from tidegate_serving.sources.problems import Reports

GAUGE = "tidegate_fleet_connected"
_GAUGE_HELP = "Whether etcd knows this node of the fleet, 1 or 0."
_LOOK_SECONDS = 0.1
_log = logging.getLogger(__name__)


def node_of(config: EngineConfig, addresses: EngineAddresses) -> Node:
    """What an engine that listens there says of itself."""
    fleet = config.fleet
    capacity = fleet.capacity_bytes or config.memory_limit_bytes or usable_memory()
    grpc, rest, control = (_reached_at(one, fleet.host) for one in (addresses.grpc, addresses.rest, addresses.control))
    name = fleet.node or control.replace(":", "-").replace("[", "").replace("]", "")
    return Node(name, grpc, rest, control, capacity, fleet.labels)


@contextmanager
def member(config: FleetConfig, node: Node, engine: Engine) -> Iterator[None]:
    """The engine is a node of its fleet meanwhile; at the end it waits, for `leave_seconds` at most, until its models
    are available elsewhere, and is none any more."""
    membership = Membership(config, node, engine.problems, engine.gauges)
    engine.check_decisions(membership.check_decision)
    membership.start()
    try:
        yield
    finally:
        membership.leave()
        engine.check_decisions(None)


class Membership:
    """One node's key in etcd; see `member`."""

    def __init__(self, config: FleetConfig, node: Node, problems: Reports, gauges: Gauges) -> None:
        self._config = config
        self._node = node
        self._problems = problems
        self._gauges = gauges
        self._keys = FleetKeys(config.name)
        self._etcd = Etcd(config.etcd)
        key = self._keys.key(NODES, node.id)
        self._presence = Presence(self._etcd, key, self._document, config.lease_seconds, self._told)
        self._pause = threading.Event()

    def start(self) -> None:
        """The node is there as soon as etcd answers."""
        _log.info("node %s of fleet %s, in etcd at %s", self._node.id, self._config.name, self._config.etcd)
        self._presence.start()

    def check_decision(self, servable: str, lead: int | None) -> None:
        """FailedPrecondition for a model of the fleet, which is decided about for all of its nodes, and for a `lead`
        that is over. Where etcd does not answer the fleet decides nothing, and each node does."""
        if not self._presence.revision:
            return
        key = self._keys.key(MODELS, servable) if lead is None else self._keys.key(LEADER)
        try:
            found = self._etcd.read(key).entries.get("")
        except Unavailable as error:
            _log.warning("what is said of %s counts here, until the fleet decides again: %s", servable, error.message)
            return
        if lead is None and found is not None:
            raise FailedPrecondition(
                f"{servable} is a model of fleet {self._config.name}, of which this engine is node {self._node.id}: "
                f"say it to a controller of the fleet, or take the node out by `tidegate fleet drain {self._node.id}`"
            )
        if lead is not None and (found is None or found.revision != lead):
            raise FailedPrecondition(
                f"the controller that says this of {servable} does not lead fleet {self._config.name} any more: the "
                "one that does says what counts, see `tidegate fleet status`"
            )

    def leave(self) -> None:
        """The node is to be emptied; once it is, or after `leave_seconds`, it is gone."""
        if self._presence.revision:
            self._node = replace(self._node, leaving=True)
            self._presence.beat()
            deadline = time.monotonic() + self._config.leave_seconds
            with contextlib.suppress(TidegateError):  # where etcd goes away now, nobody can place anything elsewhere
                while time.monotonic() < deadline and self._needed():
                    self._pause.wait(_LOOK_SECONDS)
        self._presence.stop()
        self._etcd.close()

    def _needed(self) -> bool:
        """Whether requests still come here by the fleet's routes, and somebody leads who can change that."""
        found = self._etcd.read(self._keys.prefix).entries
        if LEADER not in found or ROUTES not in found:
            return False
        models = json.loads(found[ROUTES].value)["models"].values()
        return any(self._node.id in model["nodes"] for model in models)

    def _document(self) -> bytes:
        return self._node.to_bytes()

    def _told(self, error: TidegateError | None) -> None:
        self._gauges.set_gauges(GAUGE, _GAUGE_HELP, [([], 0.0 if error else 1.0)])
        if error is None:
            self._problems.settle("", PROBLEM)
        else:
            self._problems.report("", PROBLEM, error)


def _reached_at(address: str, host: str) -> str:
    return f"{host}:{address.rpartition(':')[2]}" if host and address else address
