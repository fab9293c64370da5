"""Values of one column with row counts per block, for what frozen bins cannot tell: which values there are."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.bins import CategoryBins, FrozenBins
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.sql import as_number, as_text, family

_MOST_ROWS = 200_000


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


def read_sample(connection: Any, relation: str, block: str, column: str, sql_type: str) -> ValueSample:
    """The values of a column of `relation` (SQL text); a repeatable sample where there are very many rows."""
    found = _read(connection, relation, block, as_number(column, sql_type), "isfinite(v)")
    return ValueSample(np.asarray(found["v"], dtype=np.float64), *_blocks(found))


def read_texts(connection: Any, relation: str, block: str, column: str, sql_type: str) -> TextSample:
    """The same of a text column."""
    found = _read(connection, relation, block, as_text(column, sql_type), "v <> ''")
    return TextSample(np.asarray(found["v"], dtype=object), *_blocks(found))


def read_any(connection: Any, relation: str, block: str, column: str, sql_type: str) -> ValueSample | TextSample:
    """Numbers or texts, as the column has them."""
    reader = read_sample if family(sql_type).numeric else read_texts
    return reader(connection, relation, block, column, sql_type)


def _read(connection: Any, relation: str, block: str, value: str, wanted: str) -> dict[str, Any]:
    found: dict[str, Any] = connection.execute(
        f"SELECT v, b, count(*) AS n FROM (SELECT v, b FROM (SELECT {value} AS v, {block} AS b FROM {relation}) "
        f"WHERE {wanted} USING SAMPLE reservoir({_MOST_ROWS} ROWS) REPEATABLE (7)) GROUP BY v, b ORDER BY v, b"
    ).fetchnumpy()
    return found


def _blocks(found: dict[str, Any]) -> tuple[Integers, Integers]:
    return np.asarray(found["b"], dtype=np.int64), np.asarray(found["n"], dtype=np.int64)
