"""Whether an engine is ready to be asked: started, not draining, and every servable it started with has a live version.

Woken by state changes; tells the data plane's `/v2/health/ready` on a thread of its own, so that answers never cross.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from tidegate_serving.contract.servable import State, StateChange
from tidegate_serving.lifecycle.monitor import StateMonitor


class Readiness:
    """`tell(ready, reason)` is called whenever the answer may have changed; `wanted()` names the servables that
    something is wanted of."""

    def __init__(
        self, monitor: StateMonitor, wanted: Callable[[], frozenset[str]], tell: Callable[[bool, str], None]
    ) -> None:
        self._monitor = monitor
        self._wanted = wanted
        self._tell = tell
        self._changed = threading.Condition()
        self._dirty = True
        self._initial: frozenset[str] | None = None
        self._draining = False
        self._thread = threading.Thread(target=self._run, name="tidegate-readiness", daemon=True)

    def start(self) -> None:
        """Says not ready, the engine is starting."""
        self._thread.start()

    def settled(self) -> bool:
        """Whether every version known so far is AVAILABLE or has ended."""
        return all(change.state in (State.AVAILABLE, State.END) for change in self._monitor.states())

    def begin(self) -> None:
        """Start is over: from now on each servable wanted now has to have a live version, as long as it is wanted."""
        self._initial = self._wanted()
        self.wake()

    def drain(self) -> None:
        """Not ready, for good; told before it returns."""
        with self._changed:
            self._draining = True
            self._changed.notify()
        self._thread.join()

    def heard(self, change: StateChange) -> None:
        """Something changed."""
        if change.state in (State.AVAILABLE, State.END):
            self.wake()

    def wake(self) -> None:
        """Has the answer told anew."""
        with self._changed:
            self._dirty = True
            self._changed.notify()

    def answer(self) -> tuple[bool, str]:
        """Ready or not, and why not."""
        if self._draining:
            return False, "the engine is draining"
        if self._initial is None:
            return False, "the engine is starting"
        reasons = [reason for name in sorted(self._initial & self._wanted()) if (reason := self._missing(name))]
        return not reasons, "; ".join(reasons)

    def _run(self) -> None:
        while not self._draining:
            with self._changed:
                self._changed.wait_for(lambda: self._dirty or self._draining)
                self._dirty = False
            self._tell(*self.answer())

    def _missing(self, name: str) -> str:
        states = self._monitor.states(name)
        if any(change.state is State.AVAILABLE for change in states):
            return ""
        newest = states[0]
        return f"{newest.id} is {newest.state.name}{': ' if newest.error_message else ''}{newest.error_message}"
