"""The manifest's example row as tensors, and what stands in for inputs that a request leaves out."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.example_bytes import to_bytes
from tidegate_serving.contract.signature import FirstAxis, Signature, TensorSpec
from tidegate_serving.contract.tensors import PARTS, Array, from_parts


def example_inputs(signature: Signature, example: Mapping[str, Any]) -> dict[str, Array] | None:
    """One row per input, a whole tensor where no axis is the batch, or None where the example does not name every
    input of the signature.

    Raises InvalidInput for a value that is not of its input's dtype and shape.
    """
    if any(spec.name not in example for spec in signature.inputs):
        return None
    whole = signature.first_axis is FirstAxis.FREE
    return {spec.name: one_row(spec, example[spec.name], whole) for spec in signature.inputs}


def default_array(signature: Signature, name: str) -> Array:
    """What stands in for an input that a request leaves out. InvalidInput where it does not fit the input."""
    spec = next(spec for spec in signature.inputs if spec.name == name)
    array = _array(spec, signature.defaults[name])
    if not spec.unknown_rank and array.ndim != len(spec.shape):
        raise InvalidInput(f"the default of {name!r} has shape {list(array.shape)}, not {list(spec.shape)}")
    return array


def _array(spec: TensorSpec, value: Any) -> Array:
    try:
        if spec.dtype in PARTS:
            return from_parts(value, spec.dtype)
        if spec.dtype != "string":
            return np.asarray(value).astype(spec.dtype)
        nested = np.asarray(value, dtype=object)
        made = np.empty(nested.size, dtype=object)
        made[:] = [
            item if isinstance(item, bytes) else str(item).encode(errors="surrogateescape")
            for item in nested.ravel().tolist()
        ]
        return made.reshape(nested.shape)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the default of {spec.name!r} is no {spec.dtype}: {value!r}") from error


def one_row(spec: TensorSpec, value: Any, whole: bool = False) -> Array:
    """One row of an input, None as NaN, or with `whole` the input itself. InvalidInput for a value that is not of its
    dtype and shape.
    """
    shape = np.shape(value) if whole else (1, *np.shape(value))
    try:
        if spec.dtype in PARTS:
            value, shape = from_parts(value, spec.dtype), shape[:-1]
        if spec.dtype == "string":
            items = np.empty(int(np.prod(shape)), dtype=object)
            items[:] = [to_bytes(item) for item in np.ravel(np.asarray(value, dtype=object)).tolist()]
            array: Array = items.reshape(shape)
        else:
            plain = np.asarray(np.nan if value is None else value)
            array = plain.astype(spec.dtype).reshape(shape)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the manifest's example of {spec.name!r} is no {spec.dtype}: {value!r}") from error
    if len(shape) != len(spec.shape) and not spec.unknown_rank:
        raise InvalidInput(f"the manifest's example of {spec.name!r} has shape {list(shape)}, not {list(spec.shape)}")
    return array
