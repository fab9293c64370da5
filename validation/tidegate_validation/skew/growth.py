"""Columns of numbers that grow with time, such as counters and ids, of which no window looks like training.

What is asked of them is whether they go on as they did: how far they may have come is told by how fast they grew. A
season or a trend beneath the scatter of rows is no such growth, and is compared as any other column is.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.bins import DiscreteBins, NumericBins
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sample import TextSample, ValueSample
from tidegate_validation.statistics.sql import Family

CHECK = "growth"
NOT_AS_BEFORE = "does not grow on"
FEW_VALUES = "few values"
_LEAST_BLOCKS = 10
_LEAST_RISES = 8
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
_FEWER = 0.2
"""With fewer than this part of the different values that training would have, it was rounded or is stuck."""


@dataclass(frozen=True, slots=True)
class Growth:
    """How a column grew over training's blocks: from `start` to `end` within `blocks` of them, at most by `fastest` in
    one; a value may be `room` away from where growth leads. `last` is training's last block, `values` how many
    different ones a block has. What shrinks has negative numbers."""

    start: float
    end: float
    blocks: int
    fastest: float
    room: float
    last: int
    values: float

    def within(self, ahead: float) -> tuple[float, float]:
        """Between which values a block may lie that comes so many blocks after training's last one."""
        far = self.end + _FASTER * self.fastest * max(ahead, 1.0)
        return min(self.end, far) - self.room, max(self.end, far) + self.room


def growth_of(feature: FeatureProfile, counts: FeatureCounts) -> Growth | None:
    """How a column grows over its blocks; None where it does not, where rows of one block differ as all do, or where
    values are too few to tell how far it came."""
    bins = feature.bins
    if feature.family is Family.BOOLEAN or not isinstance(bins, NumericBins | DiscreteBins):
        return None
    if feature.minimum is None or feature.maximum is None or feature.minimum >= feature.maximum:
        return None
    middles, scatter, blocks = _of_blocks(_values_of(bins), counts)
    if len(middles) < _LEAST_BLOCKS:
        return None
    total = middles[-1] - middles[0]
    way = float(np.sign(total))
    if not way or _rising(way * middles) < _RISING or scatter > _SCATTER * abs(total):
        return None
    reached = np.maximum.accumulate(way * middles)
    if (np.diff(reached) > 0).sum() < _LEAST_RISES:
        return None
    width = _width_of_bins(bins, way)
    if width > _COARSE * abs(total):
        return None
    jumps = np.diff(reached) / np.diff(blocks)
    return Growth(
        start=feature.minimum if way > 0 else feature.maximum,
        end=feature.maximum if way > 0 else feature.minimum,
        blocks=int(blocks[-1] - blocks[0]) + 1,
        fastest=way * _fastest(reached, blocks),
        room=_WIDE * scatter + _JUMPS * float(jumps.max()) + width,
        last=int(blocks[-1]),
        values=feature.distinct / len(middles),
    )


def finding_of_growth(
    growth: Growth, feature: FeatureProfile, sample: ValueSample | TextSample, by_day: bool, floor: float
) -> Finding | None:
    """Whether a window grows on as training did; None where it begins before training ends, holds no values, or one.

    More than a share `floor` of values elsewhere than where growth leads, or few values over and over, fail.
    """
    if not isinstance(sample, ValueSample) or not len(sample.values):
        return None
    if by_day and sample.blocks.min() < growth.last:
        return None
    ahead = sample.blocks - growth.last if by_day else sample.blocks + 1
    low, high = growth.within(float(ahead.max()))
    away = float(sample.n[(sample.values < low) | (sample.values > high)].sum() / sample.n.sum())
    way = "grows" if growth.fastest > 0 else "shrinks"
    held = f"`{feature.name}`: {way} with time"
    told = f"(from {_value(feature, growth.start)} to {_value(feature, growth.end)})"
    distinct = len(sample.distinct()[0])
    rows, blocks = float(sample.n.sum()), len(np.unique(sample.blocks))
    if distinct < _FEWER * min(growth.values * blocks, rows):
        if distinct == 1:
            return None
        sentence = f"{held} in training {told}, and holds only {distinct} different values now (rounded?)"
        cause: Mapping[str, Any] = {"kind": FEW_VALUES, "share": 1.0}
        return Finding(CHECK, feature.name, Outcome.FAIL, sentence, number=float(distinct), cause=cause)
    if away <= floor:
        return Finding(CHECK, feature.name, Outcome.PASS, f"{held}, as it did in training {told}", number=away)
    where = f"{_value(feature, low)} to {_value(feature, high)}"
    sentence = (
        f"{held} in training {told}, and {100 * away:.1f} % of the values lie elsewhere than it leads to ({where})"
    )
    cause = {"kind": NOT_AS_BEFORE, "share": round(away, 4)}
    return Finding(CHECK, feature.name, Outcome.FAIL, sentence, number=away, limit=floor, cause=cause)


def _value(feature: FeatureProfile, value: float) -> str:
    if feature.family is Family.TIME:
        return str(np.datetime64(round(value), "s")).replace("T", " ")[:16]
    return f"{value:.6g}" if feature.family is Family.FLOAT else f"{value:.0f}"


def _values_of(bins: NumericBins | DiscreteBins) -> Floats:
    """A value for each code, which lies in the middle of a range; those outside training's range have its ends."""
    if isinstance(bins, DiscreteBins):
        return np.array([*bins.values, np.nan])
    edges = np.asarray(bins.edges)
    inner = np.clip(np.concatenate([[edges[0]], (edges[1:] + edges[:-1]) / 2, [edges[-1]]]), edges[1], edges[-2])
    return np.concatenate([inner, bins.atoms])


def _of_blocks(values: Floats, counts: FeatureCounts) -> tuple[Floats, float, Floats]:
    """The mean of each block, the usual standard deviation within one, and the blocks' numbers."""
    there = (counts.codes >= 0) & (counts.codes < len(values))
    codes = counts.codes[there]
    told = np.isfinite(values[codes])
    n, held = counts.n[:, there][:, told].astype(np.float64), values[codes][told]
    rows = n.sum(axis=1)
    some = rows > 0
    n, rows = n[some], rows[some]
    middles = n @ held / np.maximum(rows, 1.0)
    spread = n @ held**2 / np.maximum(rows, 1.0) - middles**2
    scatter = float(np.sqrt(np.median(np.maximum(spread, 0.0)))) if len(rows) else 0.0
    return middles, scatter, counts.blocks[some].astype(np.float64)


def _rising(middles: Floats) -> float:
    """The share of pairs of blocks of which the later is no lower."""
    later = np.triu(np.ones((len(middles), len(middles)), dtype=np.bool_), k=1)
    return float((middles[None, :] >= middles[:, None])[later].mean())


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
