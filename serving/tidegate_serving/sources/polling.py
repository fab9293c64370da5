"""Polls many keys on a few threads, each key at its own pace, so that one that stalls holds up no other."""

from __future__ import annotations

import heapq
import logging
import threading
import time
from collections.abc import Callable, Iterable

THREADS = 8
SHARE_OF_A_CORE = 0.2
_log = logging.getLogger(__name__)
_PAUSE_AFTER_A_FAULT = 1.0
_PATIENCE = 1.0


class Poller:
    """Calls `poll(key)` for every key, each on one thread at a time.

    `poll` returns the seconds until the key's next call, or None for no further one. As long as fewer calls stall than
    there are threads, the other keys are not held up. However many keys there are, repeated calls take a fifth of a
    core at most; beyond that they come later. `cost` gives the seconds of a core that a thread has used.
    """

    def __init__(
        self, poll: Callable[[str], float | None], threads: int = THREADS, cost: Callable[[], float] = time.thread_time
    ) -> None:
        self._poll = poll
        self._cost = cost
        self._changed = threading.Condition()
        self._due: dict[str, float] = {}
        self._order: list[tuple[float, str]] = []
        self._busy: set[str] = set()
        self._again: set[str] = set()
        self._owed: set[str] = set()
        self._free_at = 0.0
        self._stopping = False
        self._threads = [
            threading.Thread(target=self._run, name=f"tidegate-poll-{number}", daemon=True) for number in range(threads)
        ]

    def start(self) -> None:
        """Begins."""
        for thread in self._threads:
            thread.start()

    def stop(self) -> None:
        """Begins no further call; one that stalls is not waited for."""
        with self._changed:
            self._stopping = True
            self._changed.notify_all()
        deadline = time.monotonic() + _PATIENCE
        for thread in self._threads:
            if thread.is_alive():
                thread.join(max(0.0, deadline - time.monotonic()))

    def add(self, keys: Iterable[str]) -> None:
        """Polls these keys now; one that is being polled, once more afterwards."""
        with self._changed:
            for key in keys:
                self._owed.add(key)
                if key in self._busy:
                    self._again.add(key)
                else:
                    self._schedule_at(key, 0.0)
            self._changed.notify_all()

    def wait_idle(self, keys: Iterable[str], timeout: float) -> bool:
        """Waits until each of these keys was polled since it was added; False after `timeout` seconds."""
        wanted = set(keys)
        with self._changed:
            return self._changed.wait_for(lambda: self._stopping or not wanted & self._owed, timeout)

    def _schedule(self, key: str, seconds: float) -> None:
        self._schedule_at(key, time.monotonic() + seconds)

    def _schedule_at(self, key: str, due: float) -> None:
        self._due[key] = due
        heapq.heappush(self._order, (due, key))

    def _run(self) -> None:
        while (key := self._take()) is not None:
            began = self._cost()
            try:
                pause = self._poll(key)
            except Exception:
                _log.exception("a look at %r failed, the next one tries again", key)
                pause = _PAUSE_AFTER_A_FAULT
            self._done(key, pause, self._cost() - began)

    def _take(self) -> str | None:
        with self._changed:
            while not self._stopping:
                now = time.monotonic()
                while self._order and self._free_to_take(*self._order[0]) <= now:
                    due, key = heapq.heappop(self._order)
                    if self._due.get(key) == due:
                        del self._due[key]
                        self._busy.add(key)
                        return key
                self._changed.wait(self._free_to_take(*self._order[0]) - now if self._order else None)
            return None

    def _free_to_take(self, due: float, key: str) -> float:
        return due if key in self._owed else max(due, self._free_at)

    def _done(self, key: str, pause: float | None, cost: float) -> None:
        with self._changed:
            self._free_at = max(self._free_at, time.monotonic()) + cost / SHARE_OF_A_CORE - cost
            self._busy.discard(key)
            if key in self._again:
                self._again.discard(key)
                self._schedule_at(key, 0.0)
            else:
                self._owed.discard(key)
                if pause is not None and key not in self._due:
                    self._schedule(key, pause)
            self._changed.notify_all()
