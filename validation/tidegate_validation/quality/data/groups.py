"""Groups of examples that belong together, so that an interval does not count the rows of one day or user as many."""

from __future__ import annotations

import zlib
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.statistics.arrays import Integers
from tidegate_validation.statistics.blocks import SECONDS
from tidegate_validation.tables import seconds_of

ENOUGH_DAYS = 20
BUCKETS = 40


@dataclass(frozen=True, slots=True)
class Grouping:
    """A group number per row from 0 on, `words` for what a group is, whether groups are more than random buckets.

    `members` numbers the entities of which a group holds several, None where groups are what belongs together;
    `members_are` says what is counted then.
    """

    numbers: Integers
    words: str
    clustered: bool
    members: Integers | None = None
    members_are: str = "groups"


def groups_of(table: Any, event_time: str | None, entity: str | None) -> Grouping:
    """The groups of a pyarrow.Table: buckets of `entity`, a column whose equal values belong together; else days where
    there are enough, else random buckets.

    Raises InvalidInput for an entity that is no column.
    """
    if entity:
        if entity not in table.column_names:
            raise InvalidInput(f"entity {entity!r} is no column of the held-out data: it has {table.column_names}")
        codes = _codes(table[entity])
        together = bool(np.bincount(codes).max() > 1)
        words = f"{BUCKETS} buckets of `{entity}`"
        return Grouping(_buckets(table[entity], codes), words, together, codes, f"values of `{entity}`")
    days = _days(table, event_time)
    if days is not None:
        names, place = np.unique(days, return_inverse=True)
        if len(names) >= ENOUGH_DAYS:
            return Grouping(np.asarray(place, dtype=np.int64), f"{len(names)} days", clustered=True, members_are="days")
    return Grouping(
        np.random.default_rng(11).integers(0, BUCKETS, table.num_rows), f"{BUCKETS} random buckets", clustered=False
    )


def queries_of(table: Any, column: str) -> Integers:
    """The number of each row's query. Raises InvalidInput for a column that is not there."""
    if column not in table.column_names:
        raise InvalidInput(f"quality.group names column {column!r}, which held-out data lacks")
    return _codes(table[column])


def _codes(column: Any) -> Integers:
    encoded = column.combine_chunks().dictionary_encode(null_encoding="encode")
    return np.asarray(encoded.indices.to_numpy(zero_copy_only=False), dtype=np.int64)


def _buckets(column: Any, codes: Integers) -> Integers:
    """Buckets by a hash of the value, so that they stay the same in other data."""
    values = column.combine_chunks().dictionary_encode(null_encoding="encode").dictionary.to_pylist()
    return np.array([zlib.crc32(str(value).encode()) % BUCKETS for value in values], dtype=np.int64)[codes]


def _days(table: Any, event_time: str | None) -> Integers | None:
    if event_time is None or event_time not in table.column_names:
        return None
    return np.asarray(np.nan_to_num(seconds_of(table[event_time])) // SECONDS, dtype=np.int64)
