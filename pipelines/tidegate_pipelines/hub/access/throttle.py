"""Makes whoever guesses tokens wait: after some failed sign-ins from one address, all from there are refused."""

from __future__ import annotations

import ipaddress
import threading
import time
from collections import OrderedDict, deque
from collections.abc import Callable

from tidegate_serving.contract.errors import ResourceExhausted

WINDOW_SECONDS = 900.0
_MOST_ADDRESSES = 10_000
_NETWORK_BITS = 64


class TooManyAttempts(ResourceExhausted):
    """Too many failed sign-ins; `retry_after` is in seconds."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Throttle:
    """Counts failures by sender, in memory, the newest 10,000 of them. Safe from any thread.

    All addresses of an IPv6 network of 64 bits are one sender: whoever has one of them has all."""

    def __init__(self, attempts: int, clock: Callable[[], float] = time.monotonic) -> None:
        self._attempts = attempts
        self._clock = clock
        self._lock = threading.Lock()
        self._failures: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, address: str) -> None:
        """TooManyAttempts where too many failed from there within the last 15 minutes."""
        with self._lock:
            failures = self._recent(_sender(address))
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
        sender = _sender(address)
        with self._lock:
            failures = self._recent(sender)
            failures.append(self._clock())
            self._failures[sender] = failures
            self._failures.move_to_end(sender)
            while len(self._failures) > _MOST_ADDRESSES:
                self._failures.popitem(last=False)

    def _recent(self, sender: str) -> deque[float]:
        failures = self._failures.get(sender) or deque(maxlen=self._attempts)
        while failures and failures[0] <= self._clock() - WINDOW_SECONDS:
            failures.popleft()
        return failures


def _sender(address: str) -> str:
    """Whose address it is: the network of an IPv6 address, and IPv4 written as IPv6 is IPv4."""
    try:
        found = ipaddress.ip_address(address)
    except ValueError:
        return address
    if isinstance(found, ipaddress.IPv4Address):
        return address
    if found.ipv4_mapped is not None:
        return str(found.ipv4_mapped)
    return str(ipaddress.ip_network((found.packed, _NETWORK_BITS), strict=False))
