"""Waits in tests for what another process or thread does, with a deadline instead of a guess."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


def eventually(condition: Callable[[], bool], seconds: float = 30.0) -> None:
    """Returns once `condition` holds; AssertionError when it does not within `seconds`."""
    deadline = time.monotonic() + seconds
    pause = threading.Event()
    while not condition():
        assert time.monotonic() < deadline, f"nothing came of it within {seconds} s"
        pause.wait(0.05)
