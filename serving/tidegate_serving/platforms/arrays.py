"""Small conversions between a batch's arrays and what models take: columns as matrices, bytes as text."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.tensors import Array


def as_matrix(array: Array, rank: int) -> Array:
    """A column of shape [n] as [n, 1] where the model takes `rank` 2."""
    return array[:, np.newaxis] if array.ndim == 1 and rank == 2 else array


def as_column(array: Array, rank: int) -> Array:
    """A matrix of shape [n, 1] as [n] where the signature has `rank` 1."""
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 and rank == 1 else array


def as_text(name: str, array: Array) -> Array:
    """The array of input `name` with `str` for `bytes`, of the same shape; one that holds no objects as it is.

    InvalidInput, naming the input, for bytes that are not UTF-8.
    """
    if array.dtype.kind != "O":
        return array
    made = np.empty(array.size, dtype=object)
    try:
        made[:] = [item.decode() if isinstance(item, bytes) else item for item in array.ravel().tolist()]
    except UnicodeDecodeError as error:
        raise InvalidInput(f"input {name!r} holds a string that is not UTF-8: {error}") from error
    return made.reshape(array.shape)


def text_column(texts: Array, *, empty_is_missing: bool) -> Any:
    """Texts of shape [n] as a column of the dtype that this release of pandas gives texts (`str`, before pandas 3
    `object`), with NaN for empty ones where these are missing.

    Left to itself pandas decides by the batch: a column of which all is missing would be no column of texts.
    """
    import pandas

    values = texts.copy()
    if empty_is_missing:
        values[texts == ""] = np.nan
    return pandas.Series(values, dtype=pandas.Series([""]).dtype).array
