"""Switches threads in the middle of a model's own Python code, far more often than the interpreter would.

Every other round of the probe's concurrent calls runs under it, so that a race whose window is a microsecond shows in a
few calls, also on a busy machine. What the model computes is not changed, only when other threads get their turn.
"""

from __future__ import annotations

import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import CodeType, FrameType
from typing import Any

from tidegate_serving.probing.own_code import is_own

_INSTALLING = threading.Lock()
_EVENTS = 100_000
_ONE_IN = 12


@contextmanager
def interleaved(seed: int) -> Iterator[None]:
    """While it lasts, this thread gives way at one in 12 instructions of code that no library holds.

    It stops doing so after 100,000 instructions, so that a model of much Python code is slowed down for a moment only.
    """
    before = sys.gettrace()
    _install(_tracer(random.Random(seed)))
    try:
        yield
    finally:
        _install(before)


def _install(tracer: Any) -> None:
    """One thread at a time: Python refuses a second while one waits in the middle of it."""
    with _INSTALLING:
        sys.settrace(tracer)


def _tracer(chance: random.Random) -> Callable[[FrameType, str, Any], Any]:
    left = _EVENTS
    own: dict[CodeType, bool] = {}

    def at_instruction(frame: FrameType, event: str, argument: Any) -> Any:
        nonlocal left
        if event == "opcode":
            left -= 1
            if chance.randrange(_ONE_IN) == 0:
                time.sleep(0)
        return at_instruction if left > 0 else None

    def at_call(frame: FrameType, event: str, argument: Any) -> Any:
        code = frame.f_code
        if left <= 0 or not own.setdefault(code, is_own(code.co_filename)):
            return None
        frame.f_trace_opcodes = True
        frame.f_trace_lines = False
        return at_instruction

    return at_call
