"""The signature of a callable, from what its author says and, for the rest, from a trial run.

`Engine.serve` asks; specs may be given as dtypes, as numpy or Python types, with a shape, or by an example batch.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput, TidegateError
from tidegate_serving.contract.signature import DTYPES, FirstAxis, Signature, TensorSpec
from tidegate_serving.contract.tensors import Array
from tidegate_serving.contract.words import words_of
from tidegate_serving.embedded.callables import (
    WHOLE_BATCH,
    Model,
    how_to_call,
    is_generator,
    outputs_by_name,
    parameters,
)
from tidegate_serving.platforms.documents import documents_of
from tidegate_serving.platforms.loader import Answer

_TRIAL_ROWS = 2


def described(
    model: Model,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    example: Mapping[str, Any] | None = None,
) -> tuple[Model, Signature]:
    """What to call with a batch, and its signature: of documents where nothing is said and the model's parameter is
    annotated with a pydantic model or a list of one; else as `signature_of` finds it."""
    documents = documents_of(model) if inputs is None and outputs is None and example is None else None
    if documents is not None:
        return documents.answer, documents.signature()
    return model, signature_of(model, inputs, outputs, example)


def signature_of(
    model: Model,
    inputs: Mapping[str, Any] | None = None,
    outputs: Mapping[str, Any] | None = None,
    example: Mapping[str, Any] | None = None,
) -> Signature:
    """Inputs as given, else those of `example`, else the annotated parameters; outputs as given, else as a trial gives.

    The trial calls the model once, with `example` or with two rows of zeros and empty strings. Where a shape does not
    begin with -1, each request runs alone, and there is no trial; so it is with a generator, whose answer is a stream.
    Raises InvalidInput, saying what to add, where inputs
    cannot be known or the trial fails.
    """
    batch = {name: _as_batch(name, value) for name, value in (example or {}).items()}
    takes = _specs(inputs) if inputs is not None else _found_inputs(model, batch)
    gives = () if outputs is None else _specs(outputs)
    if is_generator(model):
        return _streaming(takes, gives)
    if whole := [spec.name for spec in (*takes, *gives) if spec.shape[:1] != (-1,)]:
        if not gives:
            raise InvalidInput(f"input {whole[0]!r} has no batch on its first axis: say the outputs too")
        return Signature(takes, gives, first_axis=FirstAxis.FREE)
    if gives:
        return Signature(takes, gives)
    return Signature(takes, _tried_outputs(model, takes, batch or {spec.name: _zeros(spec) for spec in takes}))


def _streaming(takes: tuple[TensorSpec, ...], gives: tuple[TensorSpec, ...]) -> Signature:
    if not gives:
        raise InvalidInput(
            "the callable is a generator: say the outputs of its messages too, each with dtype and shape"
        )
    return Signature(takes, gives, first_axis=FirstAxis.FREE, streaming=True)


def to_spec(name: str, value: Any) -> TensorSpec:
    """A spec from itself, a dtype (`"float32"`, `np.float32`, `float`, `str`), or a pair of dtype and whole shape."""
    if isinstance(value, TensorSpec):
        return value
    if isinstance(value, tuple) and len(value) == 2:
        dtype, shape = value
        return TensorSpec(name, _dtype(name, dtype), tuple(int(size) for size in shape))
    return TensorSpec(name, _dtype(name, value))


def _specs(given: Mapping[str, Any]) -> tuple[TensorSpec, ...]:
    return tuple(to_spec(name, value) for name, value in given.items())


def _dtype(name: str, value: Any) -> str:
    if isinstance(value, str) and value in DTYPES:
        return value
    if value in (str, bytes):
        return "string"
    try:
        found = np.dtype(value)
    except TypeError as error:
        raise InvalidInput(f"tensor {name!r} has type {value!r}: use one of {', '.join(DTYPES)}") from error
    return "string" if found.kind in "OSU" else found.name


def _found_inputs(model: Model, batch: Mapping[str, Array]) -> tuple[TensorSpec, ...]:
    if batch:
        return tuple(_spec_of(name, array) for name, array in batch.items())
    taken = parameters(model)
    unknown = [name for name, parameter in taken.items() if _annotated(parameter.annotation) is None]
    if unknown or not taken or list(taken) == [WHOLE_BATCH]:
        raise InvalidInput(
            f"the dtype of input {unknown[0] if unknown else WHOLE_BATCH!r} is not known: "
            'pass inputs={"x": "float32"} or example={"x": [1.0, 2.0]}, or annotate the only parameter with a pydantic '
            "model from the top of a module"
        )
    return tuple(TensorSpec(name, _annotated(parameter.annotation) or "") for name, parameter in taken.items())


def _annotated(annotation: Any) -> str | None:
    if annotation in DTYPES:
        return str(annotation)
    if isinstance(annotation, type) and issubclass(annotation, np.generic | float | int | str | bytes):
        return _dtype(annotation.__name__, annotation)
    return {"float": "float64", "int": "int64", "bool": "bool", "str": "string", "bytes": "string"}.get(annotation)


def _as_batch(name: str, value: Any) -> Array:
    array = np.asarray(value)
    if array.ndim == 0:
        raise InvalidInput(f"the example of {name!r} is {value!r}: give a batch, such as [{value!r}]")
    return _as_bytes(array) if array.dtype.kind in "OSU" else array


def _as_bytes(array: Array) -> Array:
    made = np.empty(array.size, dtype=object)
    made[:] = [item if isinstance(item, bytes) else str(item).encode() for item in array.ravel().tolist()]
    return made.reshape(array.shape)


def _spec_of(name: str, array: Array) -> TensorSpec:
    return TensorSpec(name, _dtype(name, array.dtype), (-1, *array.shape[1:]))


def _zeros(spec: TensorSpec) -> Array:
    shape = (_TRIAL_ROWS, *(max(size, 1) for size in spec.shape[1:]))
    return np.full(shape, b"", dtype=object) if spec.dtype == "string" else np.zeros(shape, spec.dtype)


def _tried_outputs(model: Model, takes: tuple[TensorSpec, ...], batch: Mapping[str, Array]) -> tuple[TensorSpec, ...]:
    call = how_to_call(model, [spec.name for spec in takes])
    cure = "pass outputs= as well, or an example= that it can answer"
    try:
        result = outputs_by_name(call({name: array.copy() for name, array in batch.items()}), ())
    except TidegateError:
        raise
    except Exception as error:
        raise InvalidInput(f"a trial of the callable raised {words_of(error)}; {cure}") from error
    found = result.outputs if isinstance(result, Answer) else result
    rows = {array.shape[0] for array in batch.values()}
    open_shape = any(size == -1 for spec in takes for size in spec.shape[1:])
    return tuple(_output_spec(name, np.asarray(value), rows, open_shape, cure) for name, value in found.items())


def _output_spec(name: str, array: Array, rows: set[int], open_shape: bool, cure: str) -> TensorSpec:
    if array.shape[:1] != tuple(rows):
        raise InvalidInput(
            f"a trial of the callable with {', '.join(map(str, sorted(rows)))} rows gave output {name!r} of shape "
            f"{list(array.shape)}: the first axis must be the batch; mend it, or {cure}"
        )
    inner = [-1 if open_shape else size for size in array.shape[1:]]
    return TensorSpec(name, _dtype(name, array.dtype), (-1, *inner))
