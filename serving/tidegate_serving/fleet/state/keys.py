"""The keys of one fleet in etcd: where nodes, models, routes and the leader are written.

/tidegate/FLEET/nodes/ID        a node, under its lease
/tidegate/FLEET/drains/ID       an operator empties this node
/tidegate/FLEET/models/NAME     what should be served of a model, and in how many copies
/tidegate/FLEET/wanted/NAME     a router has a request for a model that is loaded nowhere
/tidegate/FLEET/usage/ROUTER    what a router forwards, under its lease
/tidegate/FLEET/placement       which node is to hold which model
/tidegate/FLEET/routes          which node has which model AVAILABLE; what routers read
/tidegate/FLEET/leader          the controller that decides, under its lease
"""

from __future__ import annotations

from dataclasses import dataclass

ALL_FLEETS = "/tidegate/"
NODES = "nodes/"
DRAINS = "drains/"
MODELS = "models/"
WANTED = "wanted/"
USAGE = "usage/"
PLACEMENT = "placement"
ROUTES = "routes"
LEADER = "leader"


@dataclass(frozen=True, slots=True)
class FleetKeys:
    """The keys of the fleet of that name."""

    fleet: str

    @property
    def prefix(self) -> str:
        """What all of them begin with."""
        return f"{ALL_FLEETS}{self.fleet}/"

    def key(self, *parts: str) -> str:
        """One of them, such as `key(NODES, "a")`."""
        return self.prefix + "".join(parts)
