"""Background work yields to everything else, and its caller notices nothing of that."""

from __future__ import annotations

import os
import threading

import pytest

from tidegate_serving.background import NICE, in_background
from tidegate_serving.contract.errors import Tampered


def priority() -> int:
    return os.getpriority(os.PRIO_PROCESS, threading.get_native_id())


def test_a_task_runs_at_a_lower_priority_and_the_caller_keeps_its_own() -> None:
    before = priority()
    assert in_background(priority) == max(NICE, before)
    assert priority() == before


def test_what_a_task_raises_is_raised() -> None:
    def fails() -> None:
        raise Tampered("a.txt differs")

    with pytest.raises(Tampered, match=r"a\.txt differs"):
        in_background(fails)


def test_no_thread_stays() -> None:
    before = threading.active_count()
    in_background(threading.get_ident)
    for thread in threading.enumerate():
        if thread.name == "tidegate-background":
            thread.join(10)
    assert threading.active_count() <= before
