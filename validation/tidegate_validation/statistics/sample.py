"""Values of one column with row counts per block, for what frozen bins cannot tell: which values there are."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tidegate_validation.statistics.arrays import Floats, Integers, new_ones, order_of_places, places_of
from tidegate_validation.statistics.bins import CategoryBins, FrozenBins
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.sql import Family, as_number, as_text, family

_MOST_JOINT = 50_000


@dataclass(frozen=True)
class _Sample:
    """What is asked of numbers and of texts alike, found once."""

    values: Any
    blocks: Integers
    n: Integers

    @functools.cached_property
    def placed(self) -> tuple[Any, Integers]:
        """Distinct values, ascending, and the place of each value among them."""
        new = new_ones(self.values)
        return self.values[new], np.cumsum(new) - 1

    @functools.cached_property
    def starts(self) -> Integers:
        """Where each distinct value begins."""
        return np.flatnonzero(new_ones(self.values))

    @functools.cached_property
    def day(self) -> Integers:
        """The place of each value's block among all of them, ascending."""
        return places_of(self.blocks)[1]

    @functools.cached_property
    def by_day(self) -> Integers:
        """Which values come block by block, those of one in their order."""
        return order_of_places(self.day)


@dataclass(frozen=True)
class ValueSample(_Sample):
    """Finite values, ascending, their blocks and row counts; parallel arrays of shape [n]."""

    values: Floats

    def distinct(self) -> tuple[Floats, Floats]:
        """Distinct values, ascending, with their row counts over all blocks."""
        values, place = self.placed
        return values, np.bincount(place, weights=self.n.astype(np.float64)).astype(np.float64)

    def counted(self, bins: FrozenBins, factor: float, offset: float) -> FeatureCounts:
        """Counts over `bins` with a factor and an offset undone."""
        if isinstance(bins, CategoryBins):
            raise TypeError("categories have no factor")
        return FeatureCounts.from_rows(self.blocks, bins.assign((self.values - offset) / factor), self.n)


@dataclass(frozen=True)
class TextSample(_Sample):
    """Categories that are there, ascending, their blocks and row counts; parallel arrays of shape [n]."""

    values: npt.NDArray[np.object_]


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
    """SQL for a column's values as texts, numbers without the point of whole ones; empty where there are none."""
    if family(sql_type) in (Family.TEXT, Family.BOOLEAN):
        return f"coalesce({as_text(column, sql_type)}, '')"
    return f"coalesce(regexp_replace(CAST({as_number(column, sql_type)} AS VARCHAR), '\\.0$', ''), '')"
