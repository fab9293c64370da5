"""Arrays of a log block as Arrow columns: tensors as nested lists, strings as text, failed rows as nulls.

The writer hands in numpy arrays, one entry per row; out come columns that DuckDB and PyArrow read without help.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pyarrow as pa

from tidegate_serving.contract.tensors import Array


def to_column(array: Array, missing: Array | None = None) -> Any:
    """An Arrow array with one entry per row: scalars, or nested lists for tensors of more axes.

    Rows where the boolean array `missing` is true become null. Strings (objects of `bytes`) become text, bytes that are
    not UTF-8 are written as `\\xNN`; float16 becomes float32, which every reader knows.
    """
    flat = _flat_column(array.reshape(-1))
    for axis in range(array.ndim - 1, 0, -1):
        flat = _grouped(flat, math.prod(array.shape[:axis]), array.shape[axis])
    return flat if missing is None or not missing.any() else _with_nulls(flat, missing)


def _flat_column(array: Array) -> Any:
    if array.dtype.kind == "O":
        return _text(array)
    if array.dtype == np.float16:
        array = array.astype(np.float32)
    return pa.array(array)


def _text(array: Array) -> Any:
    try:
        return pa.array(array, type=pa.binary()).cast(pa.string())
    except pa.ArrowInvalid:
        return pa.array([item.decode(errors="backslashreplace") for item in array.tolist()], type=pa.string())


def _grouped(values: Any, count: int, size: int) -> Any:
    return pa.ListArray.from_arrays(pa.array(np.arange(count + 1, dtype=np.int32) * size), values)


def _with_nulls(column: Any, missing: Array) -> Any:
    indices = np.arange(len(column))
    return column.take(pa.array(indices, mask=missing))
