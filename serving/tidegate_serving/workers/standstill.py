"""Processes that were stopped by a signal, such as SIGSTOP, and do not go on."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from tidegate_serving.workers.process_files import state

STANDSTILL_SECONDS = 1.0


class Standstill:
    """Of a few processes that are looked at again and again. `clock` gives seconds."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._since: float | None = None

    def lasts(self, pids: Sequence[int]) -> bool:
        """Whether one of them or the other has stood still at each look for a second. OSError where one has gone."""
        if not any(map(stands_still, pids)):
            self._since = None
            return False
        now = self._clock()
        self._since = now if self._since is None else self._since
        return now - self._since >= STANDSTILL_SECONDS


def stands_still(pid: int) -> bool:
    """Whether a process is stopped now. OSError where it has gone."""
    return state(pid) in ("T", "t")
