"""The latest public state of every version, for whoever asks or waits; ended versions are kept, but not for ever.

Fed by the event bus; read by status calls, readiness, and the RPC Source's watchers.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager

from tidegate_serving.contract.errors import DeadlinePassed, ResourceExhausted
from tidegate_serving.contract.servable import ServableId, State, StateChange
from tidegate_serving.lifecycle.events import EventBus

ENDED_KEPT = 16
GONE_KEPT = 1000
WATCH_CAPACITY = 4096
_SIGNAL_SECONDS = 1.0  # how long a waiting main thread may be deaf to signals


class Watch:
    """One watcher's share: the states at its beginning, then each change in order."""

    def __init__(self, servable: str, present: list[StateChange]) -> None:
        self._servable = servable
        self._changes: queue.Queue[StateChange | None] = queue.Queue(WATCH_CAPACITY)
        self._overrun = False
        self.present = tuple(present)

    def offer(self, change: StateChange) -> None:
        """Called by the monitor; a watcher that does not keep up is cut off, not waited for."""
        if self._servable in ("", change.id.name):
            try:
                self._changes.put_nowait(change)
            except queue.Full:
                self._overrun = True

    def wake(self) -> None:
        """Nobody listens any more: whoever waits for the next change waits no longer."""
        with contextlib.suppress(queue.Full):  # where it is full, nobody waits
            self._changes.put_nowait(None)

    def next(self, timeout: float) -> StateChange | None:
        """The next change, or None after `timeout` seconds or a wake. ResourceExhausted when some were lost."""
        if self._overrun:
            raise ResourceExhausted(f"this watcher is {WATCH_CAPACITY} changes behind: watch again")
        try:
            return self._changes.get(timeout=timeout)
        except queue.Empty:
            return None


class StateMonitor:
    """Remembers the latest change of each version: of ended ones the newest 16 per servable, and of servables of which
    nothing is left the newest 1,000."""

    def __init__(self, events: EventBus) -> None:
        self._changed = threading.Condition()
        self._latest: dict[str, dict[int, StateChange]] = {}
        self._gone: dict[str, None] = {}
        self._heard = 0
        self._watches: tuple[Watch, ...] = ()
        self._subscription = events.subscribe(self._note)

    def states(self, servable: str = "") -> list[StateChange]:
        """The latest change of each version, by name and then newest version first."""
        with self._changed:
            return self._states(servable)

    def names(self) -> set[str]:
        """Servables that were heard of and are remembered."""
        with self._changed:
            return set(self._latest)

    def state(self, id: ServableId) -> StateChange | None:
        """The latest change of one version, or None where it was never heard of."""
        with self._changed:
            return self._latest.get(id.name, {}).get(id.version)

    def wait_until(self, id: ServableId, state: State, timeout: float) -> StateChange:
        """The change by which a version stands in `state`. DeadlinePassed after `timeout` seconds."""
        self.wait_for(lambda: (self.state(id) or _NEVER).state is state, timeout, f"{id} is not {state.name}")
        change = self.state(id)
        return change or _NEVER

    def wait_for(self, condition: Callable[[], bool], timeout: float, what: str) -> None:
        """Returns once `condition` holds, asked anew after each change. DeadlinePassed, saying `what`, otherwise.

        It is asked without a lock, so that it may ask whoever publishes.
        """
        deadline = time.monotonic() + timeout
        while True:
            with self._changed:
                heard = self._heard
            if condition():
                return
            left = deadline - time.monotonic()
            if left <= 0:
                raise DeadlinePassed(f"{what} after {timeout:g} s: wait longer, or look at its status")
            with self._changed:
                if self._heard == heard:
                    self._changed.wait(min(left, _SIGNAL_SECONDS))

    @contextmanager
    def watch(self, servable: str = "") -> Iterator[Watch]:
        """Present states and every change after them, of one servable or, for an empty name, of all."""
        with self._changed:
            watch = Watch(servable, self._states(servable))
            self._watches = (*self._watches, watch)
        try:
            yield watch
        finally:
            with self._changed:
                self._watches = tuple(other for other in self._watches if other is not watch)

    def close(self) -> None:
        """Hears of no further change."""
        self._subscription.close()

    def _note(self, change: StateChange) -> None:
        with self._changed:
            versions = self._latest.setdefault(change.id.name, {})
            versions[change.id.version] = change
            self._heard += 1
            _forget_oldest_ended(versions)
            self._forget_gone(change.id.name, versions)
            for watch in self._watches:
                watch.offer(change)
            self._changed.notify_all()

    def _forget_gone(self, name: str, versions: Mapping[int, StateChange]) -> None:
        self._gone.pop(name, None)
        if all(change.state is State.END for change in versions.values()):
            self._gone[name] = None
            if len(self._gone) > GONE_KEPT:
                oldest = next(iter(self._gone))
                del self._gone[oldest], self._latest[oldest]

    def _states(self, servable: str) -> list[StateChange]:
        names = [servable] if servable else sorted(self._latest)
        return [
            self._latest[name][version]
            for name in names
            for version in sorted(self._latest.get(name, {}), reverse=True)
        ]


_NEVER = StateChange(ServableId("never", 0), State.START)


def _forget_oldest_ended(versions: dict[int, StateChange]) -> None:
    ended = [change for change in versions.values() if change.state is State.END]
    for change in sorted(ended, key=lambda change: change.at_us)[: max(0, len(ended) - ENDED_KEPT)]:
        del versions[change.id.version]
