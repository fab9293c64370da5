"""What a model changes in its process, and what held a call up, by the scheduler's counts of threads."""

from __future__ import annotations

import gc
import sys
import threading

import pytest

from tidegate_serving.probing.state import OwnState, seconds_held_up, seconds_ready


@pytest.mark.parametrize(
    ("after", "held_up"),
    [
        ({1: 3.0, 2: 5.0}, 0.0),
        ({1: 3.5, 2: 5.0}, 0.5),
        ({1: 3.0, 2: 5.25}, 0.25),
        ({1: 3.5, 2: 5.25, 3: 1.0}, 1.5),
        ({2: 5.25}, 0.25),
    ],
    ids=["nothing", "itself", "one that works for it", "the longest, a new one", "no count of its own"],
)
def test_a_call_is_held_up_itself_and_by_the_thread_that_waited_longest(
    after: dict[int, float], held_up: float
) -> None:
    assert seconds_held_up({1: 3.0, 2: 5.0}, after, thread=1) == pytest.approx(held_up)


def test_every_thread_of_the_process_is_counted() -> None:
    stop = threading.Event()
    other = threading.Thread(target=stop.wait)
    other.start()
    try:
        found = seconds_ready()
    finally:
        stop.set()
        other.join()
    assert {threading.get_native_id(), other.native_id} <= found.keys()
    assert all(seconds >= 0 for seconds in found.values())


def test_what_a_model_changes_of_the_interpreter_is_told() -> None:
    own, before = OwnState(), sys.getrecursionlimit()
    assert own.look()["changed"] == []
    sys.setrecursionlimit(before - 100)
    gc.disable()
    try:
        changed = own.look()["changed"]
    finally:
        gc.enable()
        sys.setrecursionlimit(before)
    assert changed == [f"lowered how deep Python may call to {before - 100}", "stopped Python's collection of garbage"]
