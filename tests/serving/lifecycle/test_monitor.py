"""The monitor: the latest state of what is there, and a bounded memory of what is gone."""

from __future__ import annotations

import threading

import pytest

from tidegate_serving.contract.errors import DeadlinePassed, ResourceExhausted
from tidegate_serving.contract.servable import ServableId, State, StateChange
from tidegate_serving.lifecycle.events import EventBus
from tidegate_serving.lifecycle.monitor import ENDED_KEPT, GONE_KEPT, WATCH_CAPACITY, StateMonitor


class Bench:
    def __init__(self) -> None:
        self.events = EventBus()
        self.monitor = StateMonitor(self.events)
        self.clock = 0

    def enter(self, name: str, version: int, state: State) -> None:
        self.clock += 1
        self.events.publish(StateChange(ServableId(name, version), state, at_us=self.clock))


def test_of_ended_versions_the_newest_are_kept_and_those_that_live_always() -> None:
    bench = Bench()
    bench.enter("m", 1, State.AVAILABLE)
    for version in range(2, 60):
        bench.enter("m", version, State.END)
    found = [change.id.version for change in bench.monitor.states("m")]
    assert found == [*range(59, 59 - ENDED_KEPT, -1), 1]


def test_of_servables_that_are_gone_the_newest_are_kept_and_those_that_live_always() -> None:
    bench = Bench()
    bench.enter("lives", 1, State.AVAILABLE)
    bench.enter("back", 1, State.END)
    for number in range(GONE_KEPT - 1):
        bench.enter(f"m{number}", 1, State.END)
    bench.enter("back", 2, State.START)
    for number in range(GONE_KEPT, GONE_KEPT + 50):
        bench.enter(f"m{number}", 1, State.END)
    names = bench.monitor.names()
    assert len(names) == GONE_KEPT + 2
    assert {"lives", "back", f"m{GONE_KEPT + 49}"} <= names
    assert "m0" not in names


def test_a_wait_ends_with_the_state_or_with_the_time() -> None:
    bench = Bench()
    waiting = threading.Timer(0.05, lambda: bench.enter("m", 1, State.AVAILABLE))
    waiting.start()
    assert bench.monitor.wait_until(ServableId("m", 1), State.AVAILABLE, 30).state is State.AVAILABLE
    with pytest.raises(DeadlinePassed, match=r"m:1 is not END after 0.01 s: wait longer, or look at its status"):
        bench.monitor.wait_until(ServableId("m", 1), State.END, 0.01)
    waiting.join()


def test_a_watcher_gets_what_is_there_then_each_change_and_nothing_of_others() -> None:
    bench = Bench()
    bench.enter("m", 1, State.AVAILABLE)
    with bench.monitor.watch("m") as watch:
        bench.enter("other", 1, State.START)
        bench.enter("m", 2, State.START)
        assert [change.id.version for change in watch.present] == [1]
        change = watch.next(5)
        assert change is not None
        assert change.id == ServableId("m", 2)
        watch.wake()
        assert watch.next(60) is None, "a wake ends the wait"


def test_a_watcher_that_does_not_keep_up_is_cut_off_and_holds_up_nobody() -> None:
    bench = Bench()
    with bench.monitor.watch() as watch:
        for version in range(WATCH_CAPACITY + 1):
            bench.enter("m", version, State.START)
        with pytest.raises(ResourceExhausted, match="changes behind: watch again"):
            watch.next(0)


def test_nothing_is_heard_after_the_end() -> None:
    bench = Bench()
    bench.monitor.close()
    bench.enter("m", 1, State.START)
    assert bench.monitor.states() == []
