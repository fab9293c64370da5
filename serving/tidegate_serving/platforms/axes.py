"""The one liberty between a signature and a model: a column of shape [-1] is the model's matrix [-1, 1], and back.

Platforms whose models want matrices, such as onnx and tensorflow, feed and give arrays through here.
"""

from __future__ import annotations

import numpy as np

from tidegate_serving.contract.tensors import Array


def as_matrix(array: Array, rank: int) -> Array:
    """A column with an axis more where the model wants `rank` 2."""
    return array[:, np.newaxis] if array.ndim == 1 and rank == 2 else array


def as_column(array: Array, rank: int) -> Array:
    """A matrix of one column with an axis less where the signature wants `rank` 1."""
    return array[:, 0] if array.ndim == 2 and array.shape[1] == 1 and rank == 1 else array
