"""Counts any relation into the frozen bins of a profile, in one pass of SQL per thirty features.

The SQL (CASE, dictionary joins, GROUPING SETS) is valid in DuckDB and in Spark.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate_validation.statistics.bins import (
    EMPTY,
    INFINITE,
    NAN,
    NEGATIVE_INFINITE,
    NULL,
    OFF_SUPPORT,
    TOLERANCE,
    CategoryBins,
    DiscreteBins,
    NumericBins,
)
from tidegate_validation.statistics.counts import FeatureCounts, repeats
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.rows import Rows
from tidegate_validation.statistics.sql import as_number, as_text, hash_of, literal, quote

_AT_ONCE = 30
_HASHED = 2_000_000


@dataclass(frozen=True, slots=True)
class Term:
    """SQL of one feature: the expression for its bin and the dictionary that it joins, if any."""

    bin: str
    join: str = ""


def types_of(connection: Any, relation: str) -> dict[str, str]:
    """Column names of a relation (SQL text) with their DuckDB types."""
    found = connection.execute(f"DESCRIBE SELECT * FROM {relation}").fetchall()
    return {row[0]: row[1] for row in found}


def count_relation(
    connection: Any,
    relation: str,
    block: str,
    features: Sequence[FeatureProfile],
    columns: Mapping[str, str],
) -> dict[str, FeatureCounts]:
    """Counts by feature for the rows of `relation` (SQL text).

    `block` is SQL for a row's block number; `columns` says which column carries a feature where names differ. The
    column's type must be of a family that the feature's bins can read (see `comparable`).
    """
    types = types_of(connection, relation)
    counts: dict[str, FeatureCounts] = {}
    for start in range(0, len(features), _AT_ONCE):
        part = features[start : start + _AT_ONCE]
        terms = [
            term_of(connection, index, feature, columns.get(feature.name, feature.name), types)
            for index, feature in enumerate(part)
        ]
        counts.update(_run(connection, relation, block, part, terms))
    return counts


def count_rows(
    connection: Any,
    relation: str,
    block: str,
    features: Sequence[FeatureProfile],
    columns: Mapping[str, str],
    read: Rows,
) -> dict[str, FeatureCounts]:
    """What `count_relation` says, from the rows that were `read` where these are all."""
    if not read.whole:
        return count_relation(connection, relation, block, features, columns)
    return {one.name: read.columns[columns.get(one.name, one.name)].counts(one) for one in features}


def count_repeated(
    connection: Any, relation: str, block: str, columns: Sequence[str], read: Rows, rows: int
) -> FeatureCounts:
    """Per block, rows that differ in some of `columns` from all before them (bin 0), and those that do not (bin 1).

    From the rows that were `read` where these are all; of very many `rows` those alone whose hash is a multiple of some
    number, among which are all that repeat each other.
    """
    if read.whole:
        return read.repeated()
    every = 1 + rows // _HASHED
    names = ", ".join(quote(name) for name in columns)
    found = connection.execute(
        f"SELECT b, count(*) AS n, count(DISTINCT h) AS d FROM "
        f"(SELECT {block} AS b, hash({names}) AS h FROM {relation}) WHERE h % {every} = 0 GROUP BY b"
    ).fetchnumpy()
    return repeats(*(np.asarray(found[name], dtype=np.int64) for name in ("b", "n", "d")))


def block_number(connection: Any, relation: str, block: str, read: Rows) -> int:
    """How many blocks a relation has."""
    if read.whole:
        return len(read.days)
    return int(connection.execute(f"SELECT count(DISTINCT {block}) FROM {relation}").fetchall()[0][0])


def _run(
    connection: Any, relation: str, block: str, features: Sequence[FeatureProfile], terms: Sequence[Term]
) -> dict[str, FeatureCounts]:
    names = [f"f{index}" for index in range(len(terms))]
    inner = ", ".join(f"{term.bin} AS {name}" for term, name in zip(terms, names, strict=True))
    joins = " ".join(term.join for term in terms if term.join)
    sets = ", ".join(f"(block, {name})" for name in names)
    query = (
        f"SELECT block, coalesce({', '.join(names)}) AS bin, grouping({', '.join(names)}) AS part, count(*) AS n "
        f"FROM (SELECT {block} AS block, {inner} FROM {relation} AS source {joins}) GROUP BY GROUPING SETS ({sets})"
    )
    found = connection.execute(query).fetchnumpy()
    width = len(names)
    counts = {}
    for index, feature in enumerate(features):
        mask = found["part"] == (2**width - 1) - 2 ** (width - 1 - index)
        counts[feature.name] = FeatureCounts.from_rows(
            *(np.asarray(found[name][mask], dtype=np.int64) for name in ("block", "bin", "n"))
        )
    return counts


def term_of(connection: Any, index: int, feature: FeatureProfile, column: str, types: Mapping[str, str]) -> Term:
    """How the bin of a row of `source` is read, where `column` carries the feature; `index` tells terms of one query
    apart."""
    if isinstance(feature.bins, CategoryBins):
        return _category(connection, index, feature.bins, as_text(column, types[column]))
    if feature.bins is None:
        return Term(f"CASE WHEN {quote(column)} IS NULL THEN {NULL} ELSE 0 END")
    return _number(connection, index, feature, feature.bins, as_number(column, types[column]))


def _category(connection: Any, index: int, bins: CategoryBins, value: str) -> Term:
    known = f"tidegate_known_{index}"
    _dictionary(connection, known, False, bins.codes())
    absent = str(bins.unseen if bins.complete else bins.other)
    if bins.every:
        absent = f"CASE WHEN {hash_of(value)} % {bins.every} = 0 THEN {bins.unseen} ELSE {bins.other} END"
    text = (
        f"CASE WHEN {value} IS NULL THEN {NULL} WHEN {value} = '' THEN {EMPTY} ELSE coalesce({known}.bin, {absent}) END"
    )
    return Term(text, f"LEFT JOIN {known} ON {known}.value = {value}")


def _number(connection: Any, index: int, feature: FeatureProfile, bins: NumericBins | DiscreteBins, value: str) -> Term:
    special = (
        f"WHEN {value} IS NULL THEN {NULL} WHEN isnan({value}) THEN {NAN} "
        f"WHEN isinf({value}) THEN CASE WHEN {value} > 0 THEN {INFINITE} ELSE {NEGATIVE_INFINITE} END"
    )
    if isinstance(bins, DiscreteBins):
        known = " ".join(f"WHEN {equals(value, one)} THEN {code}" for code, one in enumerate(bins.values))
        return Term(f"CASE {special} {known} ELSE {bins.unseen} END")
    first_atom = len(bins.edges) + 1
    atoms = " ".join(f"WHEN {equals(value, atom)} THEN {first_atom + i}" for i, atom in enumerate(bins.atoms))
    ranges = " ".join(f"WHEN {value} < {literal(edge)} THEN {code}" for code, edge in enumerate(bins.edges))
    plain = f"CASE {atoms} {ranges} ELSE {len(bins.edges)} END" if atoms or ranges else "0"
    if not feature.support:
        return Term(f"CASE {special} ELSE {plain} END")
    known = f"tidegate_known_{index}"
    single = dict.fromkeys(np.float32(value) for value, _ in feature.support)
    _dictionary(connection, known, True, [(one, 0) for one in single])
    inside = f"{value} BETWEEN {literal(feature.support[0][0])} AND {literal(feature.support[-1][0])}"
    off = f"CASE WHEN {known}.bin IS NULL AND {inside} THEN {OFF_SUPPORT} ELSE 0 END"
    return Term(
        f"CASE {special} ELSE {plain} + {off} END", f"LEFT JOIN {known} ON {known}.value = TRY_CAST({value} AS REAL)"
    )


def equals(value: str, number: float) -> str:
    """SQL that says whether a DOUBLE is a number, but for float noise."""
    if number == 0:
        return f"{value} = 0"
    return f"abs({value} - {literal(number)}) <= {literal(TOLERANCE * abs(number))}"


def _dictionary(connection: Any, name: str, numbers: bool, rows: Sequence[tuple[Any, int]]) -> None:
    """Makes values, 32-bit floats or texts, and their bins known to SQL under a name."""
    import pyarrow as pa

    kind = pa.float32() if numbers else pa.string()
    values = pa.array([float(value) if numbers else value for value, _ in rows], kind)
    connection.register(name, pa.table({"value": values, "bin": pa.array([code for _, code in rows], pa.int32())}))
