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
_STOP_SECONDS = 1.0


def no_end(name: str, until_us: int) -> None:
    """Where nothing ends by itself."""


def is_over(until_us: int) -> bool:
    """Whether a time has passed; never for 0."""
    return 0 < until_us <= now_us()


def why_over(reason: str) -> str:
    """Why something ended that was begun for a reason."""
    return f"{reason}: {REASON}" if reason else REASON


def now_us() -> int:
    """Unix microseconds."""
    return time.time_ns() // 1000


class Expiry:
    """Once started, calls `end` with the name of each servable of which something is over. `known` are those from
    before the start. Times are of this machine's clock, in Unix microseconds."""

    def __init__(self, end: Callable[[str], None], known: Callable[[], Iterable[Until]] = tuple) -> None:
        self._end = end
        self._known = known
        self._due: list[tuple[int, str]] = []
        self._noted: dict[str, set[int]] = {}
        self._said: dict[str, str] = {}
        self._changed = threading.Condition()
        self._stopping = False
        self._thread = threading.Thread(target=self._run, name="tidegate-expiry", daemon=True)

    def note(self, name: str, until_us: int) -> None:
        """Something of the servable is over then; 0 for never. Saying so again changes nothing."""
        if not until_us:
            return
        with self._changed:
            noted = self._noted.setdefault(name, set())
            if until_us not in noted:
                noted.add(until_us)
                heapq.heappush(self._due, (until_us, name))
                self._changed.notify()

    def start(self) -> None:
        """Begins, with what is known from before."""
        for name, until_us in self._known():
            self.note(name, until_us)
        self._thread.start()

    def stop(self) -> None:
        """Begins no end any more; one that takes long is not waited for."""
        with self._changed:
            self._stopping = True
            self._changed.notify()
        if self._thread.ident is not None:
            self._thread.join(_STOP_SECONDS)

    def _run(self) -> None:
        while (name := self._next()) is not None:
            try:
                self._end(name)
                self._said.pop(name, None)
            except TidegateError as error:
                level = logging.DEBUG if self._said.get(name) == error.message else logging.WARNING
                self._said[name] = error.message
                _log.log(level, "%s: what is over cannot be ended yet, it is tried again: %s", name, error.message)
                self.note(name, now_us() + round(AGAIN_SECONDS * 1e6))
            except Exception:
                _log.exception("%s: what is over could not be ended", name)

    def _next(self) -> str | None:
        """Waits for the next, of which all that is due counts as one; None when this is stopped."""
        with self._changed:
            while not self._stopping:
                wait = (self._due[0][0] - now_us()) / 1e6 if self._due else None
                if wait is None or wait > 0:
                    self._changed.wait(wait if wait is None else min(wait, threading.TIMEOUT_MAX))
                    continue
                until_us, name = heapq.heappop(self._due)
                noted = self._noted.get(name, set())
                if until_us not in noted:
                    continue
                left = {one for one in noted if one > now_us()}
                if left:
                    self._noted[name] = left
                else:
                    self._noted.pop(name, None)
                return name
        return None
