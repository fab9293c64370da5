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
_REPEATED = 4
"""Where each value comes as often as this, a table of values is small enough to be looked up in."""


def places_of(values: Integers) -> tuple[Integers, Integers]:
    """Distinct values, ascending, and the place of each value among them; without sorting where they lie close."""
    if not len(values) or int(values.max()) - int(values.min()) > _CLOSE + len(values):
        found, place = np.unique(values, return_inverse=True)
        return found, place.astype(np.int64)
    from_least = values - values.min()
    there = np.bincount(from_least) > 0
    return np.flatnonzero(there) + values.min(), (np.cumsum(there) - 1)[from_least]


def order_of_places(places: Integers) -> Integers:
    """Which rows come place by place, those of one place in their order; by digits where all places have 16 bits."""
    few = len(places) and int(places.max()) <= np.iinfo(np.uint16).max
    return np.argsort(places.astype(np.uint16) if few else places, kind="stable")


def largest(values: Floats, most: int) -> Integers:
    """Where the `most` largest values are, the largest first, equal ones in their order."""
    if len(values) <= most:
        return np.argsort(-values, kind="stable")
    limit = np.partition(values, len(values) - most)[len(values) - most]
    above = np.flatnonzero(values > limit)
    return np.concatenate([above[np.argsort(-values[above], kind="stable")], np.flatnonzero(values == limit)])[:most]


def places_of_numbers(values: Floats) -> tuple[Floats, Integers]:
    """The same of finite numbers, none of which is a negative zero."""
    import pyarrow as pa
    import pyarrow.compute as pc

    values = np.ascontiguousarray(values)
    ordered = np.sort(values)
    found = ordered[new_ones(ordered)]
    if 0 < len(found) * _REPEATED <= len(values):  # Looking each row's value up costs less than where it came from.
        known = pc.dictionary_encode(pa.Array.from_buffers(pa.float64(), len(values), [None, pa.py_buffer(values)]))
        return found, np.searchsorted(found, to_numpy(known.dictionary))[to_numpy(known.indices)]
    rows = np.argsort(values)
    place = np.empty(len(values), dtype=np.int64)
    place[rows] = np.cumsum(new_ones(ordered)) - 1
    return found, place


def new_ones(ordered: npt.NDArray[Any]) -> Mask:
    """Which values differ from the one before."""
    new = np.ones(len(ordered), dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=new[1:])
    return new


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
