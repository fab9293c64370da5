"""Replaces the list of models that a running engine serves from base paths, as TensorFlow Serving's reload does.

The reload call of clients and the model server's watch of its file ask; the engine's reload does the work. The old
models are given up only once the new ones serve, so that a list that cannot be served changes nothing.
"""

from __future__ import annotations

import dataclasses
import threading
import time
from collections.abc import Collection, Mapping

from tidegate_serving.config import ModelConfig
from tidegate_serving.contract.errors import NotServed, TidegateError, Unavailable, error_of
from tidegate_serving.contract.servable import State, StateChange
from tidegate_serving.lifecycle.monitor import StateMonitor
from tidegate_serving.runtime.assembly import LiveConfig
from tidegate_serving.runtime.reload import Reloader
from tidegate_serving.sources.problems import SourceProblems
from tidegate_serving.tensorflow_serving.model_list import check_labels, check_platforms

TAKEN_BACK = "taken back, new models did not come up"
_ON_THE_WAY = (State.START, State.LOADING)


class ModelSwap:
    """One swap at a time."""

    def __init__(self, live: LiveConfig, reloader: Reloader, monitor: StateMonitor, problems: SourceProblems) -> None:
        self._live = live
        self._reloader = reloader
        self._monitor = monitor
        self._problems = problems
        self._turn = threading.Lock()
        self._stopping = False

    def stop(self) -> None:
        """Waits for nothing any more."""
        self._stopping = True

    def replace(self, models: Mapping[str, ModelConfig], timeout: float, requested_by: str) -> None:
        """Serves these models and no longer any other with a path. Models without a path keep what they have.

        Raises InvalidInput for a change of platform, FailedPrecondition for a label of a version that is not to be
        served (unless the config says that labels may wait), and for a new model that does not come up its own error;
        nothing has changed then.
        """
        with self._turn:
            before = self._live.now
            listed = {name: model for name, model in before.models.items() if model.path is not None}
            others = {name: model for name, model in before.models.items() if model.path is None}
            check_platforms(listed, models)
            if not before.labels_may_wait:
                check_labels(models)
            new = models.keys() - listed.keys()
            after = dataclasses.replace(before, models={**others, **models})
            if new:
                both = dataclasses.replace(before, models={**others, **models, **listed})
                began = time.time_ns() // 1000
                self._reloader.reload(both, requested_by=requested_by, reason="new models first")
                try:
                    self._wait_for(new, began, timeout)
                except TidegateError:
                    self._reloader.reload(before, requested_by=requested_by, reason=TAKEN_BACK)
                    raise
            self._reloader.reload(after, requested_by=requested_by)

    def _wait_for(self, new: Collection[str], began: int, timeout: float) -> None:
        what = f"{', '.join(sorted(new))} did not become available"
        self._monitor.wait_for(lambda: self._stopping or self._all_settled(new, began), timeout, what)
        if self._stopping:
            raise Unavailable(f"the engine is stopping: {what} before that")
        failed = {name: error for name in sorted(new) if (error := self._error(name, began)) is not None}
        if failed:
            raise _did_not_come(failed)

    def _all_settled(self, names: Collection[str], began: int) -> bool:
        return all(self._available(name) or self._error(name, began) is not None for name in names)

    def _available(self, name: str) -> bool:
        return any(change.state is State.AVAILABLE for change in self._monitor.states(name))

    def _error(self, name: str, began: int) -> TidegateError | None:
        """What stands in the way of a model, once no version of it is on its way any more."""
        if self._available(name):
            return None
        problem = self._problems.of(name)
        if problem is not None:
            return problem.error
        changes = [change for change in self._monitor.states(name) if change.at_us >= began]
        if not changes or any(change.state in _ON_THE_WAY for change in changes):
            return None
        return error_of(changes[0].error_code, _said(changes[0]))


def _said(change: StateChange) -> str:
    return f"{{name: {change.id.name} version: {change.id.version}}} due to error: {change.error_message}"


def _did_not_come(failed: Mapping[str, TidegateError]) -> NotServed:
    """TensorFlow Serving's words and its code."""
    errors = ", ".join(f"{{{error.message}}}" for error in failed.values())
    return NotServed(f"{len(failed)} model(s) did not become available: {{{errors}}}; nothing was changed")
