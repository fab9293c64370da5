"""Whether an engine is ready to be asked: started, not draining, and every servable it started with has a live version.

Woken by state changes; tells the data plane's `/v2/health/ready` on a thread of its own, so that answers never cross.
It looks only at servables that something was heard of.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from tidegate_serving.config.fleet import PROBLEM as FLEET
from tidegate_serving.contract.servable import ServableId, State, StateChange
from tidegate_serving.control.access.access_file import CERTIFICATE, DATA_CERTIFICATE, DATA_NAME
from tidegate_serving.control.access.access_file import NAME as ACCESS_FILE
from tidegate_serving.control.reconciler import Reconciler
from tidegate_serving.lifecycle.manager import AspiredVersionsManager
from tidegate_serving.lifecycle.monitor import StateMonitor
from tidegate_serving.runtime.log_problem import NAME as INFERENCE_LOG
from tidegate_serving.sources.file_system.source import FileSystemSource
from tidegate_serving.sources.problems import SourceProblems

_REASONS = 20
_BESIDE = (ACCESS_FILE, CERTIFICATE, DATA_NAME, DATA_CERTIFICATE, INFERENCE_LOG, FLEET)
_log = logging.getLogger(__name__)
_SIGNAL_SECONDS = 1.0  # how long a waiting main thread may be deaf to signals
_IDLE_SECONDS = 0.05


class Served(Protocol):
    """Which servables an engine is meant to serve."""

    def names(self) -> frozenset[str]:
        """All of them."""

    def is_served(self, name: str) -> bool:
        """Whether one of them is."""

    def why(self, name: str) -> str:
        """Why one of them has no version at all."""


@dataclass(frozen=True, slots=True)
class ServedNames:
    """Those of which a version is aspired, and those that the config names, even while none of them can be loaded;
    without those that operators have blocked whole."""

    manager: AspiredVersionsManager
    files: FileSystemSource
    reconciler: Reconciler
    problems: SourceProblems

    def names(self) -> frozenset[str]:
        """All of them."""
        return self.manager.aspired_names() | self.files.configured()

    def is_served(self, name: str) -> bool:
        """Whether one of them is."""
        return self.manager.is_aspired(name) or (self.files.is_configured(name) and not self._is_blocked(name))

    def blind(self) -> str:
        """Why nothing at all is served, where a source cannot be read; else empty."""
        said = [one.error.message for one in self.problems.of_sources() if one.source not in _BESIDE]
        return f"nothing is served: {'; '.join(said)}" if said and not self.names() else ""

    def _is_blocked(self, name: str) -> bool:
        desired, overrides = self.reconciler.desired(name), self.reconciler.overrides(name)
        return bool(desired.versions) and all(overrides.block_of(one) is not None for one in desired.versions)

    def why(self, name: str) -> str:
        """Why no version is there of one that the config names."""
        problem = self.problems.of(name)
        return problem.error.message if problem is not None else f"no version of {name} was seen yet"


class Readiness:
    """`tell(ready, reason)` is called whenever the answer may have changed; `blind` says why nobody can know what is
    wanted, empty where that is known."""

    def __init__(
        self,
        monitor: StateMonitor,
        served: Served,
        tell: Callable[[bool, str], None],
        blind: Callable[[], str] = lambda: "",
    ) -> None:
        self._monitor = monitor
        self._served = served
        self._tell = tell
        self._blind = blind
        self._changed = threading.Condition()
        self._dirty = True
        self._heard: set[str] = set()
        self._unsettled: set[ServableId] = set()
        self._initial: frozenset[str] | None = None
        self._missing: dict[str, str] = {}
        self._remarks: dict[str, str] = {}
        self._was_blind = False
        self._draining = False
        self._thread = threading.Thread(target=self._run, name="tidegate-readiness", daemon=True)

    def start(self) -> None:
        """Says not ready, the engine is starting."""
        self._thread.start()

    def settled(self) -> bool:
        """Whether every version heard of so far is AVAILABLE or has ended."""
        return not self._unsettled

    def wait_settled(self, idle: Callable[[], bool], seconds: float) -> bool:
        """Until every version heard of is settled and `idle` holds, which is asked a few times a second; False after
        `seconds`.
        """
        deadline = time.monotonic() + seconds
        while not (idle() and self.settled()):
            left = deadline - time.monotonic()
            if left <= 0:
                return False
            with self._changed:
                if self._unsettled:
                    self._changed.wait_for(self.settled, min(left, _SIGNAL_SECONDS))
                else:
                    self._changed.wait(min(left, _IDLE_SECONDS))
        return True

    def unsettled(self) -> list[str]:
        """Versions that are on their way, with their states, in words."""
        with self._changed:
            found = sorted(self._unsettled)
        changes = [self._monitor.state(version) for version in found]
        return [f"{change.id} is {change.state.name}" for change in changes if change is not None]

    def begin(self) -> None:
        """Start is over: from now on each servable wanted now has to have a live version, as long as it is wanted."""
        initial = self._served.names()  # whose lock is held by whoever calls `heard`: never ask under ours
        with self._changed:
            self._initial = initial
            self._heard |= initial
        self.wake()

    def drain(self) -> None:
        """Not ready, for good; told before it returns."""
        with self._changed:
            self._draining = True
            self._changed.notify_all()
        self._thread.join()

    def heard(self, change: StateChange) -> None:
        """Something changed."""
        with self._changed:
            if change.state not in (State.AVAILABLE, State.END):
                self._unsettled.add(change.id)
                return
            self._unsettled.discard(change.id)
            self._heard.add(change.id.name)
        self.wake()

    def remark(self, text: str, about: str = "") -> None:
        """Something that whoever asks has to know although the engine is ready; empty for nothing about that."""
        self._remarks[about] = text
        self.wake()

    def wake(self) -> None:
        """Has the answer told anew."""
        with self._changed:
            self._dirty = True
            self._changed.notify_all()

    def answer(self) -> tuple[bool, str]:
        """Ready or not, and why not."""
        if self._draining:
            return False, "the engine is draining"
        if self._initial is None:
            return False, "the engine is starting"
        with self._changed:
            heard, self._heard = (self._heard | self._missing.keys()) & self._initial, set()
        for name in heard:
            reason = self._reason(name) if self._served.is_served(name) else ""
            if reason:
                self._missing[name] = reason
            else:
                self._missing.pop(name, None)
        reasons = [self._missing[name] for name in sorted(self._missing)]
        more = [f"and {len(reasons) - _REASONS} more"] if len(reasons) > _REASONS else []
        if not reasons:
            return self._seeing()
        return False, "; ".join(reasons[:_REASONS] + more)

    def _seeing(self) -> tuple[bool, str]:
        """Ready, unless nobody knows what is wanted; what is, once that is known, has to come as at the start."""
        was_blind, blind = self._was_blind, self._blind()
        self._was_blind = bool(blind)
        if was_blind and not blind:
            self.begin()
            return False, "the engine is starting"
        return (False, blind) if blind else (True, "; ".join(filter(None, self._remarks.values())))

    def _run(self) -> None:
        while not self._draining:
            with self._changed:
                self._changed.wait_for(lambda: self._dirty or self._draining)
                self._dirty = False
            try:
                self._tell(*self.answer())
            except Exception:
                _log.exception("whether the engine is ready could not be told, the next change tries again")

    def _reason(self, name: str) -> str:
        states = self._monitor.states(name)
        if any(change.state is State.AVAILABLE for change in states):
            return ""
        if not states:
            return self._served.why(name)
        newest = states[0]
        return f"{newest.id} is {newest.state.name}{': ' if newest.error_message else ''}{newest.error_message}"
