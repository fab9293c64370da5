"""Looks on threads: each at its own pace, one that stalls harms no other."""

from __future__ import annotations

import itertools
import threading
from collections import Counter
from collections.abc import Iterator

import pytest
from tests.support.eventually import eventually

from tidegate_serving.sources.polling import Poller


class Bench:
    def __init__(self) -> None:
        self.counts: Counter[str] = Counter()
        self.pauses: dict[str, float | None] = {}
        self.gate = threading.Event()
        self.stalled = threading.Event()
        self.poller = Poller(self.poll, threads=2)

    def poll(self, key: str) -> float | None:
        self.counts[key] += 1
        if key == "stalls":
            self.stalled.set()
            assert self.gate.wait(30)
        if key == "fails":
            raise RuntimeError("the disk is away")
        return self.pauses.get(key)


@pytest.fixture
def bench() -> Iterator[Bench]:
    made = Bench()
    made.poller.start()
    yield made
    made.gate.set()
    made.poller.stop()


def test_a_look_without_a_next_is_the_only_one(bench: Bench) -> None:
    bench.poller.add(["a", "b"])
    assert bench.poller.wait_idle(["a", "b"], 10)
    assert bench.counts == {"a": 1, "b": 1}


def test_each_comes_again_after_its_own_pause(bench: Bench) -> None:
    bench.pauses = {"quick": 0.01, "slow": 1000.0}
    bench.poller.add(["quick", "slow"])
    eventually(lambda: bench.counts["quick"] >= 5)
    assert bench.counts["slow"] == 1


def test_one_that_stalls_holds_up_no_other(bench: Bench) -> None:
    bench.poller.add(["stalls"])
    assert bench.stalled.wait(10)
    bench.pauses["quick"] = 0.01
    bench.poller.add(["quick"])
    eventually(lambda: bench.counts["quick"] >= 3)
    assert not bench.poller.wait_idle(["stalls", "quick"], 0.05)
    bench.gate.set()
    assert bench.poller.wait_idle(["stalls"], 10)


def test_one_that_is_asked_for_while_it_is_looked_at_is_looked_at_again(bench: Bench) -> None:
    bench.poller.add(["stalls"])
    assert bench.stalled.wait(10)
    bench.poller.add(["stalls"])
    bench.gate.set()
    eventually(lambda: bench.counts["stalls"] == 2)


def test_one_that_fails_is_tried_again(bench: Bench) -> None:
    bench.poller.add(["fails"])
    assert eventually(lambda: bench.counts["fails"] >= 2)


def test_one_without_a_pause_is_looked_at_no_more(bench: Bench) -> None:
    bench.pauses = {"quick": 0.01, "other": 0.01}
    bench.poller.add(["quick"])
    eventually(lambda: bench.counts["quick"] >= 2)
    bench.pauses["quick"] = None
    bench.poller.add(["quick"])
    assert bench.poller.wait_idle(["quick"], 10)
    seen = bench.counts["quick"]
    bench.poller.add(["other"])
    eventually(lambda: bench.counts["other"] >= 3)
    assert bench.counts["quick"] == seen


def test_looks_that_come_again_take_a_fifth_of_a_core_and_new_ones_do_not_wait(bench: Bench) -> None:
    """Each look costs an hour of a core, so nothing comes again for hours."""
    hours = itertools.count(0, 3600)
    poller = Poller(bench.poll, threads=2, cost=lambda: float(next(hours)))
    bench.pauses = {"again": 0.0}
    poller.start()
    poller.add(["again"])
    assert poller.wait_idle(["again"], 10)
    for number in range(20):
        poller.add([f"new {number}"])
        assert poller.wait_idle([f"new {number}"], 10)
    poller.stop()
    assert bench.counts["again"] == 1
    assert bench.counts.total() == 21
