"""Values of one column with row counts per block, for what frozen bins cannot tell: which values there are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.bins import CategoryBins, FrozenBins
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.sql import Family, as_number, as_text, family

_MOST_ROWS = 200_000
_MOST_JOINT = 50_000
_AT_ONCE = 30


@dataclass(frozen=True, slots=True)
class ValueSample:
    """Finite values, their blocks and row counts; parallel arrays of shape [n]."""

    values: Floats
    blocks: Integers
    n: Integers

    def distinct(self) -> tuple[Floats, Floats]:
        """Distinct values, ascending, with their row counts over all blocks."""
        values, place = np.unique(self.values, return_inverse=True)
        return values, np.bincount(place, weights=self.n.astype(np.float64)).astype(np.float64)

    def counted(self, bins: FrozenBins, factor: float, offset: float) -> FeatureCounts:
        """Counts over `bins` with a factor and an offset undone."""
        if isinstance(bins, CategoryBins):
            raise TypeError("categories have no factor")
        return FeatureCounts.from_rows(self.blocks, bins.assign((self.values - offset) / factor), self.n)


@dataclass(frozen=True, slots=True)
class TextSample:
    """Categories that are there, their blocks and row counts; parallel arrays of shape [n]."""

    values: npt.NDArray[np.object_]
    blocks: Integers
    n: Integers


def read_samples(
    connection: Any, relation: str, block: str, types: Mapping[str, str], rows: int
) -> dict[str, ValueSample | TextSample]:
    """The values of columns of `relation` (SQL text), which has so many `rows`, by column; `types` are those that each
    is to be read as.

    Where there are very many rows, a repeatable sample of them, the same rows for all columns; a column of which nearly
    all of these are empty has one of its own.
    """
    found: dict[str, ValueSample | TextSample] = {}
    names = list(types)
    for start in range(0, len(names), _AT_ONCE):
        part = names[start : start + _AT_ONCE]
        table = _fetched(connection, relation, block, [_value(one, types[one]) for one in part], rows, "true")
        blocks = _whole_numbers(table["b"])
        for place, name in enumerate(part):
            sample = _counted(table[f"v{place}"], blocks)
            if rows > _MOST_ROWS and int(sample.n.sum()) < _MOST_ROWS // 4:
                value = _value(name, types[name])
                own = _fetched(connection, relation, block, [value], rows, f"{value} IS NOT NULL")
                sample = _counted(own["v0"], _whole_numbers(own["b"]))
            found[name] = sample
    return found


def _value(column: str, sql_type: str) -> str:
    return as_number(column, sql_type) if family(sql_type).numeric else as_text(column, sql_type)


def _fetched(connection: Any, relation: str, block: str, values: Sequence[str], rows: int, wanted: str) -> Any:
    """Blocks `b` and values `v0`, `v1`, ... as a pyarrow.Table."""
    named = ", ".join(f"{value} AS v{place}" for place, value in enumerate(values))
    some = f" USING SAMPLE reservoir({_MOST_ROWS} ROWS) REPEATABLE (7)" if rows > _MOST_ROWS else ""
    source = f"SELECT * FROM {relation} WHERE {wanted}" if wanted != "true" else f"SELECT * FROM {relation}"
    return connection.sql(f"SELECT {block} AS b, {named} FROM ({source}{some})").to_arrow_table()


def _counted(column: Any, blocks: Integers) -> ValueSample | TextSample:
    """Rows per value and block, without missing and infinite values, in the order of values and then of blocks."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_floating(column.type):
        values = np.asarray(column.to_numpy(), dtype=np.float64)
        kept = np.isfinite(values)
        values, blocks = values[kept] + 0.0, blocks[kept]
        order = np.lexsort((blocks, values)) if (np.diff(blocks) < 0).any() else np.argsort(values, kind="stable")
        values, blocks = values[order], blocks[order]
        starts = _starts(values, blocks)
        return ValueSample(values[starts], blocks[starts], _lengths(starts, len(values)))
    texts = pc.dictionary_encode(column.combine_chunks())
    names = np.asarray(texts.dictionary.to_pylist(), dtype=object)
    ranks = np.empty(len(names) + 1, dtype=np.int64)
    ascending = np.array(sorted(range(len(names)), key=lambda one: names[one]), dtype=np.int64)
    ranks[ascending] = np.arange(len(names))
    ranks[-1] = -1
    codes = ranks[np.asarray(pc.fill_null(texts.indices, len(names)).to_numpy(), dtype=np.int64)]
    empty = int(ranks[int(np.flatnonzero(names == "")[0])]) if (names == "").any() else -1
    kept = (codes >= 0) & (codes != empty)
    codes, blocks = codes[kept], blocks[kept]
    order = np.lexsort((blocks, codes))
    codes, blocks = codes[order], blocks[order]
    starts = _starts(codes, blocks)
    return TextSample(names[ascending][codes[starts]], blocks[starts], _lengths(starts, len(codes)))


def _starts(values: Floats | Integers, blocks: Integers) -> Integers:
    """Where a value or its block begins, in ordered ones."""
    if not len(values):
        return np.empty(0, dtype=np.int64)
    new = (values[1:] != values[:-1]) | (blocks[1:] != blocks[:-1])
    return np.concatenate([[0], np.flatnonzero(new) + 1]).astype(np.int64)


def _lengths(starts: Integers, size: int) -> Integers:
    return np.diff(starts, append=size).astype(np.int64)


def _whole_numbers(column: Any) -> Integers:
    return np.asarray(column.to_numpy(), dtype=np.int64)


def read_joint(
    connection: Any, relation: str, column: str, beside: Mapping[str, str], types: Mapping[str, str]
) -> tuple[Floats, dict[str, npt.NDArray[np.object_]]]:
    """Finite values of a column of `relation`, and what their rows hold in the columns `beside`, as texts; a repeatable
    sample where there are very many rows."""
    names = [f"c{place}" for place in range(len(beside))]
    texts = [f"{_as_words(one, types[one])} AS {name}" for one, name in zip(beside.values(), names, strict=True)]
    found = connection.execute(
        f"SELECT * FROM (SELECT {', '.join([f'{as_number(column, types[column])} AS v', *texts])} FROM {relation}) "
        f"WHERE isfinite(v) USING SAMPLE reservoir({_MOST_JOINT} ROWS) REPEATABLE (7)"
    ).fetchnumpy()
    values = np.asarray(found["v"], dtype=np.float64)
    return values, {one: np.asarray(found[name], dtype=object) for one, name in zip(beside, names, strict=True)}


def _as_words(column: str, sql_type: str) -> str:
    """SQL for a column's values as texts, without the point of whole numbers; empty where there are none."""
    whole = family(sql_type) in (Family.TEXT, Family.BOOLEAN)
    plain = as_text(column, sql_type) if whole else as_number(column, sql_type)
    return f"coalesce(regexp_replace(CAST({plain} AS VARCHAR), '\\.0$', ''), '')"
