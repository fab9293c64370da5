"""Time blocks, the unit in which counts are kept, since rows of one day resemble each other: days, or chunks."""

from __future__ import annotations

import enum
from collections.abc import Mapping

from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.statistics.sql import Family, as_number, family

SECONDS = 86_400
ROW_CHUNKS = 30
MOST_CHUNKS = 360
ROW_INDEX = "tidegate row index"


class BlockUnit(enum.StrEnum):
    """What one block is: a day (UTC) of the event time, or an equal chunk of rows in the order in which they came."""

    DAY = "day"
    ROWS = "rows"


def day_of(column: str, types: Mapping[str, str]) -> str:
    """SQL for the day number since 1970 of a column of Unix seconds or timestamps; rows without a time get day 0.

    Raises InvalidInput for a column that is not there or is no time.
    """
    if column not in types:
        raise InvalidInput(f"event time {column!r} is not among the columns {sorted(types)}: name one that is, or none")
    kind = family(types[column])
    if kind not in (Family.TIME, Family.INTEGER, Family.FLOAT):
        raise InvalidInput(f"event time {column!r} has type {types[column]}: give Unix seconds or timestamps")
    number = as_number(column, types[column])
    return f"coalesce(TRY_CAST(floor({number} / {SECONDS}) AS BIGINT), 0)"


def chunk_of(rows: int, window: int | None = None) -> str:
    """SQL for the chunk of a row among training's `rows` rows, by the column ROW_INDEX: ROW_CHUNKS of them, or more
    where a `window` of so many rows is shorter than that, since what holds for all of a short window, such as one
    weekday, must be seen to hold for chunks of training too."""
    chunks = ROW_CHUNKS if window is None else min(max(round(rows / window), ROW_CHUNKS), MOST_CHUNKS)
    return _chunk(rows, chunks)


def window_chunk_of(rows: int, like: float | None) -> str:
    """SQL for the chunk of a row among the `rows` of a window: of about `like` rows each, as a block of training has,
    or ROW_CHUNKS of them.

    Where rows come at the same pace such chunks span the same time, and a window that is shorter than a block of
    training is one observation of how blocks differ, however many rows it has.
    """
    return _chunk(rows, ROW_CHUNKS if like is None else min(max(round(rows / like), 1), ROW_CHUNKS))


def _chunk(rows: int, chunks: int) -> str:
    return f'CAST(floor("{ROW_INDEX}" * {chunks} / {max(rows, 1)}) AS BIGINT)'
