"""Shapes that a SavedModel does not tell: outputs of unknown rank, found by running the graph on made-up rows.

Done while signatures are discovered, for those whose inputs are known.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tidegate_serving.contract.signature import FirstAxis, Signature, TensorSpec
from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.tensorflow.session import import_tensorflow, prepared_run
from tidegate_serving.platforms.tensorflow.signatures import batch_of, output_dtypes

_ROWS = (2, 3)


def signature_by_trial(session: Any, definition: Any, told: Signature) -> Signature:
    """The signature, with outputs as two runs on zeros and empty strings gave them; an axis in which these differ is of
    any size. Where outputs have no batch on axis 0, each request is to run alone; where the graph refuses such rows,
    outputs keep their unknown rank.
    """
    inputs, dtypes = told.inputs, output_dtypes(definition)
    run = prepared_run(
        session,
        [definition.inputs[spec.name].name for spec in inputs],
        [definition.outputs[name].name for name in dtypes],
    )
    exported_for = batch_of(definition)
    try:
        tries = [_shapes(run, inputs, rows) for rows in ((exported_for,) if exported_for else _ROWS)]
    except (import_tensorflow().errors.OpError, UnicodeDecodeError):
        return told
    rows = (exported_for,) if exported_for else _ROWS
    shapes = [_common(given, rows) for given in zip(*tries, strict=True)]
    if any(shape is None for shape in shapes):
        return replace(told, first_axis=FirstAxis.FREE)
    outputs = (
        TensorSpec(name, dtype, shape or ()) for (name, dtype), shape in zip(dtypes.items(), shapes, strict=True)
    )
    return replace(told, outputs=tuple(outputs))


def _shapes(run: Any, inputs: Sequence[TensorSpec], rows: int) -> list[tuple[int, ...]]:
    return [np.shape(result) for result in run(*(_made_up(spec, rows) for spec in inputs))]


def _made_up(spec: TensorSpec, rows: int) -> Array:
    shape = (rows, *(1 if size < 0 else size for size in spec.shape[1:]))
    return np.full(shape, b"", dtype=object) if spec.dtype == "string" else np.zeros(shape, dtype=spec.dtype)


def _common(shapes: Sequence[tuple[int, ...]], rows: Sequence[int]) -> tuple[int, ...] | None:
    """What the shapes of an output have in common, after the batch; None where they have none."""
    if len({len(shape) for shape in shapes}) != 1 or [shape[:1] for shape in shapes] != [(size,) for size in rows]:
        return None
    return (-1, *(sizes[0] if len(set(sizes)) == 1 else -1 for sizes in zip(*(s[1:] for s in shapes), strict=True)))
