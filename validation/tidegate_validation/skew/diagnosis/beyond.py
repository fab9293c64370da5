"""Values beyond training's range: in another unit where that alone brings them back, else told as what they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from tidegate_validation.skew.diagnosis.cause import AFFINE, FACTOR, OFFSET, Cause
from tidegate_validation.skew.diagnosis.suspect import Joint, Suspect, both, distance_of
from tidegate_validation.skew.diagnosis.units import Conversion, affine, factors, named_factors
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
_MANY_ROWS = 50
_PART = 0.03
_HARDLY = 0.03
_QUARTERS = (0.25, 0.5, 0.75)
_LEVEL_ERROR, _WIDTH_ERROR = 0.93, 1.17
"""Of a normal's median, and of the logarithm of the distance of its quartiles, times the root of the rows; the first in
units of that distance."""
_OWN_LEVEL, _OWN_WIDTH = 0.3, 0.2
"""By how much one category's differ from those of the others anyway."""
_LARGEST_MISFIT = 9.0


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


def rest_in_another_unit(suspect: Suspect) -> Cause | None:
    """The usual conversion that makes of the rows beyond training's range what the window's other rows are, where it is
    all rows of one category, or rows of a part that a change would bring there all. A season that goes on beyond
    training has both alike; a round number is no unit."""
    low, high = suspect.feature.minimum, suspect.feature.maximum
    if not isinstance(suspect.feature.bins, NumericBins) or low is None or high is None:
        return None
    joint = suspect.joint()
    hit = (joint.values < low) | (joint.values > high)
    if not _MANY_ROWS <= hit.sum() <= _BEYOND * len(hit) or hit.mean() < _PART:
        return None
    where = joint.only_where(hit, joint.beside)
    if where is not None and len(where[1]) > 1:
        return None
    rest, moved = joint.values[~hit], joint.values[hit]
    if where is not None:
        moved = joint.values[joint.beside[where[0]] == where[1][0]]
    told = sorted(
        (misfit, place, one)
        for place, one in enumerate(_units())
        if where is not None or _all_go_beyond(rest, one, low, high)
        if (misfit := _unlike(rest, (moved - one.offset) / one.factor, alike=where is None)) is not None
    )
    if not told or told[0][0] > _LARGEST_MISFIT or (len(told) > 1 and told[1][0] - told[0][0] < _LARGEST_MISFIT):
        return None
    best = told[0][2]
    kind = FACTOR if not best.offset else OFFSET if best.factor == 1.0 else AFFINE
    details = () if where is None else (("where", {"column": where[0], "value": where[1][0]}),)
    return Cause(kind, best.factor, best.offset, len(moved) / len(hit), name=best.words, details=details)


def _units() -> Iterator[Conversion]:
    """Those that have a name."""
    yield from affine()
    yield from factors()


def _all_go_beyond(rest: Floats, change: Conversion, low: float, high: float) -> bool:
    """Whether hardly any value stays within training's range under the change."""
    there = rest * change.factor + change.offset
    return bool(np.mean((there >= low) & (there <= high)) <= _HARDLY)


def _unlike(rest: Floats, back: Floats, *, alike: bool) -> float | None:
    """How far the middle and the width of values are from those of the rest, in squares of standard errors, which are
    larger of a category, that may lie elsewhere anyway, than of rows that are to be `alike`. None without a width."""
    (low, middle, high), (first, second, third) = (np.quantile(one, _QUARTERS) for one in (rest, back))
    if high <= low or third <= first:
        return None
    rows = (1 / len(rest) + 1 / len(back)) ** 0.5
    own = (0.0, 0.0) if alike else (_OWN_LEVEL, _OWN_WIDTH)
    level = (second - middle) / (high - low) / float(np.hypot(_LEVEL_ERROR * rows, own[0]))
    width = float(np.log((third - first) / (high - low))) / float(np.hypot(_WIDTH_ERROR * rows, own[1]))
    return float(level**2 + width**2)


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
