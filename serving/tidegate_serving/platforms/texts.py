"""Strings of a batch as models in Python take them: `str`, where the wire has bytes.

Platforms hand in an input's array before they ask the model.
"""

from __future__ import annotations

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.tensors import Array


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
