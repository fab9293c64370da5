"""Waits in tests for what another process or thread does, with a deadline instead of a guess."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")
_SHORTEST, _LONGEST = 0.05, 0.25


def eventually(condition: Callable[[], T], seconds: float = 60.0) -> T:
    """What `condition` gives, once that is true; AssertionError when it is not within `seconds`.

    Pauses grow with what was waited: asking takes processor time from what is waited for.
    """
    began = time.monotonic()
    pause = threading.Event()
    while not (found := condition()):
        waited = time.monotonic() - began
        assert waited < seconds, f"nothing came of it within {seconds} s"
        pause.wait(min(max(_SHORTEST, waited / 20), _LONGEST))
    return found


def at_best(tries: int, shows: Callable[[], bool]) -> bool:
    """True once one of so many tries shows it, AssertionError when none does: of what is quick, not each is where the
    machine is busy with something else."""
    shown = any(shows() for _ in range(tries))
    assert shown, f"none of {tries} tries shows it"
    return shown
