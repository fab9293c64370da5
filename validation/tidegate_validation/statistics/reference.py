"""Fixes the bins of a reference column, and keeps quantiles and values, from what is known of all its rows."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tidegate_validation.statistics.arrays import Floats, Integers, Mask, places_of
from tidegate_validation.statistics.bins import (
    OFF_SUPPORT,
    TOLERANCE,
    CategoryBins,
    DiscreteBins,
    FrozenBins,
    NumericBins,
)
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.facts import TOP, Facts
from tidegate_validation.statistics.profile import FeatureProfile, Role
from tidegate_validation.statistics.sql import Family, hash_of

LEVELS = (0.0, 0.001, *(round(0.005 * step, 3) for step in range(1, 200)), 0.999, 1.0)
TAILS = (0.001, 0.01, 0.99, 0.999)
RANGES = 10
ATOM_SHARE = 0.05
MAX_SUPPORT = 4096
MAX_NEW_RATE = 0.2
DISCRETE_INTEGERS = 50
DISCRETE_FLOATS = 12
_FEWEST, _AGAIN = 2, 2.0
"""More values than the first are few ones only where each comes so many times on average: of a handful of rows, any
other rows hold other values."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a relation that DuckDB can read."""

    name: str
    type: str
    family: Family
    role: Role


def describe(
    connection: Any, columns: Sequence[Column], facts: Mapping[str, Facts], blocks: int
) -> list[FeatureProfile]:
    """The profiles of columns by what is known of them, over so many blocks."""
    return [_described(connection, column, facts[column.name], blocks) for column in columns]


def _described(connection: Any, column: Column, facts: Facts, blocks: int) -> FeatureProfile:
    if column.family is Family.TEXT:
        return _text(connection, column, facts, blocks)
    if column.family.numeric:
        return _number(column, facts, blocks)
    return FeatureProfile(**asdict(column), rows=facts.rows, missing=facts.rows - facts.present, infinite=0, bins=None)


def _text(connection: Any, column: Column, facts: Facts, blocks: int) -> FeatureProfile:
    names, every = facts.values, facts.every
    told = _told(connection, names, every)
    others = tuple(name for name, known in zip(names[TOP:], told[TOP:], strict=True) if known)
    n, alone = facts.n[told], facts.alone[told]
    return FeatureProfile(
        **asdict(column),
        rows=facts.rows,
        missing=facts.rows - facts.present,
        infinite=0,
        bins=CategoryBins(tuple(names[:TOP]), others, every == 1, 0 if every == 1 else every),
        distinct=facts.distinct,
        new_rate=float(n[alone].sum() / max(int(n.sum()), 1)),
        new_values=every * _came_alone(n[alone], facts.first[told][alone], blocks),
    )


def _told(connection: Any, names: Sequence[str], every: int) -> Mask:
    """Of which names it can be told whether the reference held them."""
    import pyarrow as pa

    if every == 1:
        return np.ones(len(names), dtype=np.bool_)
    connection.register("tidegate_names", pa.table({"value": pa.array(names, pa.string())}))
    found = connection.execute(f"SELECT {hash_of('value')} % {every} = 0 AS told FROM tidegate_names").fetchnumpy()
    return np.asarray(found["told"], dtype=np.bool_)


def _number(column: Column, facts: Facts, blocks: int) -> FeatureProfile:
    quantiles = quantiles_of(facts.ordered, LEVELS)
    if quantiles and facts.ends is not None:
        quantiles[0], quantiles[-1] = facts.ends
    size, finite = len(facts.values), facts.present - facts.infinite
    new_rate = float(facts.n[facts.alone].sum() / max(finite, 1)) if size else None
    few = 0 < size <= MAX_SUPPORT and new_rate is not None and new_rate <= MAX_NEW_RATE
    limit = DISCRETE_FLOATS if column.family is Family.FLOAT else DISCRETE_INTEGERS
    listed = 0 < size <= min(limit, max(_FEWEST, finite / _AGAIN)) and column.family is not Family.TIME
    discrete = column.family is Family.BOOLEAN or listed
    values = [float(value) for value in facts.values] if few or discrete else []
    return FeatureProfile(
        **asdict(column),
        rows=facts.rows,
        missing=facts.rows - facts.present,
        infinite=facts.infinite,
        bins=DiscreteBins(tuple(values)) if discrete else _ranges(facts.ordered, quantiles),
        distinct=facts.distinct,
        new_rate=new_rate,
        new_values=_came_alone(facts.n[facts.alone], facts.first[facts.alone], blocks),
        minimum=quantiles[0] if quantiles else None,
        maximum=quantiles[-1] if quantiles else None,
        levels=LEVELS if quantiles else (),
        quantiles=tuple(quantiles),
        support=tuple(zip(values, facts.n.tolist(), strict=True)) if few or discrete else (),
    )


