"""Ends what was meant for a time where nobody did: shadows and splits of canaries whose process is gone.

Who turns one on says until when. An end that is refused, as while the model is frozen, is tried again.
"""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections.abc import Callable, Iterable

from tidegate_serving.contract.errors import TidegateError

REQUESTED_BY = "tidegate"
REASON = "its time was over and nobody had ended it"
AGAIN_SECONDS = 10.0
_log = logging.getLogger(__name__)
Until = tuple[str, int]
"""A servable, and Unix microseconds, 0 for never."""
Ends = Callable[[str, int], None]
"""Hears of a servable and when something of it is over, as in `Until`."""


def no_end(name: str, until_us: int) -> None:
    """Where nothing ends by itself."""


class Expiry:
    """Once started, calls `end` with the name of each servable of which something is over. `known` are those from
    before the start. Times are of this machine's clock, in Unix microseconds."""

    def __init__(self, end: Callable[[str], None], known: Callable[[], Iterable[Until]]) -> None:
        self._end = end
        self._known = known
        self._due: list[tuple[int, str]] = []
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="tidegate-expiry", daemon=True)

    def note(self, name: str, until_us: int) -> None:
        """Something of the servable is over then; 0 for never."""
        if until_us:
            with self._changed:
                heapq.heappush(self._due, (until_us, name))
                self._changed.notify()

    def start(self) -> None:
        """Begins, with what is known from before."""
        for name, until_us in self._known():
            self.note(name, until_us)
        self._thread.start()

    def stop(self) -> None:
        """Ends nothing any more."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        while (name := self._next()) is not None:
            try:
                self._end(name)
            except TidegateError as error:
                _log.warning("%s: what is over could not be ended, it is tried again: %s", name, error.message)
                self.note(name, now_us() + round(AGAIN_SECONDS * 1e6))
            except Exception:
                _log.exception("%s: what is over could not be ended", name)

    def _next(self) -> str | None:
        """Waits for the next; None when this is stopped."""
        with self._changed:
            while not self._stopping:
                wait = (self._due[0][0] - now_us()) / 1e6 if self._due else None
                if wait is not None and wait <= 0:
                    return heapq.heappop(self._due)[1]
                self._changed.wait(wait if wait is None else min(wait, threading.TIMEOUT_MAX))
        return None


def now_us() -> int:
    """Unix microseconds."""
    return time.time_ns() // 1000
