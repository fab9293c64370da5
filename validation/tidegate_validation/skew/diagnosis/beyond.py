"""Values beyond training's range: in another unit where that alone brings them back, else told as what they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tidegate_validation.skew.diagnosis.cause import AFFINE, FACTOR, OFFSET, Cause
from tidegate_validation.skew.diagnosis.suspect import Joint, Suspect, both, distance_of
from tidegate_validation.skew.diagnosis.units import Conversion, affine, named_factors
from tidegate_validation.skew.measures.growth import blocks_of
from tidegate_validation.skew.rule import Aspect
from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.bins import DiscreteBins, NumericBins
from tidegate_validation.statistics.sample import ValueSample

OUTSIDE = "outside the range"
NEW_VALUE = "new value"
_FEW = 0.5
_LEAVES = 0.4
_NOISY = 1.5
_BEYOND = 0.6
_BACK = 0.98
_NEARLY_BACK = 0.8
"""Of a season that goes on beyond training's range not all come back: one that brings back so many is a rival."""
_LEAST_ROWS = 20
_LEAST_BLOCKS = 5
_SPREAD = 0.15
"""The logarithm by which the scatter of a few days differs from that of others."""
_FURTHEST = 2.5
_FURTHEST_LEVEL = 4.0
"""So many standard deviations of training's days its middle may lie from theirs: a season goes on."""
_SURELY = 3.0
_UNLIKELY = 3.0
"""What is below zero now and then is a temperature rather than a length or a weight."""
_SIGN = -1.0
_HEAVY = 0.2
_SAME = 0.95
_SEVERAL = 5


def usual_conversion(suspect: Suspect, sample: ValueSample) -> Cause | None:
    """The one usual conversion that brings values back into training's range and to the scatter of its days, where most
    lie beyond it; days too few to compare distributions are told apart by that. A round number is no unit."""
    bins, low, high = suspect.feature.bins, suspect.feature.minimum, suspect.feature.maximum
    if not isinstance(bins, NumericBins) or low is None or high is None or sample.n.sum() < _LEAST_ROWS:
        return None
    rows = float(sample.n.sum())
    if sample.n[(sample.values < low) | (sample.values > high)].sum() < _BEYOND * rows:
        return None
    middles, scatter, _ = blocks_of(bins, suspect.reference)
    if len(middles) < _LEAST_BLOCKS or not scatter:
        return None
    usual, wander = float(np.median(middles)), float(np.hypot(middles.std(), scatter / 3))
    level = float(np.average(sample.values, weights=sample.n))
    served = _within_days(sample)
    told = []
    for one in _conversions():
        back = (sample.values - one.offset) / one.factor
        inside = float(sample.n[(back >= low) & (back <= high)].sum()) / rows
        if inside < _NEARLY_BACK:
            continue
        gap = abs(np.log(served / abs(one.factor) / scatter)) / _SPREAD if served else np.inf
        off = abs((level - one.offset) / one.factor - usual) / wander
        if gap <= _FURTHEST and off <= _FURTHEST_LEVEL:
            told.append(((gap**2 + off**2) / 2 + (_UNLIKELY if low < 0 and not one.offset else 0.0), one, inside))
    told.sort(key=lambda one: one[0])
    if not told or (len(told) > 1 and told[1][0] - told[0][0] < _SURELY):
        return None
    _, best, inside = told[0]
    if inside < _BACK:
        return None
    if not (best.words or best.factor == _SIGN) or not _keeps_points(suspect, sample, best):
        return None
    kind = FACTOR if not best.offset else OFFSET if best.factor == 1.0 else AFFINE
    return Cause(kind, best.factor, best.offset, name=best.words or None)


def _keeps_points(suspect: Suspect, sample: ValueSample, change: Conversion) -> bool:
    """Whether what weighed much in training does so with the change undone: a column that was mostly zero is so in any
    unit."""
    back, rows = (sample.values - change.offset) / change.factor, float(sample.n.sum())
    heavy = [one for one in suspect.feature.points.listed if isinstance(one.value, float) and one.share >= _HEAVY]
    return all(sample.n[np.isclose(back, one.value)].sum() >= _FEW * one.share * rows for one in heavy)


def _within_days(sample: ValueSample) -> float:
    """The usual standard deviation of the values of one day."""
    days, day = np.unique(sample.blocks, return_inverse=True)
    rows = np.bincount(day, sample.n, len(days))
    means = np.bincount(day, sample.n * sample.values, len(days)) / rows
    squares = np.bincount(day, sample.n * (sample.values - means[day]) ** 2, len(days)) / rows
    return float(np.sqrt(np.median(squares)))


def _conversions() -> Iterator[Conversion]:
    """Those that are common, the others with an offset, and a sign that was lost."""
    yield Conversion(_SIGN, "", "")
    yield from affine()
    yield from (one for one in named_factors() if one.common)


def outside(suspect: Suspect, sample: ValueSample) -> Cause | None:
    """Values beyond training's lowest or highest, where nothing else is unlike training; one and the same value where
    nearly all of them are that."""
    if not (suspect.flagged(Aspect.OUTSIDE) or suspect.flagged(Aspect.RANGE) or suspect.flagged(Aspect.UNSEEN)):
        return None
    low, high = suspect.feature.minimum, suspect.feature.maximum
    if low is None or high is None:
        return None
    rows = float(sample.n.sum())
    above = float(sample.n[sample.values > high].sum()) / rows
    below = float(sample.n[sample.values < low].sum()) / rows
    if max(above, below) == 0:
        return None
    unseen = suspect.numbers.unseen
    if unseen is not None and suspect.flagged(Aspect.UNSEEN) and _FEW * unseen.share > max(above, below):
        return None
    if not _explained_by_the_ends(suspect, sample, low, high):
        return None
    strange = (sample.values > high) | (sample.values < low)
    heaviest = sample.values[strange][int(np.argmax(sample.n[strange]))]
    held = float(sample.n[sample.values == heaviest].sum())
    if held >= max(_SAME * (above + below) * rows, _SEVERAL):
        return Cause(NEW_VALUE, share=held / rows, details=(("value", float(heaviest)),))
    side, share, limit = ("above", above, high) if above >= below else ("below", below, low)
    return Cause(OUTSIDE, share=share, details=(("side", side), ("limit", limit), *_where(suspect.joint(), low, high)))


def _where(joint: Joint, low: float, high: float) -> Iterator[tuple[str, Any]]:
    """The categories of another column whose rows are the ones, such as some of many producers."""
    found = joint.only_where((joint.values < low) | (joint.values > high), joint.beside)
    if found is not None:
        column, (value, *more) = found
        yield "where", {"column": column, "value": value} | ({"or": more} if more else {})


def _explained_by_the_ends(suspect: Suspect, sample: ValueSample, low: float, high: float) -> bool:
    """Whether the values within training's range are as in training, or nearly."""
    bins = suspect.feature.bins
    if not isinstance(bins, NumericBins | DiscreteBins):
        return False
    p, q = both(suspect)
    inside = (sample.values >= low) & (sample.values <= high)
    left = distance_of(p, _shares(bins.assign(sample.values[inside]), sample.n[inside], bins.size))
    return left <= max(_LEAVES * distance_of(p, q), _NOISY * suspect.noise)


def _shares(codes: Integers, n: Integers, size: int) -> Floats:
    rows = np.bincount(codes, weights=n, minlength=size)[:size].astype(np.float64)
    return np.asarray(rows / max(rows.sum(), 1.0))
