"""Columns of numbers that grow with time, such as counters and ids, of which no window looks like training.

What is asked of them is whether they go on as they did: how far they may have come is told by how fast they grew. A
season or a trend beneath the scatter of rows is no such growth, and is compared as any other column is.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.bins import DiscreteBins, NumericBins
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile, Profile
from tidegate_validation.statistics.sql import Family

_LEAST_BLOCKS = 10
_LEAST_RISES = 8
_LEAST_STEPS = 3
_RISING = 0.97
"""The share of pairs of blocks of which the later is no lower, from which on a column grows."""
_SCATTER = 0.4
"""Rows of one block differ by no more than this part of the whole growth."""
_COARSE = 0.5
"""A bin that is wider than this part of the whole growth does not tell how far it came."""
_FASTER = 2.0
"""It may go on so many times as fast as in training,"""
_WIDE = 6.0
"""and its rows may lie so many standard deviations of one block away,"""
_JUMPS = 2.0
"""and so many of the largest steps between two blocks."""
_PARTS = 3
_LARGEST = 1e100
"""Squares of larger values, and sums of them, may have no end: these are reckoned in a unit of their own."""
_FINE = 0.6
"""The least that scatter may be, as a part of the most, from which on it is known."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How a column grew over training's blocks: from `start` to `end` within `blocks` of them, at most by `fastest` in
    one; a value may be `room` away from where growth leads. `last` is training's last block, `values` how many
    different ones a block has. What shrinks has negative numbers.

    The mean of the last block was `level`; each has grown by `rate` since, as it did on average, with a standard
    deviation of `wander`. Values of one block have one of `scatter`, which is known as well as ranges of `coarse` width
    tell. It goes by `steps` where a few even ones last for many blocks, as months do, and never comes back to one.
    """

    start: float
    end: float
    blocks: int
    fastest: float
    room: float
    last: int
    values: float
    level: float
    rate: float
    wander: float
    scatter: float
    coarse: float
    steps: bool

    def within(self, ahead: float, dated: bool) -> tuple[float, float]:
        """Between which values a block may lie that comes so many blocks after training's last one. Steps do not go
        back where blocks are `dated`: the order of rows may be another one."""
        far = self.end + _FASTER * self.fastest * max(ahead, 1.0)
        behind = 0.0 if self.steps and dated else self.room
        if self.fastest > 0:
            return self.end - behind, far + self.room
        return far - self.room, self.end + behind

    def apart(self, scatter: float) -> float:
        """The logarithm by which a scatter of one block's values is more (positive) or less than in training, as far as
        that is known; 0 where all values of a block are one and the same, here or in training."""
        most = float(np.hypot(self.scatter, self.coarse / 2))
        if not scatter or not most or self.least <= scatter <= most:
            return 0.0
        return float(np.log(scatter / most if scatter > most else scatter / self.least))

    @property
    def least(self) -> float:
        """The least that training's scatter of a block may have been: values of one range may all be the same."""
        return float(max(self.scatter**2 - self.coarse**2 / 12, 0.0) ** 0.5)

    @property
    def fine(self) -> bool:
        """Whether the scatter of a block's values is known about as well as values are."""
        return self.least > _FINE * float(np.hypot(self.scatter, self.coarse / 2))

    def expected(self, ahead: Floats) -> tuple[Floats, Floats]:
        """The mean of blocks that come so many after training's last one, and its standard error, both of its shape."""
        slower = abs(self.fastest - self.rate) / 2
        return self.level + self.rate * ahead, np.hypot(self.wander * np.sqrt(np.abs(ahead)), slower * np.abs(ahead))


def growth_of(feature: FeatureProfile, counts: FeatureCounts) -> Growth | None:
    """How a column grows over its blocks; None where it does not, where rows of one block differ as all do, or where
    values are too few to tell how far it came."""
    bins = feature.bins
    if feature.family is Family.BOOLEAN or not isinstance(bins, NumericBins | DiscreteBins):
        return None
    if feature.minimum is None or feature.maximum is None or feature.minimum >= feature.maximum:
        return None
    middles, scatter, blocks = blocks_of(bins, counts)
    if len(middles) < _LEAST_BLOCKS:
        return None
    total = middles[-1] - middles[0]
    way = float(np.sign(total))
    if not way or _rising(way * middles) < _RISING or scatter > _SCATTER * abs(total):
        return None
    reached = np.maximum.accumulate(way * middles)
    steps = _step_by_step(bins, way * middles)
    if (np.diff(reached) > 0).sum() < _LEAST_RISES and not steps:
        return None
    width = _width_of_bins(bins, way)
    if width > _COARSE * abs(total):
        return None
    jumps = np.diff(reached) / np.diff(blocks)
    moves = np.diff(middles) / np.diff(blocks)
    values = feature.distinct / len(middles)
    return Growth(
        start=feature.minimum if way > 0 else feature.maximum,
        end=feature.maximum if way > 0 else feature.minimum,
        blocks=int(blocks[-1] - blocks[0]) + 1,
        fastest=way * _fastest(reached, blocks),
        room=_WIDE * scatter + _JUMPS * float(jumps.max()) + width,
        last=int(blocks[-1]),
        values=values,
        level=float(middles[-1]),
        rate=float(total / (blocks[-1] - blocks[0])),
        wander=float(moves.std()),
        scatter=scatter,
        coarse=_usual_width(bins),
        steps=steps and values < 1,
    )


