"""The part of a router that is not per request, over a real etcd and a forwarder that is played."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

import pytest
from tests.support.eventually import eventually
from tests.support.neighbours.etcd import EtcdProcess, etcd_process

from tidegate_serving.fleet.router.router import FleetRouter
from tidegate_serving.fleet.state.keys import ROUTES, FleetKeys
from tidegate_serving.fleet.state.routes import Routes
from tidegate_serving.fleet.state.view import FleetView
from tidegate_serving.requests.forwarder import Numbers
from tidegate_serving.requests.running_plane import State
from tidegate_serving.sources.problems import SourceProblems

KEYS = FleetKeys("routed")


@dataclass
class PlayedForwarder:
    """Remembers what it is told; an address without a port is none that it can use."""

    applied: list[Routes] = field(default_factory=list)
    numbers: dict[str, Numbers] = field(default_factory=dict)
    states: Mapping[str, Sequence[State]] = field(default_factory=dict)
    refused: Mapping[str, str] = field(default_factory=dict)

    def apply(self, nodes: Mapping[str, tuple[str, str]], models: Mapping[str, Sequence[str]]) -> None:
        if any(":" not in address for addresses in nodes.values() for address in addresses):
            raise ValueError("no address")
        listed = {name: tuple(found) for name, found in self.states.items()}
        on = {name: tuple(found) for name, found in models.items()}
        self.applied.append(Routes(dict(nodes), on, listed, dict(self.refused)))

    def set_states(self, states: Mapping[str, Sequence[State]]) -> None:
        self.states = states

    def set_refused(self, refused: Mapping[str, str]) -> None:
        self.refused = refused

    def stats(self) -> dict[str, Numbers]:
        return self.numbers

    def stop(self, drain_seconds: float) -> bool:
        return True


@dataclass
class Running:
    server: EtcdProcess
    forwarder: PlayedForwarder
    router: FleetRouter
    problems: SourceProblems

    def write(self, routes: Routes) -> None:
        etcd = self.server.client()
        etcd.commit({}, {KEYS.key(ROUTES): routes.to_bytes()})
        etcd.close()

    def view(self) -> FleetView:
        etcd = self.server.client()
        try:
            return FleetView.of(etcd.read(KEYS.prefix))
        finally:
            etcd.close()


@pytest.fixture
def running() -> Iterator[Running]:
    with etcd_process() as server:
        problems, forwarder = SourceProblems(), PlayedForwarder()
        router = FleetRouter(server.client(), KEYS, "r", 2, problems)
        router.start(forwarder)
        yield Running(server, forwarder, router, problems)
        router.stop()


def routes(node: str, address: str = "h:1") -> Routes:
    return Routes(
        {node: (address, "h:2")}, {"m": (node,), "cold": ()}, {"m": ((1, 30, 0, ""),), "cold": ((2, 50, 14, "cold"),)}
    )


def test_routes_are_followed_also_after_etcd_was_away(running: Running) -> None:
    applied = running.forwarder.applied
    running.write(routes("a"))
    eventually(lambda: applied == [routes("a")])
    running.server.kill()
    eventually(running.problems.of_sources)
    assert applied == [routes("a")]
    running.server.start()
    running.write(routes("b"))
    eventually(lambda: applied == [routes("a"), routes("b")])
    eventually(lambda: not running.problems.of_sources())


def test_routes_that_cannot_be_used_leave_the_old_ones(running: Running) -> None:
    running.write(routes("a"))
    eventually(lambda: running.forwarder.applied)
    running.write(routes("b", "nowhere"))
    (problem,) = eventually(running.problems.of_sources)
    assert problem.error.message == "the fleet's new routes cannot be used, the old ones stay: no address"
    running.write(routes("c"))
    eventually(lambda: running.forwarder.applied == [routes("a"), routes("c")])
    eventually(lambda: not running.problems.of_sources())


def test_a_wish_is_written_and_what_is_forwarded_is_told(running: Running) -> None:
    running.router.want("cold")
    assert "cold" in running.view().wanted
    running.forwarder.numbers = {"m": (100, 0, 0, 0, 1234.5), "never": (0, 0, 0, 0, 0.0)}
    (usage,) = eventually(lambda: [one for one in running.view().usage if one.keys() == {"m"} and one["m"].rate > 0])
    assert usage["m"].used_at == 1234.5
    eventually(lambda: running.view().usage[0]["m"].rate == 0)
    running.router.stop()
    assert not running.view().usage
