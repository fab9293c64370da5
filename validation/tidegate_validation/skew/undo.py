"""Takes back what a cause says was done to a column, row by row, where that can be taken back at all."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from tidegate_validation.skew.diagnosis.categories import RENAMED, RESPELLED
from tidegate_validation.skew.diagnosis.cause import AFFINE, FACTOR, OFFSET
from tidegate_validation.skew.diagnosis.clock import CLOCK, DAY_HOURS
from tidegate_validation.skew.diagnosis.rivals import OTHER_COLUMN

if TYPE_CHECKING:
    import pyarrow as pa

_ALL_ROWS = 0.9


def undone(rows: pa.Table, causes: Mapping[str, Mapping[str, Any]]) -> tuple[pa.Table, tuple[str, ...]]:
    """The rows with each column as it was before what its cause (a finding's) did, and the columns that were mended.

    Left alone are causes that lose what was there, such as a cut-off, and those that reach some rows nobody can tell.
    """
    mended = rows
    done = []
    for name, cause in causes.items():
        column = _before(rows, name, cause, causes) if name in rows.column_names else None
        if column is not None:
            mended = mended.set_column(mended.column_names.index(name), name, _whole(column, rows[name]))
            done.append(name)
    return mended, tuple(done)


def _whole(column: pa.ChunkedArray, came: pa.ChunkedArray) -> pa.ChunkedArray:
    """Whole numbers where whole numbers came."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_integer(came.type) and pa.types.is_floating(column.type):
        return pc.cast(pc.round(column), pa.int64())
    return column


def _before(
    rows: pa.Table, name: str, cause: Mapping[str, Any], causes: Mapping[str, Mapping[str, Any]]
) -> pa.ChunkedArray | None:
    import pyarrow as pa
    import pyarrow.compute as pc

    kind, column = cause.get("kind"), rows[name]
    where = cause.get("where")
    if where is not None and where["column"] not in rows.column_names:
        return None
    if kind in (FACTOR, OFFSET, AFFINE) and (where is not None or float(cause.get("share", 1.0)) >= _ALL_ROWS):
        came = pc.cast(column, pa.float64())
        values = pc.subtract(came, float(cause.get("offset", 0.0)))
        before = pc.divide(values, float(cause.get("factor", 1.0)))
        return before if where is None else pc.if_else(_holds(rows[where["column"]], where["value"]), before, came)
    if kind == CLOCK:
        hour = int(cause.get("per_hour", 1))
        values = pc.subtract(pc.cast(column, pa.float64()), hour * float(cause["offset"]))
        return pc.subtract(values, pc.multiply(pc.floor(pc.divide(values, hour * DAY_HOURS)), hour * DAY_HOURS))
    if kind in (RENAMED, RESPELLED):
        texts = pc.cast(column, pa.string())
        for old, new in cause["spellings"] if kind == RESPELLED else [(cause["old"], cause["new"])]:
            texts = pc.if_else(pc.equal(texts, str(new)), str(old), texts)
        return texts
    if kind == OTHER_COLUMN:
        return _swapped_back(rows, name, causes)
    return None


def _holds(column: pa.ChunkedArray, value: str) -> pa.ChunkedArray:
    """Which rows hold a category, as causes tell it: whole numbers, but not texts, have no point there."""
    import pyarrow as pa
    import pyarrow.compute as pc

    texts = pc.cast(column, pa.string())
    if pa.types.is_floating(column.type) or pa.types.is_decimal(column.type):
        texts = pc.replace_substring_regex(texts, r"\.0$", "")
    return pc.fill_null(pc.equal(texts, value), False)


def _swapped_back(rows: pa.Table, name: str, causes: Mapping[str, Mapping[str, Any]]) -> pa.ChunkedArray | None:
    """What the column held is where another one says that it holds it."""
    for other, cause in causes.items():
        if cause.get("kind") == OTHER_COLUMN and cause.get("column") == name and other in rows.column_names:
            return rows[other]
    return None
