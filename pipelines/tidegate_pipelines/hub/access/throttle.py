"""Makes whoever guesses tokens wait: after some failed sign-ins from one address, all from there are refused."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from tidegate_serving.contract.errors import ResourceExhausted

WINDOW_SECONDS = 900.0
_MOST_ADDRESSES = 10_000


class TooManyAttempts(ResourceExhausted):
    """Too many failed sign-ins; `retry_after` is in seconds."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Throttle:
    """Counts failures by address, in memory, the newest 10,000 addresses. Safe from any thread."""

    def __init__(self, attempts: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._attempts = attempts
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, address: str) -> None:
        """TooManyAttempts where too many failed from there within the last 15 minutes."""
        with self._lock:
            failures = self._recent(address)
            if len(failures) < self._attempts:
                return
            wait = int(failures[0] + WINDOW_SECONDS - self._clock()) + 1
        raise TooManyAttempts(
            f"{self._attempts} sign-ins from {address} failed within {WINDOW_SECONDS / 60:.0f} minutes: try again in "
            f"{wait} s, with the right token",
            wait,
        )

    def failed(self, address: str) -> None:
        """A sign-in from there failed."""
        with self._lock:
            failures = self._recent(address)
            failures.append(self._clock())
            self._failures[address] = failures
            self._failures.move_to_end(address)
            while len(self._failures) > _MOST_ADDRESSES:
                self._failures.popitem(last=False)

    def _recent(self, address: str) -> deque[float]:
        failures = self._failures.get(address) or deque(maxlen=self._attempts)
        while failures and failures[0] <= self._clock() - WINDOW_SECONDS:
            failures.popleft()
        return failures
