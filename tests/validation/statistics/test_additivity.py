"""Counts are additive: however rows are ordered, split over files or cut into windows, the same numbers come out."""

from __future__ import annotations

import functools
from pathlib import Path
from tempfile import TemporaryDirectory

import duckdb
import numpy as np
import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate_validation.statistics import FeatureCounts, FeatureProfile, Role, count_relation
from tidegate_validation.statistics.arrays import Integers
from tidegate_validation.statistics.bins import INFINITE, NAN, NEGATIVE_INFINITE, CategoryBins, NumericBins
from tidegate_validation.statistics.counts import read_counts, write_counts
from tidegate_validation.statistics.sql import Family

ROW = st.tuples(st.integers(0, 6), st.integers(-5, 12), st.integers(0, 1000))
Rows = list[tuple[int, int, int]]
ROWS = st.lists(ROW, max_size=30)
EDGES = st.lists(st.floats(-1e6, 1e6), max_size=6, unique=True).map(sorted).map(tuple)


def counts(rows: Rows) -> FeatureCounts:
    columns = np.array(rows, dtype=np.int64).reshape(-1, 3).T
    return FeatureCounts.from_rows(columns[0], columns[1], columns[2])


def plain(found: FeatureCounts) -> dict[tuple[int, int], int]:
    """Rows per block and bin, without those that are zero."""
    places = zip(*np.nonzero(found.n), strict=True)
    return {(int(found.blocks[b]), int(found.codes[k])): int(found.n[b, k]) for b, k in places}


@given(ROWS.flatmap(lambda rows: st.tuples(st.just(rows), st.permutations(rows))))
def test_the_order_of_rows_does_not_matter(both: tuple[Rows, Rows]) -> None:
    rows, shuffled = both
    assert plain(counts(shuffled)) == plain(counts(rows))


@given(ROWS, ROWS, ROWS)
def test_merging_is_associative_and_commutative_and_loses_nothing(first: Rows, second: Rows, third: Rows) -> None:
    one, two, three = counts(first), counts(second), counts(third)
    whole = plain(counts([*first, *second, *third]))
    assert plain(one.merged(two).merged(three)) == whole
    assert plain(one.merged(two.merged(three))) == whole
    assert plain(three.merged(one).merged(two)) == whole


@given(ROWS, st.sets(st.integers(-5, 12)))
def test_a_windows_counts_are_the_sums_over_its_blocks(rows: Rows, codes: set[int]) -> None:
    found = counts(rows)
    assert found.rows == sum(n for _, _, n in rows)
    for block, n in zip(found.blocks, found.of(tuple(codes)), strict=True):
        assert n == sum(count for at, code, count in rows if at == block and code in codes)


@given(
    st.dictionaries(st.text(min_size=1, max_size=8), ROWS.filter(lambda rows: any(n for _, _, n in rows)), max_size=3)
)
@settings(max_examples=30, deadline=None)
def test_what_is_written_is_read_again(features: dict[str, Rows]) -> None:
    made = {name: counts(rows) for name, rows in features.items()}
    with TemporaryDirectory() as folder:
        write_counts(Path(folder) / "counts.parquet", made, profile="p", stream="training")
        found = read_counts(Path(folder) / "counts.parquet")
    assert {name: plain(part) for name, part in found.items()} == {name: plain(part) for name, part in made.items()}


def number(edges: tuple[float, ...]) -> FeatureProfile:
    return FeatureProfile("x", "DOUBLE", Family.FLOAT, Role.INPUT, 0, 0, 0, NumericBins(edges))


def text(top: tuple[str, ...]) -> FeatureProfile:
    return FeatureProfile("word", "VARCHAR", Family.TEXT, Role.INPUT, 0, 0, 0, CategoryBins(top))


@functools.cache
def database() -> duckdb.DuckDBPyConnection:
    """One for all examples: to open one takes longer than to count."""
    return duckdb.connect()


def counted(table: pa.Table, features: list[FeatureProfile]) -> dict[str, FeatureCounts]:
    with database().cursor() as connection:
        connection.register("rows", table)
        return count_relation(connection, "rows", "day", features, {})


def table_of(rows: list[tuple[int, float | None, str | None]]) -> pa.Table:
    days, numbers, words = zip(*rows, strict=True)
    return pa.table({"day": pa.array(days, pa.int64()), "x": pa.array(numbers, pa.float64()), "word": pa.array(words)})


EXAMPLES = st.lists(
    st.tuples(st.integers(0, 3), st.none() | st.floats(), st.none() | st.sampled_from(["", "a", "b", "c", "Δ'"])),
    min_size=1,
    max_size=20,
).filter(lambda rows: any(word is not None for _, _, word in rows))


@given(EXAMPLES, EDGES, st.integers(0, 20))
@settings(max_examples=25, deadline=None)
def test_counting_parts_and_merging_is_counting_the_whole(
    rows: list[tuple[int, float | None, str | None]], edges: tuple[float, ...], cut: int
) -> None:
    features = [number(edges), text(("a", "Δ'"))]
    table = table_of(rows)
    whole = counted(table, features)
    first, second, back = (
        counted(part, features)
        for part in (table.slice(0, cut), table.slice(cut), table.take(pa.array(range(len(rows))[::-1])))
    )
    for name, found in whole.items():
        assert found.rows == len(rows)
        assert plain(first[name].merged(second[name])) == plain(found) == plain(back[name])


@given(st.lists(st.floats(), min_size=1, max_size=20), EDGES)
@settings(max_examples=40, deadline=None)
def test_sql_and_numpy_put_a_number_into_the_same_bin(values: list[float], edges: tuple[float, ...]) -> None:
    values = [*values, *edges, *np.nextafter(edges, -np.inf), *np.nextafter(edges, np.inf)]
    column = np.array(values)
    found = counted(table_of([(0, value, "a") for value in values]), [number(edges)])["x"]
    special: Integers = np.select(
        [np.isnan(column), column == np.inf, column == -np.inf], [NAN, INFINITE, NEGATIVE_INFINITE], 0
    )
    codes = np.where(special < 0, special, NumericBins(edges).assign(np.where(special < 0, 0.0, column)))
    assert plain(found) == {(0, int(code)): int((codes == code).sum()) for code in np.unique(codes)}
