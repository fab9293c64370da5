"""Turns a servable into the data plane's executor: one call per batch, outputs checked, errors with their codes.

The plane calls it on an executor thread with a batch; what it returns is split among the requests of that batch. For a
streaming signature it returns the messages of its only request, which the plane asks for one by one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

import tidegate_native as native

from tidegate_serving.contract.errors import ModelFailed, TidegateError
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import Signature
from tidegate_serving.contract.words import words_of
from tidegate_serving.platforms.complaints import Complaints
from tidegate_serving.platforms.loader import Answer, LoadedVersion, as_answer, each, messages_of
from tidegate_serving.platforms.tensor_checks import check_outputs

Executor = Callable[[native.Batch], native.Result | Iterator[native.Result]]


def make_executor(loaded: LoadedVersion) -> Executor:
    """An executor that asks the servable. It raises errors of our family only, whose `grpc_code` clients get."""
    servable_id, servable, signatures = loaded.manifest.id, loaded.servable, dict(loaded.manifest.signatures)
    complain = Complaints(servable_id)

    def failed(error: BaseException) -> ModelFailed:
        complain(error)
        return ModelFailed(f"{servable_id} raised {words_of(error)}")

    def stream(batch: native.Batch) -> Iterator[native.Result]:
        name = batch.signature
        try:
            messages = messages_of(servable_id, name, servable.predict(name, batch.inputs))
            yield from each(messages, lambda one: _checked(servable_id, signatures[name], None, as_answer(one)))
        except TidegateError:
            raise
        except (Exception, SystemExit) as error:
            raise failed(error) from error

    def execute(batch: native.Batch) -> native.Result | Iterator[native.Result]:
        name = batch.signature
        if signatures[name].streaming:
            return stream(batch)
        try:
            result = servable.predict(name, batch.inputs)
        except TidegateError:
            raise
        except (Exception, SystemExit) as error:
            raise failed(error) from error
        return _checked(servable_id, signatures[name], None if batch.unbatched else batch.rows, as_answer(result))

    return execute


def _checked(id: ServableId, signature: Signature, rows: int | None, answer: Answer) -> native.Result:
    outputs = check_outputs(id, signature, rows, answer.outputs)
    if not answer.errors:
        return native.Result(outputs)
    wrong = [row for row in answer.errors if not 0 <= row < (1 if rows is None else rows)]
    if wrong:
        raise ModelFailed(f"{id} reports an error for row {wrong[0]} of a batch of {rows} rows")
    return native.Result(outputs, {row: _told(error) for row, error in answer.errors.items()})


def _told(error: TidegateError) -> tuple[int, str] | tuple[int, str, str]:
    told = (error.grpc_code, str(error))
    return told if error.details is None else (*told, error.details)
