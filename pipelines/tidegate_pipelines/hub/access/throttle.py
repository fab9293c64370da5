"""Makes a sender wait who guesses, or who costs the hub writes without being known: so many come from one address."""

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
    """Too many of one kind from one sender; `retry_after` is in seconds."""

    def __init__(self, message: str, retry_after: int) -> None:
        super().__init__(message)
        self.retry_after = retry_after


class Throttle:
    """Counts attempts by sender, in memory, of the 10,000 who came last. Safe from any thread.

    `what` names the attempts and `cure` what helps, in the message of who has to wait. All addresses of an IPv6
    network of 64 bits are one sender: whoever has one of them has all."""

    def __init__(
        self,
        attempts: int,
        clock: Callable[[], float] = time.monotonic,
        *,
        what: str = "failed sign-ins",
        cure: str = "with the right token",
    ) -> None:
        self._attempts = attempts
        self._what, self._cure = what, cure
        self._clock = clock
        self._lock = threading.Lock()
        self._counted: OrderedDict[str, deque[float]] = OrderedDict()

    def check(self, address: str) -> None:
        """TooManyAttempts where too many were counted from there within the last 15 minutes."""
        with self._lock:
            counted = self._recent(_sender(address))
            if len(counted) < self._attempts:
                return
            wait = int(counted[0] + WINDOW_SECONDS - self._clock()) + 1
        raise TooManyAttempts(
            f"{self._attempts} {self._what} from {address} within {WINDOW_SECONDS / 60:.0f} minutes: try again in "
            f"{wait} s, {self._cure}",
            wait,
        )

    def count(self, address: str) -> None:
        """There was one from there."""
        sender = _sender(address)
        with self._lock:
            counted = self._recent(sender)
            counted.append(self._clock())
            self._counted[sender] = counted
            self._counted.move_to_end(sender)
            while len(self._counted) > _MOST_ADDRESSES:
                self._counted.popitem(last=False)

    def _recent(self, sender: str) -> deque[float]:
        counted = self._counted.get(sender) or deque(maxlen=self._attempts)
        while counted and counted[0] <= self._clock() - WINDOW_SECONDS:
            counted.popleft()
        return counted


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
