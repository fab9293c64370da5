"""Columns that hold a list of numbers in each row, such as embeddings: measured as a few plain numbers.

Each row is measured by how many numbers it has, their length as a vector, some of them, and where it lies along a few
fixed random directions, in which vectors that were turned, or made by another model, lie elsewhere. Lists of all
lengths, such as the ids of what somebody bought, are no vectors: of these, some single numbers are measured. A profile
keeps what training's measures looked like as a profile of its own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any

import numpy as np

from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.counting import types_of
from tidegate_validation.statistics.profile import Profile
from tidegate_validation.statistics.sql import quote
from tidegate_validation.statistics.window import Window

if TYPE_CHECKING:
    import pyarrow as pa

NUMBERS = "numbers"
NORM = "norm"
FIRST, LAST, LOWEST, HIGHEST = "first number", "last number", "lowest number", "highest number"
BLOCK = "tidegate block"
MOST_ROWS = 100_000
_NUMBER = "number "
_SHOWN = 8
_DIRECTIONS = 8
_AT_ONCE = 20_000
_NEARLY_ALL = 0.9
_TYPE = re.compile(r"(FLOAT|REAL|DOUBLE|U?(TINY|SMALL|BIG)INT|U?INTEGER|DECIMAL\(.*\))\[\d*\]")
_RELATION = "tidegate_measures"


def is_vector(sql_type: str) -> bool:
    """Whether a DuckDB type is a list of numbers."""
    return _TYPE.fullmatch(sql_type.upper()) is not None


def width_of(known: Profile) -> int | None:
    """How many numbers nearly all of training's rows had, by what its column was measured by, the last of them always;
    0 where no row had any, None for lists of all lengths."""
    if LOWEST in known.features:
        return None
    return max((int(name.removeprefix(_NUMBER)) + 1 for name in known.features if name.startswith(_NUMBER)), default=0)


def measures_of(column: pa.ChunkedArray, known: Profile | None = None) -> dict[str, Floats]:
    """The measures of each row, float64 of shape [n]; NaN where a row has none. Those that are `known` of training, if
    it is.

    Single numbers and directions are those of rows with as many numbers as nearly all rows have.
    """
    import pyarrow.compute as pc

    sizes = np.nan_to_num(np.asarray(pc.list_value_length(column).to_numpy(), dtype=np.float64)).astype(np.int64)
    flat = np.asarray(pc.list_flatten(column).cast("float64", safe=False).to_numpy(), dtype=np.float64)
    there = sizes > 0
    rows = np.repeat(np.arange(len(sizes)), sizes)
    found = {NUMBERS: np.where(there, sizes, np.nan).astype(np.float64)}
    width = _usual_width(sizes[there]) if known is None else width_of(known)
    if width is None:
        return {**found, **_of_lists(flat, sizes)}
    norm = _to_five_digits(np.sqrt(np.bincount(rows, weights=flat**2, minlength=len(sizes))))
    found[NORM] = np.where(there, norm, np.nan)
    if not width or not there.any():
        return found
    whole = sizes == width
    matrix = flat[whole[rows]].reshape(-1, width)
    shown = np.unique(np.linspace(0, width - 1, min(width, _SHOWN)).astype(np.int64))
    directions = np.random.default_rng(width).normal(size=(width, _DIRECTIONS)) / width**0.5
    along = np.concatenate(
        [matrix[start : start + _AT_ONCE] @ directions for start in range(0, len(matrix) or 1, _AT_ONCE)]
    )
    for name, values in (
        *((f"{_NUMBER}{place}", matrix[:, place]) for place in shown.tolist()),
        *((f"direction {place}", along[:, place]) for place in range(_DIRECTIONS)),
    ):
        found[name] = np.full(len(sizes), np.nan)
        found[name][whole] = values
    return found


def _usual_width(sizes: Integers) -> int | None:
    """How many numbers nearly all rows have; 0 where there are no rows, None where they have as many as they like."""
    if not len(sizes):
        return 0
    rows = np.bincount(sizes)
    return int(rows.argmax()) if rows.max() >= _NEARLY_ALL * len(sizes) else None


def _of_lists(flat: Floats, sizes: Integers) -> dict[str, Floats]:
    """Single numbers of each list; NaN where it has none."""
    there = sizes > 0
    ends = np.cumsum(sizes)[there]
    starts = ends - sizes[there]
    told = {name: np.full(len(sizes), np.nan) for name in (FIRST, LAST, LOWEST, HIGHEST)}
    if len(starts):
        told[FIRST][there], told[LAST][there] = flat[starts], flat[ends - 1]
        told[LOWEST][there], told[HIGHEST][there] = np.minimum.reduceat(flat, starts), np.maximum.reduceat(flat, starts)
    return told


def _to_five_digits(values: Floats) -> Floats:
    """As many as 32-bit floats keep of a sum: vectors of length 1 all have it."""
    places = 4 - np.floor(np.log10(np.where(values > 0, values, 1.0)))
    return np.asarray(np.round(values * 10.0**places) / 10.0**places)


def measured(connection: Any, relation: str, block: str, column: str, known: Profile | None = None) -> pa.Table:
    """The measures of a column of `relation` (SQL text) with the block of each row, those that are `known` of training
    if it is; a repeatable sample where there are very many rows."""
    import pyarrow as pa

    found = connection.sql(
        f"SELECT {block} AS b, {quote(column)} AS v FROM {relation} "
        f"USING SAMPLE reservoir({MOST_ROWS} ROWS) REPEATABLE (7)"
    ).to_arrow_table()
    return pa.table({**measures_of(found["v"], known), BLOCK: found["b"].cast("int64")})


@contextmanager
def measured_window(beside: Any, table: pa.Table) -> Iterator[Window]:
    """The measures of one column of a window, with the block of each row, as a window with names of its own in the
    database of the connection `beside`."""
    with beside.cursor() as connection:
        connection.register(_RELATION, table)
        names = [name for name in table.column_names if name != BLOCK]
        types = types_of(connection, _RELATION)
        yield Window(connection, _RELATION, types, {one: one for one in names}, quote(BLOCK), table.num_rows)
