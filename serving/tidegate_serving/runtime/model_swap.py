"""Replaces the list of models that a running engine serves from base paths, as TensorFlow Serving's reload does.

The reload call of clients and the model server's watch of its file ask; the engine's reload does the work. The old
models are given up only once the new ones serve, so that a list that cannot be served changes nothing.
"""

from __future__ import annotations

import dataclasses
import threading
from collections.abc import Callable, Collection, Mapping

from tidegate_serving.config import ModelConfig
from tidegate_serving.contract.errors import NotServed, TidegateError, Unavailable, error_of
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.runtime.assembly import Lifecycle, LiveConfig
from tidegate_serving.runtime.reload import Reloader
from tidegate_serving.tensorflow_serving.model_list import check_labels, check_platforms

TAKEN_BACK = "taken back, new models did not come up"


class ModelSwap:
    """One swap at a time."""

    def __init__(self, live: LiveConfig, reloader: Reloader, lifecycle: Lifecycle) -> None:
        self._live = live
        self._reloader = reloader
        self._manager = lifecycle.manager
        self._monitor = lifecycle.monitor
        self._problems = lifecycle.problems
        self._turn = threading.Lock()
        self._stopping = False

    def stop(self) -> None:
        """Waits for nothing any more."""
        self._stopping = True

    def replace(self, models: Mapping[str, ModelConfig], timeout: float, requested_by: str) -> None:
        """Serves these models and no longer any other with a path. Models without a path keep what they have, and so
        does whatever another reload changes meanwhile.

        Raises InvalidInput for a change of platform, FailedPrecondition for a label of a version that is not to be
        served (unless the config says that labels may wait), and for a new model that does not come up its own error;
        nothing has changed then.
        """
        with self._turn:
            before = self._live.now
            listed = {name: model for name, model in before.models.items() if model.path is not None}
            check_platforms(listed, models)
            if not before.labels_may_wait:
                check_labels(models)
            new = {name: model for name, model in models.items() if name not in listed}
            gone = listed.keys() - models.keys()
            if new:
                self._change(lambda now: {**now, **new}, requested_by, "new models first")
            try:
                if new:
                    self._wait_for(new, timeout)
                self._change(lambda now: {**_without(now, gone), **models}, requested_by)
            except TidegateError:
                if new:
                    old = {name: model for name, model in before.models.items() if name in new}
                    self._change(lambda now: {**_without(now, new), **old}, requested_by, TAKEN_BACK)
                raise

    def _change(
        self, models: Callable[[Mapping[str, ModelConfig]], dict[str, ModelConfig]], requested_by: str, reason: str = ""
    ) -> None:
        """Other models than those in force, and nothing else: a reload in between, while the new ones were waited for,
        stays."""
        self._reloader.change(
            lambda now: dataclasses.replace(now, models=models(now.models)), requested_by=requested_by, reason=reason
        )

    def _wait_for(self, new: Collection[str], timeout: float) -> None:
        what = f"{', '.join(sorted(new))} did not become available"
        self._monitor.wait_for(lambda: self._stopping or self._all_settled(new), timeout, what)
        if self._stopping:
            raise Unavailable(f"the engine is stopping: {what} before that")
        failed = {name: error for name in sorted(new) if (error := self._outcome(name)[1]) is not None}
        if failed:
            raise _did_not_come(failed)

    def _all_settled(self, names: Collection[str]) -> bool:
        return all(self._outcome(name)[0] in (State.AVAILABLE, State.END) for name in names)

    def _outcome(self, name: str) -> tuple[State, TidegateError | None]:
        """How a model stands by what is wanted of it now, and what stands in its way. What is only left of an earlier
        list, and leaves or has just left, says nothing about it."""
        wanted = self._manager.wanted(name)
        states = {state for state, _ in wanted.values()}
        if State.AVAILABLE in states:
            return State.AVAILABLE, None
        problem = self._problems.of(name)
        if problem is not None:
            return State.END, problem.error
        if not wanted or State.START in states:
            return State.START, None
        newest = max(wanted)
        error = wanted[newest][1]
        return State.END, error and error_of(error.code, _said(newest, error))


def _without(models: Mapping[str, ModelConfig], names: Collection[str]) -> dict[str, ModelConfig]:
    return {name: model for name, model in models.items() if name not in names}


def _said(id: ServableId, error: TidegateError) -> str:
    return f"{{name: {id.name} version: {id.version}}} due to error: {error.message}"


def _did_not_come(failed: Mapping[str, TidegateError]) -> NotServed:
    """TensorFlow Serving's words and its code."""
    errors = ", ".join(f"{{{error.message}}}" for error in failed.values())
    return NotServed(f"{len(failed)} model(s) did not become available: {{{errors}}}; nothing was changed")
