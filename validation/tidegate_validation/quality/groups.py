"""Groups of examples that belong together, so that intervals do not take one day's or one user's rows for many.

The quality gate makes them once from the held-out table; metrics leave out one group at a time.
"""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegate_validation.statistics.blocks import SECONDS

ENOUGH_DAYS = 20
BUCKETS = 40


def groups_of(table: Any, event_time: str | None, entity: str | None) -> tuple[npt.NDArray[np.int64], str]:
    """A group number per row of a pyarrow.Table, and in words what a group is."""
    if entity is not None and entity in table.column_names:
        values = [zlib.crc32(str(value).encode()) % BUCKETS for value in table[entity].to_pylist()]
        return np.array(values, dtype=np.int64), f"{BUCKETS} buckets of `{entity}`"
    days = _days(table, event_time)
    if days is not None and len(np.unique(days)) >= ENOUGH_DAYS:
        return days, f"{len(np.unique(days))} days"
    return np.random.default_rng(11).integers(0, BUCKETS, table.num_rows), f"{BUCKETS} random buckets"


def _days(table: Any, event_time: str | None) -> npt.NDArray[np.int64] | None:
    import pyarrow as pa

    if event_time is None or event_time not in table.column_names:
        return None
    column = table[event_time]
    if pa.types.is_timestamp(column.type):
        seconds = column.cast(pa.timestamp("us")).cast(pa.int64()).to_numpy().astype(np.float64) / 1e6
    else:
        seconds = column.to_numpy().astype(np.float64)
    return np.asarray(np.nan_to_num(seconds) // SECONDS, dtype=np.int64)
