"""Asks the stages of a version one after the other, each for as many rows at once as it wants."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tidegate_serving.contract.errors import TidegateError
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import SERVING_DEFAULT, FirstAxis, Signature, TensorSpec
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.loader import Answer, Servable, ask, device_bytes
from tidegate_serving.platforms.memory_need import together
from tidegate_serving.platforms.stages.description import Stage, offered, taken
from tidegate_serving.platforms.tensor_checks import check_outputs


@dataclass(frozen=True, slots=True)
class LoadedStage:
    """A stage that can answer."""

    stage: Stage
    signature: Signature
    servable: Servable

    def ask(self, id: ServableId, tensors: Mapping[str, Array], rows: int | None) -> Answer:
        """Its outputs under the names that all stages share. Raises what it raised, naming the stage."""
        inputs = {spec.name: tensors[shared] for shared, spec in taken(self.stage, self.signature)}
        most = self.stage.max_batch_rows
        try:
            if rows is None or most is None or rows <= most:
                return self._shared(self._ask_once(id, inputs, rows))
            parts = []
            for at in range(0, rows, most):
                part = {name: array[at : at + most] for name, array in inputs.items()}
                parts.append((at, self._ask_once(id, part, min(most, rows - at))))
        except TidegateError as error:
            raise self._named(error) from error
        outputs = {
            spec.name: np.concatenate([part.outputs[spec.name] for _, part in parts]) for spec in self.signature.outputs
        }
        return self._shared(Answer(outputs, {at + row: why for at, part in parts for row, why in part.errors.items()}))

    def _ask_once(self, id: ServableId, inputs: Mapping[str, Array], rows: int | None) -> Answer:
        answer = ask(self.servable, SERVING_DEFAULT, inputs)
        # Where the batch is only assumed, here it is one: the stages before and after have these rows.
        strict = self.signature if rows is None else replace(self.signature, first_axis=FirstAxis.BATCH)
        return Answer(check_outputs(id, strict, rows, answer.outputs), answer.errors)

    def _shared(self, answer: Answer) -> Answer:
        outputs = {shared: answer.outputs[spec.name] for shared, spec in offered(self.stage, self.signature)}
        return Answer(outputs, {row: self._named(error) for row, error in answer.errors.items()})

    def _named(self, error: TidegateError) -> TidegateError:
        return type(error)(f"stage {self.stage.name!r}: {error.message}", error.details)


class StagesServable:
    """All stages as one servable. For any number of threads, as far as its stages are."""

    def __init__(self, id: ServableId, stages: Sequence[LoadedStage], signature: Signature) -> None:
        self._id = id
        self._stages = list(stages)
        self._signature = signature

    def predict(self, signature: str, inputs: Mapping[str, Array]) -> Answer:
        """What the last stage, or several, gave. A row that one stage refuses is not asked of those after it."""
        tensors = dict(inputs)
        rows = None if self._signature.first_axis is FirstAxis.FREE else len(next(iter(inputs.values())))
        left = None if rows is None else np.arange(rows)
        errors: dict[int, TidegateError] = {}
        for stage in self._stages:
            answer = stage.ask(self._id, tensors, None if left is None else len(left))
            tensors.update(answer.outputs)
            if answer.errors and left is not None:
                errors.update({int(left[row]): why for row, why in answer.errors.items()})
                good = np.setdiff1d(np.arange(len(left)), list(answer.errors))
                left, tensors = left[good], {name: array[good] for name, array in tensors.items()}
                if not len(left):
                    break
            elif answer.errors:
                raise next(iter(answer.errors.values()))
        if not errors:
            return Answer({spec.name: tensors[spec.name] for spec in self._signature.outputs})
        return Answer({spec.name: _spread(spec, tensors, left, rows) for spec in self._signature.outputs}, errors)

    def device_bytes(self) -> Mapping[str, int]:
        """What all stages hold of GPUs."""
        return together(device_bytes(stage.servable) for stage in self._stages)

    def close(self) -> None:
        """Closes all stages, the last one first."""
        while self._stages:
            self._stages.pop().servable.close()


def _spread(spec: TensorSpec, tensors: Mapping[str, Array], at: Array | None, rows: int | None) -> Array:
    """An output whose rows lie where they were asked for; of rows that were refused nobody reads it."""
    given = tensors[spec.name] if at is not None and len(at) else None
    shape = [max(size, 1) for size in spec.shape[1:]] if given is None else given.shape[1:]
    text = spec.dtype == "string"
    whole = np.full((rows or 0, *shape), b"" if text else 0, dtype=object if text else spec.dtype)
    if given is not None:
        whole[at] = given
    return whole
