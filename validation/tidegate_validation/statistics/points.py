"""How single values weigh: the most frequent ones with how their share wanders from block to block, and how many digits
values have. A default that creeps in, a cut-off or a rounding shows here although no range of values changes much.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate_validation.statistics.arrays import Floats, Integers, largest, new_ones
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.reaches import share_of, stretches
from tidegate_validation.statistics.sample import TextSample, ValueSample

_KEPT = 200
_USUAL = 0.95
RARE = 0.1
"""Up to this part of what it weighs for a while a value is rare in all other blocks."""
_WEIGHS = 0.001
"""No test of a value is lenient enough for one that weighs less for a while to matter."""
_GRAINS = tuple(10.0**power for power in range(3, -5, -1))
FINEST = len(_GRAINS)
_DIGITS = 3e-7
_TELLING = 0.3
"""The part of a step up to which the error of 32-bit floats leaves it to be told."""
UNTOLD = FINEST + 1
_LARGEST = 1e290
"""Of larger values no finest grain has a finite multiple."""
_SUFFIX = "\x1fdigits"


@dataclass(frozen=True, slots=True)
class Point:
    """One value: its `share` of rows, the standard deviation `spread` of its share over blocks, its largest in one."""

    value: float | str
    share: float
    spread: float
    peak: float


@dataclass(frozen=True)
class Points:
    """The most frequent values, and what those beyond may weigh.

    `rest` is the largest share of a value that is not listed; `novel` the largest share in one block, beyond the one
    row that any value has, of a value that occurs in no other: how much a day's own value may weigh. `phases` are the
    largest shares over 1, 2, 4, ... blocks in a row of a value that was rare in all others: how much one may weigh that
    comes for a while, such as the price of what is sold most; 0 where that is next to nothing. `fresh` are the shares,
    in stretches of 1, 2, 4, ... blocks of training's later half, of values that came twice or more and that no block
    before the stretch had.
    """

    listed: tuple[Point, ...] = ()
    rest: float = 0.0
    novel: float = 0.0
    phases: tuple[float, ...] = ()
    fresh: tuple[float, ...] = ()

    @functools.cached_property
    def usual_peak(self) -> float:
        """The share that 19 of 20 listed values keep below on every day."""
        return float(np.quantile([point.peak for point in self.listed], _USUAL)) if self.listed else 0.0

    def phase(self, blocks: int) -> float:
        """The largest share that a value came to for a while, over so many blocks in a row."""
        return max((share * min(1.0, 2**place / blocks) for place, share in enumerate(self.phases)), default=0.0)

    def freshness(self, blocks: int) -> float:
        """The share of rows that so many blocks in a row hold of values that came up in them, as training's did."""
        return share_of(self.fresh, blocks)

    def of(self, value: float | str) -> Point:
        """What is known of a value, or what can be said at most of one that is not listed."""
        place = self._places.get(value)
        if isinstance(value, float):
            with np.errstate(over="ignore", invalid="ignore"):
                near = np.flatnonzero(np.abs(value - self._numbers) <= _DIGITS * np.abs(self._numbers))
            place = int(near[0]) if len(near) else place
        return Point(value, self.rest, self.rest, max(self.rest, self.novel)) if place is None else self.listed[place]

    @functools.cached_property
    def _places(self) -> Mapping[float | str, int]:
        return {point.value: place for place, point in reversed([*enumerate(self.listed)])}

    @functools.cached_property
    def _numbers(self) -> Floats:
        """The listed values, NaN for texts."""
        return np.array([one.value if isinstance(one.value, float) else np.nan for one in self.listed], np.float64)

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        columns = ("value", "share", "spread", "peak")
        listed = {name: [getattr(point, name) for point in self.listed] for name in columns}
        return {
            "listed": listed,
            "rest": self.rest,
            "novel": self.novel,
            "phases": list(self.phases),
            "fresh": list(self.fresh),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Points:
        """From JSON."""
        rows = zip(*(data["listed"][name] for name in ("value", "share", "spread", "peak")), strict=True)
        phases, fresh = (tuple(map(float, data.get(name, ()))) for name in ("phases", "fresh"))
        return cls(tuple(Point(*row) for row in rows), float(data["rest"]), float(data["novel"]), phases, fresh)


def weigh(sample: ValueSample | TextSample) -> Points:
    """The points of a reference column."""
    if len(sample.values) == 0:
        return Points()
    values, place = sample.placed
    day = sample.day
    sizes = np.bincount(day, weights=sample.n.astype(np.float64)).astype(np.float64)
    totals = np.bincount(place, weights=sample.n.astype(np.float64)).astype(np.float64)
    order = largest(totals, _KEPT + 1)
    kept = order[:_KEPT]
    # Of values beyond those listed only such as come more than once can weigh anything on a day of their own.
    told = totals > 1
    told[kept] = True
    pairs = np.flatnonzero(told[place])
    of = np.cumsum(told) - 1
    part = _PerBlock(of[place[pairs]], day[pairs], sample.n[pairs].astype(np.float64), sizes)
    shares = totals / sizes.sum()
    spread, peaks = part.spread(shares[told]), part.peaks()
    listed = tuple(
        Point(_plain(values[one]), float(shares[one]), float(spread[of[one]]), float(peaks[of[one]]))
        for one in kept.tolist()
    )
    return Points(
        listed, float(shares[order[_KEPT]]) if len(order) > _KEPT else 0.0, part.novel(), part.phases(), part.fresh()
    )


@dataclass(frozen=True)
class _PerBlock:
    """How often each value, `place` among some of them, ascending, came in a block `day`: `n` rows, all of shape [p],
    of the block's `sizes`, shape [B]."""

    place: Integers
    day: Integers
    n: Floats
    sizes: Floats

    def spread(self, shares: Floats) -> Floats:
        """By how much each value's share wanders from block to block."""
        place, sizes = self.place, self.sizes
        gaps = np.bincount(place, weights=(self.n - shares[place] * sizes[self.day]) ** 2)
        absent = (sizes**2).sum() - np.bincount(place, weights=sizes[self.day] ** 2)
        typical = sizes.sum() / len(sizes)
        return np.asarray(np.sqrt((gaps + shares**2 * absent) / max(len(sizes) - 1, 1)) / typical)

    def peaks(self) -> Floats:
        """The largest share of each value in one block."""
        return np.asarray(np.maximum.reduceat(self.n / self.sizes[self.day], self._starts))

    def novel(self) -> float:
        """The largest share, beyond the one row that any has, of values that came in one block alone."""
        starts = self._starts
        alone = starts[np.diff(starts, append=len(self.place)) == 1]
        return float(((self.n - 1) / self.sizes[self.day])[alone].max(initial=0.0))

    def phases(self) -> tuple[float, ...]:
        """The largest shares, beyond the one row that any value has, over 1, 2, 4, ... blocks in a row, up to a third
        of all, of values that were rare in the other blocks."""
        found, blocks = [], len(self.sizes)
        counted, rows = np.concatenate([[0.0], np.cumsum(self.n)]), np.concatenate([[0.0], np.cumsum(self.sizes)])
        totals, peaks = np.bincount(self.place, weights=self.n), np.maximum.reduceat(self.n, self._starts)
        # Places and days, as one number that ascends, with a gap that no stretch of days reaches across.
        moments = self.place * 2 * blocks + self.day
        for length in stretches(blocks):
            least = length * rows[-1] / blocks
            # Hardly any value can come to much in so few blocks and to little elsewhere; only these are looked at.
            most = np.minimum(totals, length * peaks)
            could = (most - 1 >= _WEIGHS * least) & (totals - most <= RARE * (most - 1) * blocks / length)
            begin = np.flatnonzero(could[self.place])
            place, day = self.place[begin], self.day[begin]
            inside = counted[np.searchsorted(moments, moments[begin] + length)] - counted[begin]
            covered = rows[np.minimum(day + length, blocks)] - rows[day]
            shares = (inside - 1) / np.maximum(covered, least)
            elsewhere = (totals[place] - inside) / np.maximum(rows[-1] - covered, 1.0)
            kept = (shares >= _WEIGHS) & (elsewhere <= RARE * shares)
            found.append(float(shares[kept].max(initial=0.0)))
        return tuple(found)

    def fresh(self) -> tuple[float, ...]:
        """The shares, in stretches of 1, 2, 4, ... blocks that reach back from the last one to the middle of all, of
        values that no block before their stretch held."""
        starts, blocks = self._starts, len(self.sizes)
        came = np.repeat(np.minimum.reduceat(self.day, starts), np.diff(starts, append=len(self.day)))
        found = []
        for length in stretches(blocks):
            begin = blocks - length * max(blocks // 2 // length, 1)
            stretch = blocks - length * ((blocks - 1 - self.day) // length + 1)
            new = (self.day >= begin) & (came >= stretch)
            found.append(float(self.n[new].sum() / self.sizes[begin:].sum()))
        return tuple(found)

    @functools.cached_property
    def _starts(self) -> Integers:
        return np.flatnonzero(new_ones(self.place))


def _plain(value: Any) -> float | str:
    return value if isinstance(value, str) else float(value)


def heaviest(sample: ValueSample | TextSample, least: float, most: int) -> list[tuple[float | str, float]]:
    """Values of a window that hold at least a share `least` of its rows, with their shares, the heaviest first."""
    if len(sample.values) == 0:
        return []
    values, place = sample.placed
    shares = np.asarray(np.bincount(place, weights=sample.n.astype(np.float64)) / sample.n.sum(), dtype=np.float64)
    return [(_plain(values[one]), float(shares[one])) for one in largest(shares, most) if shares[one] >= least]


def digits_name(feature: str) -> str:
    """Under which name the counts of a feature's digits are kept beside its own."""
    return f"{feature}{_SUFFIX}"


def digits_of(sample: ValueSample) -> FeatureCounts:
    """Rows per block by the coarsest power of ten that a value is a multiple of; zeros are left out."""
    values, place = sample.placed
    kept: Any = slice(None) if values.all() else np.flatnonzero(sample.values != 0)
    return FeatureCounts.from_rows(sample.blocks[kept], digits(values)[place[kept]], sample.n[kept])


def digits(values: Floats) -> Integers:
    """Per value the place of the coarsest power of ten that it is a multiple of, FINEST for none.

    Of large values that 32-bit floats may have gone through, the last digits say nothing: UNTOLD where no coarser power
    of ten fits either.
    """
    codes = np.full(values.shape, FINEST, dtype=np.int64)
    left = np.flatnonzero(np.abs(values) < _LARGEST)
    for code in range(FINEST - 1, -1, -1):
        scaled = values[left] / _GRAINS[code]
        whole = np.round(scaled)
        # What is no multiple of this one is a multiple of no coarser one.
        left = left[(np.abs(scaled - whole) <= _DIGITS * np.maximum(np.abs(scaled), 1e-6)) & (whole != 0)]
        codes[left] = code
    told = np.flatnonzero(codes < FINEST)
    codes[told[_DIGITS * np.abs(values[told]) > _TELLING * np.array(_GRAINS)[codes[told]]]] = UNTOLD
    return codes


def step_of(code: int) -> float:
    """The power of ten that a code of `digits` stands for."""
    return _GRAINS[code]
