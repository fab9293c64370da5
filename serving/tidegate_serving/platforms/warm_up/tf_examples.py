"""tf.Examples as a signature's inputs: serialised, as one column of strings, or parsed into named columns.

TensorFlow graphs parse examples themselves; every other platform gets columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.signature import FirstAxis, Signature, TensorSpec
from tidegate_serving.contract.tensors import Array

_SERIALISED_NAME = "inputs"
_METHODS = ("tensorflow/serving/classify", "tensorflow/serving/regress")


def inputs_from_examples(signature: Signature, data: Any) -> dict[str, Array]:
    """Inputs for an `Input` message; features of its context stand in for those that an example lacks.

    InvalidInput where it holds no examples, or a feature is missing or of another type.
    """
    examples = _serialised(data)
    if not examples:
        raise InvalidInput("Input is empty: a classify or regress request needs examples")
    if parses_examples(signature):
        column = np.empty(len(examples), dtype=object)
        column[:] = examples
        return {signature.inputs[0].name: column}
    parsed = [message("tensorflow.Example").FromString(example).features.feature for example in examples]
    return {spec.name: _column(spec, parsed) for spec in signature.inputs}


def parses_examples(signature: Signature) -> bool:
    """Whether the model takes serialised tf.Examples, as the data plane has it: its only input is a column of strings,
    and called `inputs` or of a signature that was made to classify or regress.
    """
    first, *others = signature.inputs
    by_rows = signature.first_axis is not FirstAxis.FREE and (first.unknown_rank or len(first.shape) == 1)
    if others or first.dtype != "string" or not by_rows:
        return False
    return first.name == _SERIALISED_NAME or signature.method_name in _METHODS


def _serialised(data: Any) -> list[bytes]:
    if data.WhichOneof("kind") == "example_list_with_context":
        held = data.example_list_with_context
        context = held.context.SerializeToString()
        return [context + example.SerializeToString() for example in held.examples]
    return [example.SerializeToString() for example in data.example_list.examples]


def _column(spec: TensorSpec, examples: Sequence[Any]) -> Array:
    rows = [_values(spec, example) for example in examples]
    inner = spec.shape[1:]
    try:
        if spec.dtype == "string":
            made = np.empty(len(rows) * len(rows[0]), dtype=object)
            made[:] = [value for row in rows for value in row]
        else:
            made = np.array(rows).astype(spec.dtype)
        return made.reshape((len(rows), *inner))
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"feature {spec.name!r} does not fit {spec.dtype} {list(spec.shape)}: {error}") from error


def _values(spec: TensorSpec, example: Any) -> Sequence[Any]:
    if spec.name not in example or (kind := example[spec.name].WhichOneof("kind")) is None:
        raise InvalidInput(f"feature {spec.name!r} is missing in an example: add it to each")
    if (kind == "bytes_list") != (spec.dtype == "string"):
        raise InvalidInput(f"feature {spec.name!r} is a {kind}, the model takes {spec.dtype}")
    values: Sequence[Any] = getattr(example[spec.name], kind).value
    return values
