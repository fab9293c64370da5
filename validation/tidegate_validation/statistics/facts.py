"""What has to be known of all rows of a reference column to fix its bins: from the rows that were read where these are
all, else by SQL, so that a table may be larger than memory.

Quantiles of a larger table are those of the sample, within the ends of all rows: bins may lie anywhere, and what is
counted in them is counted exactly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidegate_validation.statistics.arrays import Floats, Integers, Mask
from tidegate_validation.statistics.bins import EMPTY, INFINITIES, NAN, NULL
from tidegate_validation.statistics.rows import ReadColumn, Rows
from tidegate_validation.statistics.sql import Family, as_number, as_text, family, hash_of, quote

MAX_KNOWN = 20_000
TOP = 50
HASHES = 2**16
_LISTED = 1.5 * MAX_KNOWN
_AT_ONCE = 5
_NONE = np.empty(0, dtype=np.int64)


@dataclass(frozen=True, slots=True)
class Facts:
    """Of a column: `rows`, those `present` (not missing), and those that are `infinite`; `distinct` ordinary values.

    `values` are all distinct ones with the rows `n` of each, the first block that has it, and whether no other has it
    (`alone`); numbers ascending, texts the most frequent first. Where there are too many, numbers have none, and of
    texts there may be only the most frequent and those whose MD5 hash is a multiple of `every`. `ordered` are finite
    values, ascending, of all rows or of a sample; `ends` the least and the largest of all.
    """

    rows: int
    present: int
    infinite: int
    distinct: int
    values: Any = ()
    n: Integers = field(default_factory=lambda: _NONE)
    first: Integers = field(default_factory=lambda: _NONE)
    alone: Mask = field(default_factory=lambda: _NONE.astype(np.bool_))
    every: int = 1
    ordered: Floats = field(default_factory=lambda: np.empty(0))
    ends: tuple[float, float] | None = None


def facts_of(connection: Any, relation: str, block: str, types: Mapping[str, str], rows: Rows) -> dict[str, Facts]:
    """The facts of columns of `relation` (SQL text), of which `rows` were read; `types` are the DuckDB types of the
    columns, `block` is SQL for a row's block."""
    if rows.whole:
        return {name: _of_rows(rows.columns[name], family(one)) for name, one in types.items()}
    totals = _totals(connection, relation, types)
    return {
        name: _of_relation(connection, relation, block, (name, one), rows, totals[name]) for name, one in types.items()
    }


def every_of(distinct: int) -> int:
    """Of which part of so many categories' hashes a list is short enough."""
    every = 1
    while distinct > MAX_KNOWN * every and every < HASHES:
        every *= 2
    return every


def _of_rows(column: ReadColumn, kind: Family) -> Facts:
    size = len(column.place)
    missing = column.rows_with(NULL, NAN, EMPTY)
    infinite = column.rows_with(*INFINITIES)
    distinct, n = len(column.values), column.per_value
    if kind is Family.OPAQUE:
        return Facts(size, size - missing, 0, 0)
    if kind is Family.TEXT:
        order = np.argsort(-n, kind="stable")
        first, alone = _blocks(column)
        named = column.values[order].tolist()
        return Facts(size, size - missing, 0, distinct, named, n[order], first[order], alone[order], every_of(distinct))
    ordered = column.ordered
    ends = (float(ordered[0]), float(ordered[-1])) if len(ordered) else None
    known = (size, size - missing, infinite, distinct)
    if distinct > _LISTED:
        return Facts(*known, ordered=ordered, ends=ends)
    return Facts(*known, column.values, n, *_blocks(column), ordered=ordered, ends=ends)


def _blocks(column: ReadColumn) -> tuple[Integers, Mask]:
    """Per value the first block that has it, and whether no other has it."""
    blocks, starts = column.sample.blocks, column.sample.starts
    ends = starts + np.diff(starts, append=len(blocks)) - 1
    return blocks[starts], blocks[starts] == blocks[ends]


@dataclass(frozen=True, slots=True)
class _Totals:
    rows: int
    present: int
    infinite: int
    distinct: int
    low: float | None
    high: float | None


