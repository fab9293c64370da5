"""Tells the data plane where each version stands, so that it answers `GetModelStatus` without asking anybody.

The event bus calls it at each change; the monitor knows the states of all versions of a servable.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Protocol

from tidegate_serving.contract.errors import error_of
from tidegate_serving.contract.servable import StateChange

State = tuple[int, int, int, str]
"""Version, `ModelVersionStatus.State`, canonical gRPC code and text of what went wrong."""


class KnownStates(Protocol):
    """Where states are known."""

    def states(self, servable: str) -> Sequence[StateChange]:
        """The latest change of each version, newest version first."""


class ModelStates:
    """Passes a servable's states on whenever one has changed. Safe from any thread."""

    def __init__(self, known: KnownStates, tell: Callable[[str, Sequence[State]], None]) -> None:
        self._known = known
        self._tell = tell
        self._lock = threading.Lock()

    def heard(self, change: StateChange) -> None:
        """A listener of the event bus, after the monitor."""
        with self._lock:  # asked and told in one go: an older picture must not come after a newer one
            self._tell(change.id.name, [_row(change) for change in self._known.states(change.id.name)])


def _row(change: StateChange) -> State:
    code = error_of(change.error_code, "").grpc_code if change.error_code else 0
    return change.id.version, change.state.value, code, change.error_message
