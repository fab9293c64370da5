"""How far training's values lay from the middle of their own day: what a level, a season or a trend does not move.

A value beyond training's range on a hot day is near that day's others; one that a fault put there stands apart from
them, whatever the day. Small values of a positive column may lie no further from the middle of an ordinary day than all
of a hot one's do; where days differ by factors, how many times smaller they are tells them.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tidegate_validation.statistics.arrays import Floats, Integers, Mask, new_ones
from tidegate_validation.statistics.reaches import share_of, stretches
from tidegate_validation.statistics.sample import ValueSample

_LEAST_BLOCKS = 10
_LEAST_ROWS = 20
"""The middle of fewer rows tells little of a block."""
_HALF, _MOST = 0.5, 0.75
_LARGEST = 1e290
"""So that differences, and sums of them, stay finite."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """On one side of the median of their block, rows of `blocks` blocks of training lay no further from it than
    `furthest`, and than `times` the scatter of the block on that side, a median deviation of `usual` size. Of how far
    one block's is from that, the share `kept` is believed: the rest is chance. Both grow with each block by `growth`,
    as the dearest of prices that rise and the highest of many meters do. All are of logarithms where training's
    `smallest` value is told.

    `records` are the shares of blocks in stretches of 1, 2, 4, ... of training's later half that went beyond all blocks
    before their stretch in both, `spells` the largest share of one such stretch.
    """

    furthest: float
    times: float
    usual: float
    kept: float
    blocks: int
    records: tuple[float, ...]
    spells: tuple[float, ...]
    growth: tuple[float, float]
    smallest: float | None = None

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Deviation:
        """From JSON."""
        records, spells, growth = (tuple(map(float, data[name])) for name in ("records", "spells", "growth"))
        furthest, times, usual, kept = (float(data[name]) for name in ("furthest", "times", "usual", "kept"))
        smallest = None if data["smallest"] is None else float(data["smallest"])
        return cls(furthest, times, usual, kept, int(data["blocks"]), records, spells, (growth[0], growth[1]), smallest)

    def rate(self, ahead: int) -> float:
        """The share of blocks that go beyond training by nature, of a stretch that ends so many after it: one in as
        many as training has, or as many as its own stretches had."""
        return max(1 / (self.blocks + 1), share_of(self.records, ahead))

    def spell(self, length: int) -> float:
        """The largest share of blocks that did so in a stretch of training which was no longer."""
        known = [share for place, share in enumerate(self.spells) if 2**place <= length]
        return known[-1] if known else 0.0


Deviations = tuple[Deviation, Deviation]
"""Of values below the middle of their block, and above it."""


def deviations_of(sample: ValueSample) -> Deviations | None:
    """The deviations of a reference column, below the middle in logarithms where their scatter differs less between
    blocks then; None of too few blocks."""
    blocks = _Blocks.of(sample)
    if blocks is None or blocks.number < _LEAST_BLOCKS:
        return None
    smallest = float(sample.values[0])
    scales = (blocks, blocks.scaled(smallest)) if smallest > 0 else (blocks,)
    steadier = min(scales, key=lambda one: one.spread(-1))
    return steadier.deviation(-1), blocks.deviation(1)


def rows_beyond(
    sample: ValueSample, known: Deviation, side: int, limit: float, ahead: int
) -> tuple[Floats, Floats] | None:
    """Of each block of a window that has enough rows, and ends so many blocks `ahead`: how many lie beyond the `limit`
    on a side, -1 or 1, and how many of these stand apart from their block, further from its middle than any row of
    training from its own, were it to grow on. None without such a block."""
    blocks = _Blocks.of(sample, known.smallest)
    if blocks is None:
        return None
    away = blocks.away(side)
    beyond = side * (blocks.values - _scaled(np.float64(limit), known.smallest)) > 0
    scatter = _steadied(blocks.scatter(side), known.usual, known.kept)
    limits = zip((known.furthest, known.times), known.growth, strict=True)
    furthest, times = (now + ahead * more for now, more in limits)
    apart = beyond & (away > np.maximum(furthest, times * scatter[blocks.place]))
    return blocks.rows(beyond), blocks.rows(apart)


def deviations_from_dict(data: Sequence[Mapping[str, Any]] | None) -> Deviations | None:
    """From JSON."""
    if not data:
        return None
    below, above = data
    return Deviation.from_dict(below), Deviation.from_dict(above)


@dataclass(frozen=True)
class _Blocks:
    """Rows in order of their blocks, and of their values. `reached` says how many there are up to each of them, `sizes`
    how many each of the `number` blocks has, `halves` which of them is the block's middle. Values are logarithms where
    training's `smallest` is told."""

    values: Floats
    n: Floats
    place: Integers
    reached: Floats
    sizes: Floats
    halves: Integers
    smallest: float | None = None

    @classmethod
    def of(cls, sample: ValueSample, smallest: float | None = None) -> _Blocks | None:
        """The blocks of a sample that have enough rows; None without one."""
        if not len(sample.values):
            return None
        place, order = sample.day, sample.by_day
        enough = np.bincount(place, sample.n) >= _LEAST_ROWS
        if not enough.any():
            return None
        place = place[order]
        if not enough.all():
            order, place = order[enough[place]], (np.cumsum(enough) - 1)[place[enough[place]]]
        n = sample.n[order].astype(np.float64)
        reached, sizes = np.cumsum(n), np.bincount(place, n).astype(np.float64)
        halves = np.searchsorted(reached, np.cumsum(sizes) - sizes / 2)
        return cls(_scaled(sample.values[order], smallest), n, place, reached, sizes, halves, smallest)

    def scaled(self, smallest: float) -> _Blocks:
        """The same of logarithms, which leave values in their order."""
        return replace(self, values=_scaled(self.values, smallest), smallest=smallest)

    @property
    def number(self) -> int:
        """How many blocks there are."""
        return len(self.sizes)

    def rows(self, which: Mask) -> Floats:
        """How many of the rows each block has."""
        return np.bincount(self.place, which * self.n, self.number).astype(np.float64)

    def away(self, side: int) -> Floats:
        """How far each row lies from its block's middle on a side of it; negative on the other."""
        return self._above if side > 0 else -self._above

    def there(self, side: int) -> Floats:
        """How many rows of each block lie on a side of its middle."""
        return self._sides[side > 0]

    def scatter(self, side: int, share: float = _HALF) -> Floats:
        """How far the nearest `share` of each block's rows on a side of its middle lie from it at most, 0 without any:
        half of them, which the furthest do not move."""
        there = self.there(side)
        beyond = (1 - share) * there
        found = np.searchsorted(self.reached, np.cumsum(self.sizes) - (beyond if side > 0 else self.sizes - beyond))
        away = self._above[np.minimum(found, len(self.values) - 1)]
        return np.where(there > 0, away if side > 0 else -away, 0.0)

    @functools.cached_property
    def _above(self) -> Floats:
        return np.asarray(self.values - self.values[self.halves][self.place])

    @functools.cached_property
    def _sides(self) -> tuple[Floats, Floats]:
        return self.rows(self._above < 0), self.rows(self._above > 0)

    def chance(self, side: int, scatter: Floats) -> Floats:
        """The variance that the logarithm of each block's scatter has by chance, as the logarithm of a median."""
        between = self.scatter(side, _MOST) - self.scatter(side, 1 - _MOST)
        rows = np.maximum(self.there(side), 1.0)
        return np.divide(between, scatter, out=np.zeros(self.number), where=scatter > 0) ** 2 / rows

    def spread(self, side: int) -> float:
        """The variance of the logarithm of the scatter between blocks."""
        scatter = self.scatter(side)
        return float(np.log(scatter[scatter > 0]).var()) if (scatter > 0).any() else 0.0

    def deviation(self, side: int) -> Deviation:
        """How far rows lie from the middle of their block on a side of it."""
        scatter = self.scatter(side)
        some = scatter > 0
        usual = float(np.exp(np.log(scatter[some]).mean())) if some.any() else 0.0
        spread = self.spread(side)
        kept = max(spread - float(self.chance(side, scatter)[some].mean()), 0.0) / spread if spread else 0.0
        starts = np.flatnonzero(new_ones(self.place))
        most = np.maximum(np.maximum.reduceat(self.away(side), starts), 0.0)
        times = most / _steadied(scatter, usual, kept) if usual else most
        found = [_records(most, times, length) for length in stretches(self.number)]
        return Deviation(
            furthest=float(most.max()),
            times=float(times.max()),
            usual=usual,
            kept=kept,
            blocks=self.number,
            records=tuple(float(one.mean()) for one in found),
            spells=tuple(float(one.max()) for one in found),
            growth=(_growth(most), _growth(times)),
            smallest=self.smallest,
        )