def _totals(connection: Any, relation: str, types: Mapping[str, str]) -> dict[str, _Totals]:
    """A few columns in a pass, as a pass over many takes far longer than its part; the numbers of distinct values are
    about right."""
    names, found = list(types), dict[str, _Totals]()
    for start in range(0, len(names), _AT_ONCE):
        found |= _totals_of(connection, relation, {name: types[name] for name in names[start : start + _AT_ONCE]})
    return found


def _totals_of(connection: Any, relation: str, types: Mapping[str, str]) -> dict[str, _Totals]:
    wanted = []
    for name, one in types.items():
        kind = family(one)
        if kind is Family.TEXT:
            value = as_text(name, one)
            wanted += [f"count(nullif({value}, ''))", "0", f"approx_count_distinct({value})", "NULL", "NULL"]
        elif kind.numeric:
            value = as_number(name, one)
            finite = f"FILTER (WHERE isfinite({value}))"
            wanted += [
                f"count({value}) FILTER (WHERE NOT isnan({value}))",
                f"count(*) FILTER (WHERE isinf({value}))",
                f"approx_count_distinct({value})",
                f"min({value} + 0) {finite}",
                f"max({value} + 0) {finite}",
            ]
        else:
            wanted += [f"count({quote(name)})", "0", "0", "NULL", "NULL"]
    found = connection.execute(f"SELECT count(*), {', '.join(wanted)} FROM {relation}").fetchall()[0]
    parts = zip(*(found[1 + place :: 5] for place in range(5)), strict=True)
    return {name: _Totals(found[0], *part) for name, part in zip(types, parts, strict=True)}


def _of_relation(
    connection: Any, relation: str, block: str, column: tuple[str, str], rows: Rows, totals: _Totals
) -> Facts:
    name, sql_type = column
    kind = family(sql_type)
    known = (totals.rows, totals.present, totals.infinite)
    if kind is Family.OPAQUE:
        return Facts(*known, 0)
    inner = f"SELECT {{}} AS v, {block} AS b FROM {relation}"
    listed = "v, count(*) AS n, min(b) AS first, max(b) AS last"
    if kind is Family.TEXT:
        every = every_of(totals.distinct)
        told = "v IS NOT NULL AND v <> ''"
        if every > 1:
            told += f" AND ({hash_of('v')} % {every} = 0 OR v IN (SELECT value FROM tidegate_frequent))"
            _register_frequent(connection, rows.columns[name])
        found = connection.execute(
            f"SELECT {listed} FROM ({inner.format(as_text(name, sql_type))}) WHERE {told} GROUP BY v ORDER BY n DESC, v"
        ).fetchnumpy()
        distinct = len(found["v"]) if every == 1 else totals.distinct
        return Facts(*known, distinct, found["v"].tolist(), *_whole(found), every)
    ordered = rows.own.get(name, rows.columns[name]).ordered
    ends = None if totals.low is None or totals.high is None else (totals.low, totals.high)
    if totals.distinct > _LISTED:
        return Facts(*known, totals.distinct, ordered=ordered, ends=ends)
    found = connection.execute(
        f"SELECT {listed.replace('v,', 'v + 0 AS v,', 1)} FROM ({inner.format(as_number(name, sql_type))}) "
        "WHERE isfinite(v) GROUP BY v ORDER BY v"
    ).fetchnumpy()
    return Facts(*known, len(found["v"]), np.asarray(found["v"]), *_whole(found), ordered=ordered, ends=ends)


def _whole(found: Mapping[str, Any]) -> tuple[Integers, Integers, Mask]:
    n, first, last = (np.asarray(found[name], dtype=np.int64) for name in ("n", "first", "last"))
    return n, first, first == last


def _register_frequent(connection: Any, column: ReadColumn) -> None:
    """Makes the most frequent texts of the sample known to SQL."""
    import pyarrow as pa

    frequent = column.values[np.argsort(-column.per_value, kind="stable")[: 2 * TOP]]
    connection.register("tidegate_frequent", pa.table({"value": pa.array(frequent.tolist(), pa.string())}))
