"""Models that were exported for one batch size only, run for any number of rows: in pieces, the last one padded.

The onnx, tensorflow and torch platforms use it for models that declare their shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from tidegate_serving.contract.signature import FirstAxis
from tidegate_serving.contract.tensors import Array

Shape = Sequence[Any]


def fixed_batch(inputs: Sequence[Shape], outputs: Sequence[Shape]) -> int | None:
    """The size of the first axis if it is one and the same whole number in every input, and no output has another.

    None for a batch of any size, and where the first axes do not show a batch at all. A size that is not known is no
    number above 0.
    """
    sizes = {_first(shape) for shape in inputs}
    given = {_first(shape) for shape in outputs if shape} - {None}
    if len(sizes) != 1 or not given <= sizes or any(not shape for shape in outputs):
        return None
    return sizes.pop()


def first_axis_of(inputs: Sequence[Sequence[int] | None], outputs: Sequence[Sequence[int] | None]) -> FirstAxis:
    """Whether shapes look as if the first axis of every tensor were the batch: of any size, or of one and the same.

    None is a shape of unknown rank, which an output may have.
    """
    sizes = {shape[0] if shape else None for shape in inputs}
    size = sizes.pop() if len(sizes) == 1 else None
    if size is None or size == 0 or any(shape is not None and shape[:1] not in ((-1,), (size,)) for shape in outputs):
        return FirstAxis.FREE
    return FirstAxis.ASSUMED


def in_pieces(
    run: Callable[[Mapping[str, Array]], Mapping[str, Any]],
    inputs: Mapping[str, Array],
    size: int,
    *,
    padded: bool = True,
) -> dict[str, Any]:
    """What `run` answers for all rows, asked with `size` rows at a time; a piece that is short repeats its last row,
    where pieces are to be `padded`.

    Inputs of exactly that size are answered as they are, and so are inputs without common rows.
    """
    lengths = {len(array) if array.ndim else None for array in inputs.values()}
    rows = lengths.pop()
    if lengths or rows is None or rows == size:
        return dict(run(inputs))
    answers = []
    for start in range(0, max(rows, 1), size):
        piece = {name: array[start : start + size] for name, array in inputs.items()}
        answers.append(run({name: _padded(array, size) for name, array in piece.items()} if padded else piece))
    return {name: np.concatenate([answer[name] for answer in answers])[:rows] for name in answers[0]}


def _padded(array: Array, size: int) -> Array:
    if len(array) == 0:
        return np.zeros((size, *array.shape[1:]), dtype=array.dtype)
    return array if len(array) == size else array[np.minimum(np.arange(size), len(array) - 1)]


def _first(shape: Shape) -> int | None:
    return shape[0] if shape and isinstance(shape[0], int) and shape[0] > 0 else None
