"""The first pass over a reference column, which fixes its bins and keeps quantiles and values."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np

from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.bins import (
    OFF_SUPPORT,
    TOLERANCE,
    CategoryBins,
    DiscreteBins,
    FrozenBins,
    NumericBins,
)
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile, Role
from tidegate_validation.statistics.sql import Family, as_number, as_text, hash_of, quote

LEVELS = (0.0, 0.001, *(round(0.005 * step, 3) for step in range(1, 200)), 0.999, 1.0)
TAILS = (0.001, 0.01, 0.99, 0.999)
RANGES = 10
ATOM_SHARE = 0.05
TOP = 50
MAX_KNOWN = 20_000
_HASHES = 2**16
MAX_SUPPORT = 4096
MAX_NEW_RATE = 0.2
DISCRETE_INTEGERS = 50
DISCRETE_FLOATS = 12
_ONLY_BLOCK = "CASE WHEN min(b) = max(b) THEN min(b) END"


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a relation that DuckDB can read."""

    name: str
    type: str
    family: Family
    role: Role


def describe(connection: Any, relation: str, block: str, columns: Sequence[Column]) -> list[FeatureProfile]:
    """The profiles of columns of `relation` (SQL text); `block` is SQL for a row's block."""
    blocks = int(connection.execute(f"SELECT count(DISTINCT {block}) FROM {relation}").fetchone()[0])
    return [_described(connection, relation, block, column, blocks) for column in columns]


def _described(connection: Any, relation: str, block: str, column: Column, blocks: int) -> FeatureProfile:
    if column.family is Family.TEXT:
        return _text(connection, relation, block, column, blocks)
    if column.family.numeric:
        return _number(connection, relation, block, column, blocks)
    rows, missing = connection.execute(
        f"SELECT count(*), count(*) - count({quote(column.name)}) FROM {relation}"
    ).fetchone()
    return FeatureProfile(**asdict(column), rows=rows, missing=missing, infinite=0, bins=None)


def _text(connection: Any, relation: str, block: str, column: Column, blocks: int) -> FeatureProfile:
    value = as_text(column.name, column.type)
    found = connection.execute(
        f"SELECT v, count(*) AS n, {_ONLY_BLOCK}, {hash_of('v')} % {_HASHES} "
        f"FROM (SELECT {value} AS v, {block} AS b FROM {relation}) GROUP BY v ORDER BY n DESC, v"
    ).fetchall()
    present = [(name, n, only) for name, n, only, _ in found if name is not None and name != ""]
    rows = sum(n for _, n, _, _ in found)
    names = [name for name, _, _ in present]
    kept = sum(n for _, n, _ in present)
    every = 1
    while len(names) > MAX_KNOWN * every and every < _HASHES:
        every *= 2
    hashed = {name for name, _, _, hashed in found if hashed is not None and hashed % every == 0}
    others = tuple(name for name in names[TOP:] if name in hashed)
    return FeatureProfile(
        **asdict(column),
        rows=rows,
        missing=rows - kept,
        infinite=0,
        bins=CategoryBins(tuple(names[:TOP]), others, every == 1, 0 if every == 1 else every),
        distinct=len(names),
        new_rate=sum(n for _, n, only in present if only is not None) / max(kept, 1),
        new_values=_came_alone([(n, only) for _, n, only in present], blocks),
    )


def _number(connection: Any, relation: str, block: str, column: Column, blocks: int) -> FeatureProfile:
    inner = f"SELECT {as_number(column.name, column.type)} AS v, {block} AS b FROM {relation}"
    rows, present, infinite, distinct = connection.execute(
        f"SELECT count(*), count(v) FILTER (NOT isnan(v)), count(*) FILTER (isinf(v)), approx_count_distinct(v) "
        f"FROM ({inner})"
    ).fetchone()
    ordered = _ordered(connection, inner)
    quantiles = quantiles_of(ordered, LEVELS)
    values = _values(connection, inner) if distinct <= 1.5 * MAX_KNOWN else []
    finite = present - infinite
    new_rate = sum(n for _, n, only in values if only is not None) / max(finite, 1) if values else None
    few = 0 < len(values) <= MAX_SUPPORT and new_rate is not None and new_rate <= MAX_NEW_RATE
    limit = DISCRETE_FLOATS if column.family is Family.FLOAT else DISCRETE_INTEGERS
    discrete = column.family is Family.BOOLEAN or (0 < len(values) <= limit and column.family is not Family.TIME)
    return FeatureProfile(
        **asdict(column),
        rows=rows,
        missing=rows - present,
        infinite=infinite,
        bins=DiscreteBins(tuple(value for value, _, _ in values)) if discrete else _ranges(ordered, quantiles),
        distinct=len(values) or distinct,
        new_rate=new_rate,
        new_values=_came_alone([(n, only) for _, n, only in values], blocks),
        minimum=quantiles[0] if quantiles else None,
        maximum=quantiles[-1] if quantiles else None,
        levels=LEVELS if quantiles else (),
        quantiles=tuple(quantiles),
        support=tuple((value, n) for value, n, _ in values) if few or discrete else (),
    )


def _values(connection: Any, inner: str) -> list[tuple[float, int, int | None]]:
    found: list[tuple[float, int, int | None]] = connection.execute(
        f"SELECT v + 0, count(*) AS n, {_ONLY_BLOCK} FROM ({inner}) WHERE isfinite(v) GROUP BY v ORDER BY v"
    ).fetchall()
    return found


def _came_alone(values: Sequence[tuple[int, int | None]], blocks: int) -> int:
    """How many of the values (rows, the only block that holds it) of one block alone came by themselves.

    All of them, or as many as explain how unevenly blocks bring such rows: a cold day brings many low values at once.
    """
    new = [(n, only) for n, only in values if only is not None]
    if not new or blocks < 2:
        return len(new)
    rows = np.zeros(blocks)
    brought = np.unique([only for _, only in new], return_inverse=True)[1]
    np.add.at(rows, brought, [n for n, _ in new])
    together = float(rows.var(ddof=1) / rows.mean())
    return max(1, min(len(new), round(float(rows.sum()) / together))) if together > 1 else len(new)


def _ordered(connection: Any, inner: str) -> Floats:
    """The finite values, ascending."""
    found = connection.execute(f"SELECT v FROM ({inner}) WHERE isfinite(v)").fetchnumpy()["v"]
    return np.sort(np.asarray(found, dtype=np.float64))


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
    rest = ordered[~np.isin(ordered, atoms)] if atoms else ordered
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
