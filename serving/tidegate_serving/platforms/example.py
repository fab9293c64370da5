"""The manifest's example row as tensors, so that a version is warm before anybody asks it.

The loader runs it once before a version becomes AVAILABLE; a model that cannot answer its own example does not load.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_serving.contract.tensors import Array


def example_inputs(signature: Signature, example: Mapping[str, Any]) -> dict[str, Array] | None:
    """One row per input, or None where the example does not name every input of the signature.

    Raises InvalidInput for a value that is not of its input's dtype and shape.
    """
    if any(spec.name not in example for spec in signature.inputs):
        return None
    return {spec.name: one_row(spec, example[spec.name]) for spec in signature.inputs}


def one_row(spec: TensorSpec, value: Any) -> Array:
    """One row of an input, None as NaN. InvalidInput for a value that is not of its dtype and shape."""
    shape = (1, *np.shape(value))
    try:
        if spec.dtype == "string":
            items = np.empty(int(np.prod(shape)), dtype=object)
            items[:] = [str(item).encode() for item in np.ravel(np.asarray(value, dtype=object)).tolist()]
            array: Array = items.reshape(shape)
        else:
            plain = np.asarray(np.nan if value is None else value)
            array = plain.astype(spec.dtype).reshape(shape)
    except (TypeError, ValueError) as error:
        raise InvalidInput(f"the manifest's example of {spec.name!r} is no {spec.dtype}: {value!r}") from error
    if len(shape) != len(spec.shape):
        raise InvalidInput(f"the manifest's example of {spec.name!r} has shape {list(shape)}, not {list(spec.shape)}")
    return array
