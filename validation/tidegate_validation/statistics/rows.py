"""Rows of a relation as they were read, all of them where they are few and a repeatable sample where they are not.

Each column is kept as its distinct values and which of these each row has: what is asked of values is asked once of
each, and single values, digits, bins and pairs of columns all come from one reading.
"""

from __future__ import annotations

import functools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegate_validation.statistics.arrays import Floats, Integers, new_ones, places_of, places_of_numbers, to_numpy
from tidegate_validation.statistics.bins import (
    EMPTY,
    INFINITE,
    NAN,
    NEGATIVE_INFINITE,
    NULL,
    OFF_SUPPORT,
    CategoryBins,
    NumericBins,
)
from tidegate_validation.statistics.blocks import SECONDS
from tidegate_validation.statistics.counts import TIME_OF_DAY, FeatureCounts, repeats
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sample import TextSample, ValueSample
from tidegate_validation.statistics.sql import Family, as_number, as_text, family, quote

MOST_ROWS = 200_000
"""So many rows are read whole."""
CODED = 60_000
"""So many rows are asked which columns go together."""
_SPARSE = 4
_DENSE = 4
_AT_ONCE = 30
_HOUR = 3600
_NOTHING = np.empty(0, dtype=np.int64)


@dataclass(frozen=True)
class ReadColumn:
    """Distinct ordinary `values`, ascending, and the `place` of each row's among them, shape [n]; a negative place is
    the bin of what is no ordinary value. `day` is the place of each row's block among the `days`, ascending."""

    values: Floats | npt.NDArray[np.object_]
    place: Integers
    days: Integers
    day: Integers

    @functools.cached_property
    def per_value(self) -> Integers:
        """Rows of each value, shape [values]."""
        return np.bincount(self.place[self.place >= 0], minlength=len(self.values)).astype(np.int64)

    @property
    def ordered(self) -> Floats:
        """The values of numbers in all rows, ascending."""
        return np.asarray(np.repeat(self.values, self.per_value), dtype=np.float64)

    def rows_with(self, *codes: int) -> int:
        """Rows that are no ordinary value, by their bins."""
        return sum(int((self._no_values == code).sum()) for code in codes)

    @functools.cached_property
    def _no_values(self) -> Integers:
        """The bins of rows that are no ordinary value."""
        return self.place[self.place < 0]

    @functools.cached_property
    def sample(self) -> ValueSample | TextSample:
        """Rows per value and block."""
        width = max(len(self.days), 1)
        cells = self.place * width + self.day
        cells, n = _counted(cells if self.place.min(initial=0) >= 0 else cells[cells >= 0], len(self.values) * width)
        place = cells // width
        day = cells - place * width
        kind = TextSample if self.values.dtype == object else ValueSample
        return kind(self.values[place], self.days[day], n)  # type: ignore[arg-type]

    def codes(self, feature: FeatureProfile, rows: Any = slice(None)) -> Integers:
        """The bin of each of the `rows`, shape [n]; the column's values must be of the kind that the feature's bins are
        for."""
        place: Integers = self.place[rows]
        if feature.bins is None:
            return np.asarray(np.where(place == NULL, NULL, 0), dtype=np.int64)
        return _at(place, _bins_of(self.values, feature))

    def hours(self, rows: Any = slice(None)) -> Integers:
        """The hour of the day (UTC) of each of the `rows` of a column of Unix seconds, shape [n]."""
        return _at(self.place[rows], np.floor(np.asarray(self.values, dtype=np.float64) % SECONDS / _HOUR))

    def counts(self, feature: FeatureProfile) -> FeatureCounts:
        """Rows per block and bin."""
        return FeatureCounts.of_rows(self.days, self.day, self.codes(feature))


def _at(place: Integers, known: Any) -> Integers:
    """What is `known` of each row's value, by its place. Bins of what is no ordinary value, of which EMPTY is the
    lowest, lie behind all others, where negative places find them."""
    return np.asarray(np.concatenate([known, np.arange(EMPTY, 0)])[place], dtype=np.int64)


