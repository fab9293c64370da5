"""Names for the kinds of numpy arrays that statistics and gates pass around, and how rows are put into groups."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

if TYPE_CHECKING:
    import pyarrow as pa

Floats = npt.NDArray[np.float64]
Integers = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]
_CLOSE = 50_000
"""So many places more than there are rows cost less than sorting these."""


def places_of(values: Integers) -> tuple[Integers, Integers]:
    """Distinct values, ascending, and the place of each value among them; without sorting where they lie close."""
    if not len(values) or int(values.max()) - int(values.min()) > _CLOSE + len(values):
        found, place = np.unique(values, return_inverse=True)
        return found, place.astype(np.int64)
    from_least = values - values.min()
    there = np.bincount(from_least) > 0
    return np.flatnonzero(there) + values.min(), (np.cumsum(there) - 1)[from_least]


def to_numpy(column: pa.ChunkedArray | pa.Array, missing: float = np.nan) -> npt.NDArray[Any]:
    """Numbers of 8 bytes, or of 1 or 4, with `missing` for nulls; pyarrow's own way imports pandas, which takes as long
    as a report."""
    import pyarrow as pa

    whole = pa.concat_arrays(column.chunks) if isinstance(column, pa.ChunkedArray) and column.num_chunks else column
    if not len(whole):
        return np.empty(0)
    kind = np.float64 if pa.types.is_float64(whole.type) else np.dtype(str(whole.type))
    found = np.frombuffer(whole.buffers()[1], dtype=kind)[whole.offset : whole.offset + len(whole)]
    if whole.null_count:
        found = np.where(to_numpy(whole.is_null().cast(pa.uint8())) > 0, missing, found)
    return found
