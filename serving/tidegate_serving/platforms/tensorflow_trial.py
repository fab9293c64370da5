"""Shapes that a SavedModel does not tell: outputs of unknown rank, found by running the graph on made-up rows.

The tensorflow platform asks while it discovers signatures, for those whose inputs are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import Unsupported
from tidegate_serving.contract.signature import PREDICT, Signature, TensorSpec
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.tensorflow_session import error_of_op, import_tensorflow, prepared_run
from tidegate_serving.platforms.tensorflow_signatures import input_specs, output_dtypes

_ROWS = (2, 3)


def signature_by_trial(session: Any, definition: Any) -> Signature:
    """The signature, with outputs as two runs on zeros and empty strings gave them; an axis in which these differ is of
    any size. Unsupported where the graph refuses such rows, or gives something without a batch on axis 0.
    """
    inputs, dtypes = input_specs(definition), output_dtypes(definition)
    run = prepared_run(
        session,
        [definition.inputs[spec.name].name for spec in inputs],
        [definition.outputs[name].name for name in dtypes],
    )
    tries = [_shapes(run, inputs, rows) for rows in _ROWS]
    outputs = tuple(
        TensorSpec(name, dtype, _common(name, shapes))
        for (name, dtype), shapes in zip(dtypes.items(), zip(*tries, strict=True), strict=True)
    )
    return Signature(inputs, outputs, definition.method_name or PREDICT)


def _shapes(run: Any, inputs: Sequence[TensorSpec], rows: int) -> list[tuple[int, ...]]:
    try:
        return [np.shape(result) for result in run(*(_made_up(spec, rows) for spec in inputs))]
    except (import_tensorflow().errors.OpError, UnicodeDecodeError) as error:
        raise Unsupported(f"its outputs have an unknown rank, and no trial shows it: {error_of_op(error)}") from error


def _made_up(spec: TensorSpec, rows: int) -> Array:
    shape = (rows, *(1 if size < 0 else size for size in spec.shape[1:]))
    return np.full(shape, b"", dtype=object) if spec.dtype == "string" else np.zeros(shape, dtype=spec.dtype)


def _common(name: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...]:
    if len({len(shape) for shape in shapes}) != 1 or [shape[:1] for shape in shapes] != [(rows,) for rows in _ROWS]:
        raise Unsupported(f"output {name!r} had shape {[list(shape) for shape in shapes]} for {list(_ROWS)} rows")
    return (-1, *(sizes[0] if len(set(sizes)) == 1 else -1 for sizes in zip(*(s[1:] for s in shapes), strict=True)))
