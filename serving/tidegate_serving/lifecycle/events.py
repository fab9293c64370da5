"""The event bus: every change of a version's public state, delivered on the thread that caused it, in order.

The manager publishes; the state monitor, readiness and anybody else subscribe.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable
from types import TracebackType
from typing import Self

from tidegate_serving.contract.servable import StateChange

_log = logging.getLogger(__name__)
Listener = Callable[[StateChange], None]


class Subscription:
    """Ends the deliveries when closed; a context manager."""

    def __init__(self, end: Callable[[], None]) -> None:
        self._end = end

    def close(self) -> None:
        """No delivery begins after this."""
        self._end()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class EventBus:
    """Delivers state changes. Listeners must be quick and must not call whoever publishes."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._listeners: tuple[Listener, ...] = ()

    def subscribe(self, listener: Listener) -> Subscription:
        """Every change from now on."""
        with self._lock:
            self._listeners = (*self._listeners, listener)
        return Subscription(lambda: self._remove(listener))

    def publish(self, change: StateChange) -> None:
        """Tells every listener; one that raises is logged and harms no other."""
        for listener in self._listeners:
            try:
                listener(change)
            except Exception:
                _log.exception("a listener failed on %s", change)

    def _remove(self, listener: Listener) -> None:
        with self._lock:
            self._listeners = tuple(other for other in self._listeners if other is not listener)
