"""Ready means: started, not draining, and everything that was there at the start can answer."""

from __future__ import annotations

import threading
from collections.abc import Iterator

import pytest
from tests.support.eventually import eventually

from tidegate_serving.contract.servable import ServableId, State, StateChange
from tidegate_serving.lifecycle.events import EventBus
from tidegate_serving.lifecycle.monitor import StateMonitor
from tidegate_serving.runtime.readiness import Readiness


class Bench:
    def __init__(self) -> None:
        self.events = EventBus()
        self.monitor = StateMonitor(self.events)
        self.wanted = frozenset({"a", "b"})
        self.asked = 0
        self.told: list[tuple[bool, str]] = []
        self.blind = ""
        self.readiness = Readiness(self.monitor, self, lambda *answer: self.told.append(answer), lambda: self.blind)
        self.events.subscribe(self.readiness.heard)
        self.readiness.start()

    def names(self) -> frozenset[str]:
        return self.wanted

    def why(self, name: str) -> str:
        return f"{name} has no base path"

    def is_served(self, name: str) -> bool:
        self.asked += 1
        return name in self.wanted

    def enter(self, name: str, state: State, error: str = "") -> None:
        self.events.publish(StateChange(ServableId(name, 1), state, "internal" if error else "", error))

    def becomes(self, ready: bool, reason: str) -> bool:
        return eventually(lambda: bool(self.told) and self.told[-1] == (ready, reason))


@pytest.fixture
def bench() -> Iterator[Bench]:
    bench = Bench()
    yield bench
    bench.readiness.drain()


def test_starting_is_not_ready(bench: Bench) -> None:
    assert bench.becomes(False, "the engine is starting")
    bench.enter("a", State.AVAILABLE)
    assert bench.becomes(False, "the engine is starting")


def test_a_change_while_the_start_ends_holds_up_nobody() -> None:
    class Publishing(Bench):
        """Whose owner, asked what is wanted, is just publishing a change under the lock that the answer needs."""

        def names(self) -> frozenset[str]:
            publisher = threading.Thread(target=self.enter, args=("b", State.AVAILABLE), daemon=True)
            publisher.start()
            publisher.join(10)
            assert not publisher.is_alive(), "the change waits for the start, which waits for the change"
            return super().names()

    bench = Publishing()
    bench.enter("a", State.AVAILABLE)
    bench.readiness.begin()
    assert bench.becomes(True, "")
    bench.readiness.drain()


def test_every_servable_of_the_start_needs_a_live_version(bench: Bench) -> None:
    bench.enter("a", State.AVAILABLE)
    bench.enter("b", State.LOADING)
    assert not bench.readiness.settled()
    bench.enter("b", State.END, "no memory")
    assert bench.readiness.settled()
    bench.readiness.begin()
    assert bench.becomes(False, "b:1 is END: no memory")
    bench.enter("b", State.AVAILABLE)
    assert bench.becomes(True, "")


def test_what_is_wanted_no_more_and_what_came_later_does_not_count(bench: Bench) -> None:
    bench.enter("a", State.AVAILABLE)
    bench.enter("b", State.END, "no memory")
    bench.readiness.begin()
    bench.wanted = frozenset({"a", "later"})
    bench.enter("later", State.LOADING)
    bench.readiness.wake()
    assert bench.becomes(True, "")


def test_draining_is_told_before_the_drain_begins(bench: Bench) -> None:
    bench.enter("a", State.AVAILABLE)
    bench.enter("b", State.AVAILABLE)
    bench.readiness.begin()
    assert bench.becomes(True, "")
    bench.readiness.drain()
    assert bench.told[-1] == (False, "the engine is draining")
    bench.enter("a", State.AVAILABLE)
    assert bench.told[-1] == (False, "the engine is draining")


def test_a_change_costs_what_changed_and_not_what_there_is(bench: Bench) -> None:
    bench.wanted = frozenset(f"m{number}" for number in range(500))
    for name in sorted(bench.wanted):
        bench.enter(name, State.AVAILABLE)
    bench.readiness.begin()
    assert bench.becomes(True, "")
    bench.asked = 0
    bench.enter("m7", State.END, "broken")
    assert bench.becomes(False, "m7:1 is END: broken")
    bench.enter("m8", State.AVAILABLE)
    bench.enter("m7", State.AVAILABLE)
    assert bench.becomes(True, "")
    assert bench.asked <= 6


def test_what_still_loads_is_named(bench: Bench) -> None:
    bench.enter("a", State.AVAILABLE)
    bench.enter("b", State.LOADING)
    assert bench.readiness.unsettled() == ["b:1 is LOADING"]


def test_no_thread_stays() -> None:
    before = set(threading.enumerate())
    bench = Bench()
    bench.readiness.drain()
    assert set(threading.enumerate()) <= before


def test_the_start_goes_on_as_soon_as_the_last_version_is_settled(bench: Bench) -> None:
    bench.enter("a", State.LOADING)
    idle = [False]
    done: list[bool] = []

    def wait() -> None:
        done.append(bench.readiness.wait_settled(lambda: idle[0], 3600))

    waiting = threading.Thread(target=wait, daemon=True)
    waiting.start()
    idle[0] = True
    assert not bench.readiness.wait_settled(lambda: True, 0.0)
    bench.enter("a", State.AVAILABLE)
    waiting.join(60)
    assert done == [True]
    assert not bench.readiness.wait_settled(lambda: False, 0.01)


def test_while_nobody_knows_what_is_wanted_it_is_not_ready_and_then_that_has_to_come(bench: Bench) -> None:
    bench.wanted, bench.blind = frozenset(), "the store cannot be listed"
    bench.readiness.begin()
    assert bench.becomes(False, "the store cannot be listed")
    bench.wanted, bench.blind = frozenset({"a"}), ""
    bench.enter("a", State.LOADING)
    bench.readiness.wake()
    assert bench.becomes(False, "a:1 is LOADING")
    bench.enter("a", State.AVAILABLE)
    assert bench.becomes(True, "")
