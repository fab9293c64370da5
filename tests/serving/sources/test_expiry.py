"""What was meant for a time is ended when that is over, once, and tried again where the end is refused."""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from itertools import pairwise

import pytest
from tests.support.eventually import eventually

from tidegate_serving.contract.errors import FailedPrecondition
from tidegate_serving.sources import expiry as module
from tidegate_serving.sources.expiry import Expiry, Until, now_us

HOUR = 3600 * 10**6


@contextmanager
def started(end: Callable[[str], None], *known: Until) -> Iterator[Expiry]:
    found = Expiry(end, lambda: known)
    found.start()
    try:
        yield found
    finally:
        found.stop()


def test_each_is_ended_when_its_time_is_over_and_not_before() -> None:
    ended = queue.Queue[str]()
    with started(ended.put, ("known", now_us() - 1), ("later", now_us() + HOUR), ("never", 0)) as found:
        assert ended.get(timeout=10) == "known"
        found.note("never", 0)
        begin = now_us()
        found.note("third", begin + 300_000)
        found.note("second", begin + 100_000)
        assert [ended.get(timeout=10), ended.get(timeout=10)] == ["second", "third"]
        assert now_us() >= begin + 300_000
    assert ended.empty()


def test_an_end_that_is_refused_is_tried_again_and_one_that_fails_ends_no_other(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.05)
    tried: list[str] = []

    def end(name: str) -> None:
        tried.append(name)
        if name == "broken":
            raise ZeroDivisionError
        if tried.count(name) < 3:
            raise FailedPrecondition("it is frozen")

    with started(end, ("broken", 1), ("frozen", 2)):
        eventually(lambda: tried.count("frozen") == 3)
    assert tried == ["broken", "frozen", "frozen", "frozen"]


def test_one_that_is_told_of_many_times_is_tried_once_at_a_time(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(module, "AGAIN_SECONDS", 0.05)
    tried: list[int] = []

    def end(name: str) -> None:
        tried.append(now_us())
        if len(tried) < 4:
            raise FailedPrecondition("it is frozen")

    with started(end, *((("m", 1),) * 3), ("m", 2), ("m", 3)):
        eventually(lambda: len(tried) == 4)
    assert all(after - before >= 50_000 for before, after in pairwise(tried))
    assert [one.levelname for one in caplog.records if "it is frozen" in one.message] == ["WARNING"]


def test_an_end_that_hangs_keeps_nobody_from_stopping() -> None:
    begun, go_on = threading.Event(), threading.Event()

    def end(name: str) -> None:
        begun.set()
        go_on.wait()

    found = Expiry(end, lambda: (("m", 1),))
    found.start()
    assert begun.wait(10)
    asked_us = now_us()
    found.stop()
    assert now_us() < asked_us + 10_000_000
    assert found._thread.is_alive()
    go_on.set()
    found._thread.join(10)
    assert not found._thread.is_alive()


def test_one_that_waits_for_a_far_end_stops_at_once() -> None:
    with started(lambda name: None, ("far", 2**62)) as found:
        assert found._thread.is_alive()
    assert not found._thread.is_alive()