def growths_of(profile: Profile) -> dict[str, Growth]:
    """How those inputs of a profile grow that do, by name."""
    inputs = [one for one in profile.inputs if one.bins is not None]
    found = {one.name: growth_of(one, profile.counts[one.name]) for one in inputs}
    return {name: one for name, one in found.items() if one is not None}


def scatter_within(values: Floats, blocks: Integers, n: Integers | Floats) -> float:
    """The usual standard deviation of values within a block; arrays of shape [n], of which `n` are numbers of rows."""
    places = np.unique(blocks, return_inverse=True)[1]
    rows = np.bincount(places, n)
    middles = np.bincount(places, n * values) / rows
    spread = np.bincount(places, n * (values - middles[places]) ** 2)
    some = rows > 1
    return float(np.sqrt(np.median(spread[some] / (rows[some] - 1)))) if some.any() else 0.0


def _values_of(bins: NumericBins | DiscreteBins) -> Floats:
    """A value for each code, which lies in the middle of a range; those outside training's range have its ends."""
    if isinstance(bins, DiscreteBins):
        return np.array([*bins.values, np.nan])
    edges = np.asarray(bins.edges)
    if not len(edges):
        return np.array([np.nan, *bins.atoms])  # One range holds whatever there is.
    inner = np.clip(np.concatenate([[edges[0]], (edges[1:] + edges[:-1]) / 2, [edges[-1]]]), edges[1], edges[-2])
    return np.concatenate([inner, bins.atoms])


def blocks_of(bins: NumericBins | DiscreteBins, counts: FeatureCounts) -> tuple[Floats, float, Floats]:
    """The mean of each block, the usual standard deviation within one, and the blocks' numbers."""
    values = _values_of(bins)
    there = (counts.codes >= 0) & (counts.codes < len(values))
    codes = counts.codes[there]
    told = np.isfinite(values[codes])
    n, held = counts.n[:, there][:, told].astype(np.float64), values[codes][told]
    rows = n.sum(axis=1)
    some = rows > 0
    n, rows = n[some], rows[some]
    unit = max(float(np.abs(held).max(initial=0.0)) / _LARGEST, 1.0)
    held = held / unit
    middles = n @ held / np.maximum(rows, 1.0)
    spread = n @ held**2 / np.maximum(rows, 1.0) - middles**2
    scatter = float(np.sqrt(np.median(np.maximum(spread, 0.0)))) if len(rows) else 0.0
    return middles * unit, scatter * unit, counts.blocks[some].astype(np.float64)


def _rising(middles: Floats) -> float:
    """The share of pairs of blocks of which the later is no lower."""
    later = np.triu(np.ones((len(middles), len(middles)), dtype=np.bool_), k=1)
    return float((middles[None, :] >= middles[:, None])[later].mean())


def _step_by_step(bins: NumericBins | DiscreteBins, middles: Floats) -> bool:
    """Whether a few values on an even grid came one after the other and none again, as months do."""
    if not isinstance(bins, DiscreteBins) or len(bins.values) < _LEAST_STEPS or (np.diff(middles) < 0).any():
        return False
    steps = np.diff(bins.values)
    return bool((steps == steps[0]).all())


def _fastest(reached: Floats, blocks: Floats) -> float:
    """Growth by the block in the part of training where it was fastest."""
    ends = np.linspace(0, len(reached) - 1, _PARTS + 1).astype(np.int64)
    return float((np.diff(reached[ends]) / np.diff(blocks[ends])).max())


def _width_of_bins(bins: NumericBins | DiscreteBins, way: float) -> float:
    """How wide the last range is that growth reached, within which nothing is known."""
    if isinstance(bins, DiscreteBins):
        return 0.0
    edges = bins.edges[1:-1]
    return abs(edges[-1] - edges[-2] if way > 0 else edges[1] - edges[0]) if len(edges) > 1 else 0.0


def _usual_width(bins: NumericBins | DiscreteBins) -> float:
    """How wide the ranges usually are."""
    return 0.0 if isinstance(bins, DiscreteBins) else float(np.median(np.diff(bins.edges[1:-1])))