def _scaled(values: Floats | np.float64, smallest: float | None) -> Floats:
    """Values, or their logarithms where training's `smallest` one is told. What is less than half of it, as the nought
    to which that may be rounded, counts as half of it, and what is below nought as far away."""
    values = np.clip(values, -_LARGEST, _LARGEST)
    if smallest is None:
        return np.asarray(values)
    return np.where(values < 0, -_LARGEST, np.log(np.maximum(values, max(smallest / 2, np.finfo(np.float64).tiny))))


def _steadied(scatter: Floats, usual: float, kept: float) -> Floats:
    """The scatter of blocks without what is chance of it."""
    return np.where(scatter > 0, usual ** (1 - kept) * scatter**kept, usual)


def _records(most: Floats, times: Floats, length: int) -> Floats:
    """The share of blocks that went beyond all blocks before their stretch in both, of each stretch of that length in
    the later half, of which the last one ends with the last block."""
    number = max(len(most) // 2 // length, 1)
    starts = len(most) - length * np.arange(number, 0, -1)
    beyond = [[one[start : start + length] > one[:start].max(initial=0.0) for start in starts] for one in (most, times)]
    return np.asarray(np.logical_and(*map(np.asarray, beyond)).mean(axis=1))


def _growth(far: Floats) -> float:
    """By how much the far ones of blocks, in their order, grow with each; 0 where they shrink."""
    half = len(far) // 2
    early, late = (float(np.quantile(one, _MOST)) for one in (far[:half], far[-half:]))
    return max(late - early, 0.0) / (len(far) - half)