def _bins_of(values: Any, feature: FeatureProfile) -> Integers:
    """The bin of each value."""
    bins = feature.bins
    if isinstance(bins, CategoryBins):
        listed = dict(bins.codes())
        codes = [listed[one] if one in listed else _unlisted(bins, one) for one in values]
        return np.array(codes, dtype=np.int64)
    if bins is None:
        return np.zeros(len(values), dtype=np.int64)
    found = bins.assign(values)
    if isinstance(bins, NumericBins) and feature.support and len(values):
        with np.errstate(over="ignore"):
            single = values.astype(np.float32)
            known = np.array([value for value, _ in feature.support], dtype=np.float32)
        inside = (values >= feature.support[0][0]) & (values <= feature.support[-1][0])
        found[inside & ~np.isin(single, known)] += OFF_SUPPORT
    return found


def _unlisted(bins: CategoryBins, name: str) -> int:
    return bins.unseen if bins.tells(name) else bins.other


def _counted(cells: Integers, size: int) -> tuple[Integers, Integers]:
    """Which of so many cells there are, ascending, and how often; without sorting where there are not many more of them
    than rows."""
    if size <= _DENSE * len(cells):
        n = np.bincount(cells, minlength=size)
        there = np.flatnonzero(n > 0)
        return there, n[there].astype(np.int64)
    cells = np.sort(cells)
    starts = np.flatnonzero(new_ones(cells))
    return cells[starts], np.diff(starts, append=len(cells)).astype(np.int64)


@dataclass(frozen=True, slots=True)
class Rows:
    """Columns of rows of a relation: `whole` says that all of its rows are here, `day` is the place of each row's block
    among the `days`. `own` are samples of columns that hold hardly anything; their rows are not those of the others.
    `hashes` tell rows apart, shape [n], 0 where not asked.
    """

    whole: bool
    days: Integers
    day: Integers
    columns: Mapping[str, ReadColumn]
    own: Mapping[str, ReadColumn] = field(default_factory=dict)
    hashes: npt.NDArray[np.uint64] = field(default_factory=lambda: np.empty(0, dtype=np.uint64))

    def sample(self, column: str) -> ValueSample | TextSample:
        """Values of a column with rows per block."""
        return self.own.get(column, self.columns[column]).sample

    def repeated(self) -> FeatureCounts:
        """Per block, rows that are not there before (bin 0), and those that are (bin 1)."""
        order = np.argsort(self.hashes)
        hashes, day = self.hashes[order], self.day[order]
        again = np.flatnonzero(hashes[1:] == hashes[:-1])
        # Only where hashes are alike do days matter, in which their order is by chance.
        alike = np.unique(np.concatenate([again, again + 1]))
        rows = np.lexsort((day[alike], hashes[alike]))
        hashes, day = hashes[alike][rows], day[alike][rows]
        twice = (hashes[1:] == hashes[:-1]) & (day[1:] == day[:-1])
        n = np.bincount(self.day, minlength=len(self.days))
        return repeats(self.days, n, n - np.bincount(day[1:][twice], minlength=len(self.days)))

    def coded(
        self, features: Mapping[str, FeatureProfile], time: str | None, ranked: Collection[str]
    ) -> tuple[Integers, dict[str, Integers]]:
        """The places of rows' blocks, and the bins of each feature in them; `features` by the column that carries each.
        Of `ranked` features come, instead of bins, the places of values in their order, negative where there is none.
        The hours of the day of the column `time`, where there is one, come as TIME_OF_DAY. A repeatable choice of the
        rows that were read, where these are many.
        """
        size = len(self.day)
        some: Any = slice(None)
        if size > CODED:
            some = np.flatnonzero(np.random.default_rng(7).random(size) < CODED / size)
        columns = {one.name: (self.columns[column], one) for column, one in features.items()}
        codes = {
            name: column.place[some] if name in ranked else column.codes(one, some)
            for name, (column, one) in columns.items()
        }
        if time is not None:
            codes[TIME_OF_DAY] = self.columns[time].hours(some)
        return self.day[some], codes


