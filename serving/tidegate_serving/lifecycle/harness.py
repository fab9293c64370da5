"""The state machine of one version: its stages, which may follow which, and the one method that moves it.

The manager owns a harness per version and moves it; every move tells a listener, which publishes the public state. A
version that failed keeps its error. Stages and moves are those of TensorFlow Serving's `LoaderHarness`.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping

from tidegate_serving.contract.errors import FailedPrecondition, TidegateError
from tidegate_serving.contract.servable import ServableId, State


class Stage(enum.Enum):
    """Where a version stands inside the engine; values are TensorFlow Serving's names."""

    NEW = "new"
    LOAD_REQUESTED = "load-requested"
    LOAD_APPROVED = "load-approved"
    LOADING = "loading"
    READY = "ready"
    UNLOAD_REQUESTED = "unload-requested"
    QUIESCING = "quiescing"
    QUIESCED = "quiesced"
    UNLOADING = "unloading"
    DISABLED = "disabled"
    ERROR = "error"


MOVES: Mapping[Stage, frozenset[Stage]] = {
    Stage.NEW: frozenset({Stage.LOAD_REQUESTED, Stage.ERROR}),
    Stage.LOAD_REQUESTED: frozenset({Stage.LOAD_APPROVED, Stage.ERROR}),
    Stage.LOAD_APPROVED: frozenset({Stage.LOADING, Stage.ERROR}),
    Stage.LOADING: frozenset({Stage.READY, Stage.ERROR}),
    Stage.READY: frozenset({Stage.UNLOAD_REQUESTED, Stage.ERROR}),
    Stage.UNLOAD_REQUESTED: frozenset({Stage.QUIESCING, Stage.ERROR}),
    Stage.QUIESCING: frozenset({Stage.QUIESCED, Stage.ERROR}),
    Stage.QUIESCED: frozenset({Stage.UNLOADING, Stage.ERROR}),
    Stage.UNLOADING: frozenset({Stage.DISABLED, Stage.ERROR}),
    Stage.DISABLED: frozenset({Stage.ERROR}),
    Stage.ERROR: frozenset(),
}

PUBLIC: Mapping[Stage, State] = {
    Stage.NEW: State.START,
    Stage.LOAD_REQUESTED: State.START,
    Stage.LOAD_APPROVED: State.START,
    Stage.LOADING: State.LOADING,
    Stage.READY: State.AVAILABLE,
    Stage.UNLOAD_REQUESTED: State.UNLOADING,
    Stage.QUIESCING: State.UNLOADING,
    Stage.QUIESCED: State.UNLOADING,
    Stage.UNLOADING: State.UNLOADING,
    Stage.DISABLED: State.END,
    Stage.ERROR: State.END,
}

BUSY = frozenset(
    {
        Stage.LOAD_REQUESTED,
        Stage.LOAD_APPROVED,
        Stage.LOADING,
        Stage.UNLOAD_REQUESTED,
        Stage.QUIESCING,
        Stage.QUIESCED,
        Stage.UNLOADING,
    }
)
LEAVING = frozenset({Stage.UNLOAD_REQUESTED, Stage.QUIESCING, Stage.QUIESCED, Stage.UNLOADING})
GONE = frozenset({Stage.DISABLED, Stage.ERROR})


class Harness:
    """One version's stage, and its error once it has failed. Not synchronised: its owner holds a lock."""

    def __init__(self, id: ServableId, moved: Callable[[Harness], None]) -> None:
        self.id = id
        self._stage = Stage.NEW
        self._error: TidegateError | None = None
        self._moved = moved
        moved(self)

    @property
    def stage(self) -> Stage:
        """Where the version stands."""
        return self._stage

    @property
    def public(self) -> State:
        """Where the version stands for everybody outside."""
        return PUBLIC[self._stage]

    @property
    def error(self) -> TidegateError | None:
        """Why the version failed, in stage ERROR only."""
        return self._error

    def move(self, to: Stage, error: TidegateError | None = None) -> None:
        """Enters a stage and tells the listener. FailedPrecondition for a move that the table lacks."""
        if to not in MOVES[self._stage]:
            raise FailedPrecondition(f"{self.id} is {self._stage.value}: it cannot become {to.value}")
        if (to is Stage.ERROR) is (error is None):
            raise FailedPrecondition(f"{self.id} becomes {to.value}: an error belongs to that stage and to no other")
        self._stage, self._error = to, error
        self._moved(self)
