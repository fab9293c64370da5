"""How far training's values lay from the middle of their own day: what a level, a season or a trend does not move.

A value beyond training's range on a hot day is near that day's others; one that a fault put there stands apart from
them, whatever the day.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate_validation.statistics.arrays import Floats, Integers, Mask, places_of
from tidegate_validation.statistics.reaches import share_of, stretches
from tidegate_validation.statistics.sample import ValueSample

_LEAST_BLOCKS = 10
_LEAST_ROWS = 20
"""The middle of fewer rows tells little of a block."""
_LARGEST = 1e290
"""So that differences, and sums of them, stay finite."""


@dataclass(frozen=True, slots=True)
class Deviation:
    """On one side of the median of their block, rows of `blocks` blocks of training lay no further from it than
    `furthest`, and than `times` the scatter of the block on that side, a mean deviation of `usual` size. Of how far one
    block's is from that, the share `kept` is believed: the rest is chance.

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

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Deviation:
        """From JSON."""
        records, spells = (tuple(map(float, data[name])) for name in ("records", "spells"))
        furthest, times, usual, kept = (float(data[name]) for name in ("furthest", "times", "usual", "kept"))
        return cls(furthest, times, usual, kept, int(data["blocks"]), records, spells)

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
    """The deviations of a reference column; None of too few blocks."""
    blocks = _Blocks.of(sample)
    if blocks is None or blocks.number < _LEAST_BLOCKS:
        return None
    return blocks.deviation(-1), blocks.deviation(1)


def rows_beyond(sample: ValueSample, known: Deviation, side: int, limit: float) -> tuple[Floats, Floats] | None:
    """Of each block of a window that has enough rows: how many lie beyond the `limit` on a side, -1 or 1, and how many
    of these stand apart from their block, further from its middle than any row of training from its own. None without
    such a block."""
    blocks = _Blocks.of(sample)
    if blocks is None:
        return None
    away = blocks.away(side)
    beyond = side * (blocks.values - limit) > 0
    scatter = _steadied(blocks.scatter(side), known.usual, known.kept)
    apart = beyond & (away > np.maximum(known.furthest, known.times * scatter[blocks.place]))
    return blocks.rows(beyond), blocks.rows(apart)


def deviations_from_dict(data: Sequence[Mapping[str, Any]] | None) -> Deviations | None:
    """From JSON."""
    if not data:
        return None
    below, above = data
    return Deviation.from_dict(below), Deviation.from_dict(above)


@dataclass(frozen=True, slots=True)
class _Blocks:
    """Rows in order of their blocks, of which there are `number`, and the `middles` of these."""

    values: Floats
    n: Floats
    place: Integers
    middles: Floats
    number: int

    @classmethod
    def of(cls, sample: ValueSample) -> _Blocks | None:
        """The blocks of a sample that have enough rows; None without one."""
        if not len(sample.values):
            return None
        place = places_of(sample.blocks)[1]
        kept = np.bincount(place, sample.n)[place] >= _LEAST_ROWS
        if not kept.any():
            return None
        blocks, place = places_of(sample.blocks[kept])
        order = np.argsort(place, kind="stable")
        values = np.clip(sample.values[kept][order], -_LARGEST, _LARGEST)
        n, place = sample.n[kept][order].astype(np.float64), place[order]
        rows = np.bincount(place, n)
        halves = np.cumsum(rows) - rows / 2
        middles = values[np.searchsorted(np.cumsum(n), halves)]
        return cls(values, n, place, middles, len(blocks))

    def rows(self, which: Mask) -> Floats:
        """How many of the rows each block has."""
        return np.bincount(self.place, which * self.n, self.number).astype(np.float64)

    def away(self, side: int) -> Floats:
        """How far each row lies from its block's middle on a side of it; negative on the other."""
        return np.asarray(side * (self.values - self.middles[self.place]))

    def scatter(self, side: int) -> Floats:
        """The mean deviation from its middle of each block's rows on a side of it, 0 without any."""
        away = np.maximum(self.away(side), 0.0)
        sums = np.bincount(self.place, self.n * away, self.number)
        return np.asarray(sums / np.maximum(self.rows(away > 0), 1.0))

    def chance(self, side: int, scatter: Floats) -> Floats:
        """The variance that the logarithm of each block's scatter has by chance."""
        away, usual = np.maximum(self.away(side), 0.0), scatter[self.place]
        squares = np.divide(away, usual, out=np.zeros(len(away)), where=usual > 0) ** 2
        rows = np.maximum(self.rows(away > 0), 1.0)
        return np.asarray((np.bincount(self.place, self.n * squares, self.number) / rows - 1) / rows)

    def deviation(self, side: int) -> Deviation:
        """How far rows lie from the middle of their block on a side of it."""
        scatter = self.scatter(side)
        some = scatter > 0
        usual = float(np.exp(np.log(scatter[some]).mean())) if some.any() else 0.0
        spread = float(np.log(scatter[some]).var()) if some.any() else 0.0
        kept = max(spread - float(self.chance(side, scatter)[some].mean()), 0.0) / spread if spread else 0.0
        most = np.zeros(self.number)
        np.maximum.at(most, self.place, self.away(side))
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
        )


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
