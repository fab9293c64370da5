"""The column of event times, in whatever way a table writes it, as one that can be read: stamps, or Unix seconds."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.statistics.relation import Relation, connected, relation_of_table
from tidegate_validation.statistics.sql import Family, as_number, family, quote

if TYPE_CHECKING:
    import pyarrow as pa

_LARGEST = ((1e11, 1), (1e14, 1_000), (1e17, 1_000_000))
"""Numbers below each of these are seconds, milliseconds and microseconds since 1970, larger ones nanoseconds: as
seconds the first would be the year 5138."""
_NANOSECONDS = 1_000_000_000


def with_times(relation: Relation, time: str | None, what: str) -> Relation:
    """The relation with `time` as time stamps or Unix seconds: of texts those of ISO 8601 are read, UTC where they have
    no zone, and numbers by their size. `what` names it in messages.

    InvalidInput where it holds no times at all, or something else.
    """
    if time is None:
        return relation
    kind, sql = relation.types[time], quote(time)
    if family(kind) is Family.TEXT:
        sql = f"TRY_CAST({sql} AS TIMESTAMP WITH TIME ZONE)"
        _refuse_other_texts(relation, time, sql, what)
    elif family(kind) not in (Family.TIME, Family.INTEGER, Family.FLOAT):
        raise InvalidInput(f"{what}: column {time!r} of type {kind} holds no times: give stamps or Unix seconds")
    known, largest = _ends(relation, sql, family(kind))
    if not known:
        raise InvalidInput(f"{what}: column {time!r} holds no time in any row: name another column, or none")
    unit = next((unit for limit, unit in _LARGEST if largest < limit), _NANOSECONDS)
    if unit > 1:
        sql = f"CAST({sql} AS DOUBLE) / {unit}"
    if sql == quote(time):
        return relation
    columns = {name: sql if name == time else quote(name) for name in relation.types}
    return relation.view(f"{relation.name}_timed", columns)


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


def check_seconds(column: pa.ChunkedArray, name: str) -> None:
    """Refuses numbers that cannot be Unix seconds, which is how a version's requests tell the time: InvalidInput."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if not pa.types.is_integer(column.type) and not pa.types.is_floating(column.type):
        return
    largest = pc.max(pc.abs(column.cast("float64", safe=False))).as_py()
    if largest is not None and largest >= _LARGEST[0][0]:
        raise InvalidInput(
            f"event time {name!r} holds {largest:.6g}, which is no number of Unix seconds: divide milliseconds by 1000"
        )


def _ends(relation: Relation, sql: str, kind: Family) -> tuple[int, float]:
    """How many times there are, and the size of the largest number; 0 where they are stamps."""
    number = f"max(abs(CAST({sql} AS DOUBLE))) FILTER (WHERE isfinite(CAST({sql} AS DOUBLE)))"
    largest = number if kind in (Family.INTEGER, Family.FLOAT) else "0"
    known, found = relation.connection.execute(f"SELECT count({sql}), {largest} FROM {relation.name}").fetchall()[0]
    return int(known), float(found or 0)


def _refuse_other_texts(relation: Relation, time: str, read: str, what: str) -> None:
    text = quote(time)
    found = relation.connection.execute(
        f"SELECT any_value({text}) FROM {relation.name} WHERE {text} <> '' AND {read} IS NULL"
    ).fetchall()[0][0]
    if found is not None:
        raise InvalidInput(
            f"{what}: column {time!r} holds {found!r}, which is no time: write times as ISO 8601 has them"
        )