def _came_alone(n: Integers, brought_by: Integers, blocks: int) -> int:
    """How many of the values of one block alone, with the rows `n` of each, came by themselves.

    All of them, or as many as explain how unevenly blocks bring such rows: a cold day brings many low values at once.
    """
    if not len(n) or blocks < 2:
        return len(n)
    rows = np.zeros(blocks)
    found = np.bincount(places_of(brought_by)[1], weights=n)
    rows[: len(found)] = found
    together = float(rows.var(ddof=1) / rows.mean())
    return max(1, min(len(n), round(float(rows.sum()) / together))) if together > 1 else len(n)


def quantiles_of(ordered: Floats, levels: Sequence[float]) -> list[float]:
    """Values at `levels`, which are whole thousandths, as SQL's `quantile_disc` has them: the first value that so large
    a share of all reach; none of no values. numpy's quantiles round levels, and so may pick the next value.
    """
    if not len(ordered):
        return []
    thousandths = np.round(1000 * np.asarray(levels)).astype(np.int64)
    return [float(one) for one in ordered[np.maximum(-(-len(ordered) * thousandths // 1000), 1) - 1]]


def _ranges(ordered: Floats, quantiles: list[float]) -> NumericBins:
    atoms = _atoms(ordered, quantiles)
    rest = ordered
    for atom in atoms:
        rest = rest[rest != atom]
    cuts = quantiles_of(rest, sorted([*TAILS, *(step / RANGES for step in range(1, RANGES))]))
    low = quantiles[0] if quantiles else -math.inf
    edges = sorted({cut - TOLERANCE * abs(cut) for cut in cuts if cut > low})
    return NumericBins(tuple(_with_ends(edges, quantiles)), tuple(atoms))


def _with_ends(edges: list[float], quantiles: list[float]) -> list[float]:
    """Adds the ends of the range, and what lies beyond it by more than its own width, which no season explains."""
    if not quantiles:
        return edges
    low, high = quantiles[0], quantiles[-1]
    width = max(high - low, abs(high), abs(low)) if high == low else high - low
    room = max(2 * TOLERANCE * max(abs(low), abs(high)), float(np.finfo(np.float64).tiny))
    ends = (low - width - room, low - room, high + room, high + width + room)
    return [ends[0], ends[1], *edges, ends[2], ends[3]]


def _atoms(ordered: Floats, quantiles: list[float]) -> list[float]:
    """Values that hold at least ATOM_SHARE of the rows; such a value fills many neighbouring quantiles."""
    runs = ((value, len(list(group))) for value, group in itertools.groupby(quantiles))
    wanted = [value for value, length in runs if length >= ATOM_SHARE * len(LEVELS) - 2]
    held = [int(np.diff(np.searchsorted(ordered, [value, np.nextafter(value, np.inf)]))[0]) for value in wanted]
    return [value for value, n in zip(wanted, held, strict=True) if n >= ATOM_SHARE * len(ordered)]


def tail_clusters(bins: FrozenBins, counts: FeatureCounts) -> tuple[float, float]:
    """How many of the lowest and of the highest rows, a hundredth of them or more, come together in one block.

    The index of dispersion of their counts over blocks: 1 where they come one by one.
    """
    if not isinstance(bins, NumericBins) or len(counts.blocks) < 2:
        return (1.0, 1.0)
    totals = np.array([counts.of((code, OFF_SUPPORT + code)).sum() for code in range(len(bins.edges) + 1)])
    wanted = TAILS[1] * totals.sum()
    found = []
    for codes in (range(len(totals)), range(len(totals) - 1, -1, -1)):
        taken = int(np.searchsorted(np.cumsum(totals[list(codes)]), wanted)) + 1
        tail = tuple(code + off for code in list(codes)[:taken] for off in (0, OFF_SUPPORT))
        rows = counts.of(tail).astype(np.float64)
        found.append(max(1.0, float(rows.var(ddof=1) / max(rows.mean(), 1e-9))))
    return found[0], found[1]
