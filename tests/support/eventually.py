"""Waits in tests for what another process or thread does, with a deadline instead of a guess."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")


def eventually(condition: Callable[[], T], seconds: float = 60.0) -> T:
    """What `condition` gives, once that is true; AssertionError when it is not within `seconds`."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not (found := condition()):
        assert time.monotonic() < deadline, f"nothing came of it within {seconds} s"
        pause.wait(0.05)
    return found


def at_best(tries: int, shows: Callable[[], bool]) -> None:
    """One of so many tries shows it: of what is quick, not each is where the machine is busy with something else."""
    assert any(shows() for _ in range(tries)), f"none of {tries} tries shows it"
