"""The column of event times, in whatever way a table writes it, as one that can be read: stamps, or Unix seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.statistics.arrays import Floats, to_numpy
from tidegate_validation.statistics.relation import Relation, connected, relation_of_table
from tidegate_validation.statistics.sql import Family, as_number, family, quote

if TYPE_CHECKING:
    import pyarrow as pa

_UNITS = ((1e11, 1), (1e14, 1_000), (1e17, 1_000_000), (float("inf"), 1_000_000_000))
"""Numbers below each of these are seconds, milliseconds, microseconds and nanoseconds since 1970: as seconds the first
would be the year 5138."""
_STRAY = 0.1
"""Numbers below this part of the smallest of a unit are of another one, or a zero that stands for nothing: in
milliseconds they would lie before May 1970."""
_FIRST_DAY, _LAST_DAY = 19000101, 21001231


def with_times(relation: Relation, time: str | None, what: str) -> Relation:
    """The relation with `time` as time stamps or Unix seconds: of texts those of ISO 8601 are read, UTC where they have
    no zone, and numbers in the unit that most of them have by their size, or as days where most are written YYYYMMDD.
    Numbers that are of another unit are no times, null here. `what` names it in messages.

    InvalidInput where it holds no times at all, or something else.
    """
    if time is None:
        return relation
    kind, sql = relation.types[time], quote(time)
    if family(kind) is Family.TEXT:
        return _of_texts(relation, time, what)
    if family(kind) in (Family.INTEGER, Family.FLOAT):
        sql = _of_numbers(relation, time)
    elif family(kind) is not Family.TIME:
        raise InvalidInput(f"{what}: column {time!r} of type {kind} holds no times: give stamps or Unix seconds")
    _refuse_none(relation.connection.execute(f"SELECT count({sql}) FROM {relation.name}").fetchall()[0][0], time, what)
    if sql == quote(time):
        return relation
    return relation.parsed(f"{relation.name}_timed", {time: sql})


def without_time(relation: Relation, time: str) -> int:
    """How many rows of a relation that `with_times` made have no time."""
    sql = f"SELECT count(*) - count({quote(time)}) FROM {relation.name}"
    return int(relation.connection.execute(sql).fetchall()[0][0])


def told_in_seconds(table: pa.Table, time: str | None, what: str) -> pa.Table:
    """The table with `time` in whole Unix seconds, as a version's requests tell it, where it holds stamps, dates or
    texts of ISO 8601 (UTC where they have no zone); numbers stay, and so does a table without that column.

    InvalidInput, naming `what`, for a column that holds anything else.
    """
    import pyarrow as pa

    if time is None or time not in table.column_names:
        return table
    place, kind = table.column_names.index(time), table[time].type
    if pa.types.is_integer(kind) or pa.types.is_floating(kind):
        return table
    with connected() as connection:
        timed = with_times(relation_of_table(connection, "tidegate_told", table.select([time])), time, what)
        moment = as_number(time, timed.types[time])
        seconds = connection.sql(f"SELECT CAST(floor({moment}) AS BIGINT) FROM {timed.name}")
        return table.set_column(place, time, seconds.to_arrow_table()[0])


def unix_seconds(table: pa.Table, time: str, what: str) -> Floats:
    """The moment of each row by the column `time`, in Unix seconds, NaN where it has none; written in any way that
    `with_times` reads. InvalidInput, naming `what`, for a column that holds anything else."""
    with connected() as connection:
        timed = with_times(relation_of_table(connection, "tidegate_moments", table.select([time]), what), time, what)
        moments = connection.sql(f"SELECT {as_number(time, timed.types[time])} FROM {timed.name}").to_arrow_table()[0]
        return to_numpy(moments).astype(np.float64)


def check_seconds(column: pa.ChunkedArray, name: str) -> None:
    """Refuses numbers that cannot be Unix seconds, which is how a version's requests tell the time: InvalidInput."""
    import pyarrow as pa

    if not pa.types.is_integer(column.type) and not pa.types.is_floating(column.type):
        return
    table = pa.table({name: column})
    with connected() as connection:
        relation = relation_of_table(connection, "tidegate_seconds", table)
        number = f"CAST({quote(name)} AS DOUBLE)"
        day, told = _day(number), f"FILTER (WHERE NOT isnan({number}))"  # SQL takes NaN for the largest number
        largest, example, days, known = connection.execute(
            f"SELECT max(abs({number})) {told}, max({number}) FILTER (WHERE {day} IS NOT NULL), count({day}), "
            f"count({number}) {told} FROM {relation.name}"
        ).fetchall()[0]
    if known and largest >= _UNITS[0][0]:
        raise InvalidInput(
            f"event time {name!r} holds {largest:.6g}, which is no number of Unix seconds: divide milliseconds by 1000"
        )
    if days > known / 2:
        raise InvalidInput(
            f"event time {name!r} holds {int(example)}, a day and no number of Unix seconds: give dates or time stamps"
        )


def _of_numbers(relation: Relation, time: str) -> str:
    """SQL for the time that numbers tell; the column itself where all of them are Unix seconds."""
    number = f"CAST({quote(time)} AS DOUBLE)"
    size = f"CASE WHEN isfinite({number}) THEN abs({number}) END"
    ends = [0.0, *(limit for limit, _ in _UNITS[:-1])]
    places = [f"count(*) FILTER (WHERE {size} >= {end!r})" for end in ends]
    known, days, finite, *least = relation.connection.execute(
        f"SELECT count({number}), count({_day(number)}), {', '.join(places)} FROM {relation.name}"
    ).fetchall()[0]
    if days > finite / 2:
        return _day(number)
    counts = [more - fewer for more, fewer in zip([finite, *least], [*least, 0], strict=True)]
    place = counts.index(max(counts))
    if place == 0 and counts[0] == known:
        return quote(time)
    lowest, (limit, unit) = _STRAY * ends[place], _UNITS[place]
    below = f" AND {size} < {limit!r}" if limit < float("inf") else ""
    return f"CASE WHEN {size} >= {lowest!r}{below} THEN {number} / {unit} END"


def _day(number: str) -> str:
    """SQL for the day that a number stands for which is written YYYYMMDD, null for any other."""
    whole = f"CASE WHEN {number} BETWEEN {_FIRST_DAY} AND {_LAST_DAY} AND {number} = floor({number}) THEN {number} END"
    return f"try_strptime(CAST(CAST({whole} AS BIGINT) AS VARCHAR), '%Y%m%d')"


def _of_texts(relation: Relation, time: str, what: str) -> Relation:
    text = quote(time)
    read = f"TRY_CAST({text} AS TIMESTAMP WITH TIME ZONE)"
    told, other = relation.connection.execute(
        f"SELECT count({read}), any_value({text}) FILTER (WHERE {text} <> '' AND {read} IS NULL) FROM {relation.name}"
    ).fetchall()[0]
    if other is not None:
        raise InvalidInput(
            f"{what}: column {time!r} holds {other!r}, which is no time: write times as ISO 8601 has them"
        )
    _refuse_none(told, time, what)
    return relation.parsed(f"{relation.name}_timed", {time: read})


def _refuse_none(told: int, time: str, what: str) -> None:
    if not told:
        raise InvalidInput(f"{what}: column {time!r} holds no time in any row: name another column, or none")
