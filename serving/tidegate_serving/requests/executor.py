"""Turns a servable into the data plane's executor: one call per batch, outputs checked, errors with their codes.

The plane calls it on an executor thread with a batch; what it returns is split among the requests of that batch. For a
streaming signature it returns the messages of its only request, which the plane asks for one by one.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Protocol

import tidegate_native as native

from tidegate_serving.contract.errors import ModelFailed, TidegateError
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import Signature
from tidegate_serving.contract.tensors import Array
from tidegate_serving.contract.words import words_of
from tidegate_serving.platforms.complaints import Complaints
from tidegate_serving.platforms.loader import Answer, LoadedVersion, each, messages_of
from tidegate_serving.platforms.tensor_checks import check_outputs


class RunsInWorkers(Protocol):
    """A servable whose batches the plane gives to an idle worker itself; what came of one that is no everyday answer,
    and every stream, is its own to settle."""

    idle: native.IdleWorkers

    def told(
        self, worker: Any, text: bytes, outputs: Mapping[str, Array], signature: str, inputs: Mapping[str, Array]
    ) -> Answer:
        """The answer that a worker's message is; raises what that says. The worker is idle again then."""

    def died(self, worker: Any, nonsense: str | None, signature: str, inputs: Mapping[str, Array]) -> Answer:
        """Another worker's answer, where that may be tried; the dead one is replaced. `nonsense` is what a worker that
        lives gave."""


class Executor:
    """What the plane calls with a batch. It raises errors of our family only, whose `grpc_code` clients get."""

    def __init__(self, loaded: LoadedVersion) -> None:
        self._id = loaded.manifest.id
        self._servable = loaded.servable
        self._signatures = dict(loaded.manifest.signatures)
        self._complain = Complaints(self._id)

    @property
    def workers(self) -> native.IdleWorkers | None:
        """Who answers without this executor, where the version runs in workers."""
        idle = getattr(self._servable, "idle", None)
        return idle if isinstance(idle, native.IdleWorkers) else None

    def __call__(self, batch: native.Batch) -> native.Result | Iterator[native.Result]:
        """The outputs of a batch, or the messages of a stream."""
        name = batch.signature
        signature = self._signatures[name]
        if signature.streaming:
            return self._stream(batch)
        try:
            result = self._servable.predict(name, batch.inputs)
            return _checked(self._id, signature, None if batch.unbatched else batch.rows, result)
        except TidegateError:
            raise
        except BaseException as error:
            raise self._failed(error) from error

    def told(self, batch: native.Batch, worker: Any, text: bytes, outputs: Mapping[str, Array]) -> native.Result:
        """The outputs of a batch that a worker answered with more than outputs."""
        workers: RunsInWorkers = self._servable  # type: ignore[assignment]
        return self._checked(batch, workers.told(worker, text, outputs, batch.signature, batch.inputs))

    def died(self, batch: native.Batch, worker: Any, nonsense: str | None) -> native.Result:
        """The outputs of a batch whose worker died, or gave what makes no sense."""
        workers: RunsInWorkers = self._servable  # type: ignore[assignment]
        return self._checked(batch, workers.died(worker, nonsense, batch.signature, batch.inputs))

    def _stream(self, batch: native.Batch) -> Iterator[native.Result]:
        name = batch.signature
        try:
            messages = messages_of(self._id, name, self._servable.predict(name, batch.inputs))
            yield from each(messages, lambda one: _checked(self._id, self._signatures[name], None, one))
        except (TidegateError, GeneratorExit):
            raise
        except BaseException as error:
            raise self._failed(error) from error

    def _checked(self, batch: native.Batch, answer: Answer) -> native.Result:
        rows = None if batch.unbatched else batch.rows
        return _checked(self._id, self._signatures[batch.signature], rows, answer)

    def _failed(self, error: BaseException) -> ModelFailed:
        self._complain(error)
        return ModelFailed(f"{self._id} raised {words_of(error)}")


def _checked(id: ServableId, signature: Signature, rows: int | None, given: Any) -> native.Result:
    """What a servable gave: an answer, or outputs, of which none is made first: this is done for every batch."""
    answered = isinstance(given, Answer)
    outputs = check_outputs(id, signature, rows, given.outputs if answered else given)
    if not answered or not given.errors:
        return native.Result(outputs)
    wrong = [row for row in given.errors if not 0 <= row < (1 if rows is None else rows)]
    if wrong:
        raise ModelFailed(f"{id} reports an error for row {wrong[0]} of a batch of {rows} rows")
    return native.Result(outputs, {row: _told(error) for row, error in given.errors.items()})


def _told(error: TidegateError) -> tuple[int, str] | tuple[int, str, str]:
    told = (error.grpc_code, str(error))
    return told if error.details is None else (*told, error.details)