def read_rows(
    connection: Any,
    relation: str,
    block: str,
    types: Mapping[str, str],
    rows: int,
    hashed: Sequence[str] = (),
    some: str = "",
) -> Rows:
    """Reads columns of `relation` (SQL text), which has so many `rows`; `types` are those that each is to be read as.

    `block` is SQL for a row's block. Rows are told apart by the columns `hashed`, where all rows are read. `some` is a
    sample of the relation where one was drawn.
    """
    whole = read_whole(rows)
    source = some or sampled(relation, rows)
    names, found, own = list(types), dict[str, ReadColumn](), dict[str, ReadColumn]()
    blocks, hashes = (_NOTHING, _NOTHING), np.empty(0, dtype=np.uint64)
    for start in range(0, max(len(names), 1), _AT_ONCE):
        part = names[start : start + _AT_ONCE]
        further = [f"hash({', '.join(map(quote, hashed))}) AS h"] if hashed and whole and start == 0 else []
        table = _fetched(connection, source, block, [_value(one, types[one]) for one in part], further)
        blocks = _blocks(table)
        hashes = to_numpy(table["h"]) if further else hashes
        for place, name in enumerate(part):
            found[name] = _column(table[f"v{place}"], *blocks)
            if not whole and int((found[name].place >= 0).sum()) < MOST_ROWS // _SPARSE:
                value = _value(name, types[name])
                filled = f"(SELECT * FROM {relation} WHERE {value} IS NOT NULL)"
                there = _fetched(connection, sampled(filled, rows), block, [value], [])
                own[name] = _column(there["v0"], *_blocks(there))
    return Rows(whole, *blocks, found, own, hashes)


def _value(column: str, sql_type: str) -> str:
    if family(sql_type) is Family.OPAQUE:
        return f"CASE WHEN {quote(column)} IS NULL THEN NULL ELSE CAST(0 AS DOUBLE) END"
    return as_number(column, sql_type) if family(sql_type).numeric else as_text(column, sql_type)


def _fetched(connection: Any, source: str, block: str, values: Sequence[str], further: Sequence[str]) -> Any:
    """Blocks `b`, values `v0`, `v1`, ... and what is asked for `further`, as a pyarrow.Table."""
    named = ", ".join([f"{block} AS b", *(f"{value} AS v{place}" for place, value in enumerate(values)), *further])
    return connection.sql(f"SELECT {named} FROM {source}").to_arrow_table()


def read_whole(rows: int) -> bool:
    """Whether so many rows are read whole, and not a sample of them."""
    return rows <= MOST_ROWS


def sampled(relation: str, rows: int) -> str:
    """SQL text for a repeatable sample of a relation's `rows`, all where they are few."""
    some = "" if read_whole(rows) else f" USING SAMPLE reservoir({MOST_ROWS} ROWS) REPEATABLE (7)"
    return f"(SELECT * FROM {relation}{some})"


def _blocks(table: Any) -> tuple[Integers, Integers]:
    """The blocks of a table of rows, ascending, and the place of each row's among them."""
    days, day = places_of(to_numpy(table["b"]).astype(np.int64))
    return days.astype(np.int64), day


def _column(column: Any, days: Integers, day: Integers) -> ReadColumn:
    import pyarrow as pa

    if pa.types.is_floating(column.type):
        return ReadColumn(*_placed_numbers(column), days, day)
    return ReadColumn(*_placed_texts(column), days, day)


def _placed_numbers(column: Any) -> tuple[Floats, Integers]:
    values = to_numpy(column) + 0.0
    finite = np.isfinite(values)
    if finite.all():
        return places_of_numbers(values)
    place = np.empty(len(values), dtype=np.int64)
    place[np.isnan(values)] = NAN
    place[values == np.inf] = INFINITE
    place[values == -np.inf] = NEGATIVE_INFINITE
    if column.null_count:
        place[to_numpy(column.is_null().cast("uint8")) > 0] = NULL
    found, place[finite] = places_of_numbers(values[finite])
    return found, place


def _placed_texts(column: Any) -> tuple[npt.NDArray[np.object_], Integers]:
    import pyarrow.compute as pc

    texts = pc.dictionary_encode(column.combine_chunks())
    names = texts.dictionary.to_pylist()
    ascending = sorted(range(len(names)), key=lambda one: names[one])
    kept = [one for one in ascending if names[one] != ""]
    rank = np.full(len(names) + 1, EMPTY, dtype=np.int64)
    rank[kept] = np.arange(len(kept))
    rank[-1] = NULL
    codes = to_numpy(texts.indices, missing=len(names)).astype(np.int64)
    values = np.empty(len(kept), dtype=object)
    values[:] = [names[one] for one in kept]
    return values, rank[codes]
