"""Which of several changes explains what is seen of a column: each says what its shares would be, the nearest one wins.

A cause is named only where it leaves little of the difference and clearly less than its rivals do.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tidegate_validation.skew.diagnosis.categories import category_cause
from tidegate_validation.skew.diagnosis.cause import Cause
from tidegate_validation.skew.diagnosis.landing import landing
from tidegate_validation.skew.diagnosis.suspect import Suspect, both, distance_of, shares_of
from tidegate_validation.skew.diagnosis.transformed import moved_by_steps, transformed
from tidegate_validation.skew.diagnosis.units import Conversion, affine, factors
from tidegate_validation.skew.distance import LARGEST
from tidegate_validation.skew.rule import Aspect
from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.bins import DiscreteBins, NumericBins
from tidegate_validation.statistics.points import FINEST, digits, heaviest, step_of
from tidegate_validation.statistics.sample import TextSample, ValueSample
from tidegate_validation.statistics.sql import Family

ONE_VALUE = "one value"
INVERTED = "inverted"
OTHER_COLUMN = "other column"
CLIPPED = "clipped"
CLOCK = "clock"
DEFAULT = "default value"
NEW_VALUE = "new value"
ROUNDED = "rounded"
OUTSIDE = "outside the range"
_ALL = 0.95
_ALIKE = 0.8
_FEW = 0.5
_LEAVES = 0.4
_CLEARLY = 0.75
_PART = 0.03
_FAMILIAR = 0.95
_UNLIKE = 0.4
_NEARLY_ALL = 0.9
_AS_WELL = 1.25
_USUAL = 0.9
_SURE = 3.0
_TELLING_VALUES = 8
_DAY_HOURS = 24.0
_ROUND_FACTORS = tuple(Conversion(10.0**power, "", "", common=True) for power in (1, 2, 3, 4, 6, -1, -2, -3, -4, -6))


def name_cause(suspect: Suspect, plain: Callable[[], Cause | None]) -> Cause | None:
    """The change that explains the column best, or None; `plain` looks for one factor or offset."""
    found = _one_value(suspect) or _inverted(suspect)
    if found is not None:
        return found
    if isinstance(suspect.sample, TextSample):
        return _another_column(suspect) or category_cause(suspect)
    if (name := _values_of_another(suspect)) is not None:
        return Cause(OTHER_COLUMN, details=(("column", name),))
    factor = plain()
    if factor is not None and factor.by_values and factor.share >= _NEARLY_ALL:
        return factor
    return (
        _another_column(suspect)
        or _clipped(suspect, suspect.sample)
        or _clock(suspect, suspect.sample)
        or factor
        or moved_by_steps(suspect, suspect.sample)
        or transformed(suspect, suspect.sample)
        or _fewer_digits(suspect, suspect.sample)
        or _single_value(suspect)
        or _part_in_another_unit(suspect, suspect.sample)
        or _outside(suspect, suspect.sample)
    )


def _one_value(suspect: Suspect) -> Cause | None:
    top = heaviest(suspect.sample, _ALL, 1)
    if not top or suspect.feature.points.of(top[0][0]).share > _FEW:
        return None
    value, share = top[0]
    return Cause(ONE_VALUE, share=share, details=(("value", value),))


def _inverted(suspect: Suspect) -> Cause | None:
    """Two values that have changed places: that explains them without a share to be fitted."""
    p, q = both(suspect)
    used = np.flatnonzero(p + q)
    if len(used) != 2 or (p[used] == 0).any():
        return None
    before, left = distance_of(p[used], q[used]), distance_of(p[used[::-1]], q[used])
    if before < _UNLIKE or left > min(_LEAVES * before, max(suspect.noise, 0.1 * before)):
        return None
    return Cause(INVERTED)


def _another_column(suspect: Suspect) -> Cause | None:
    """The column's values are distributed as those of another column are in training, and not as its own."""
    before = distance_of(*both(suspect))
    near = sorted(suspect.others().items(), key=lambda one: one[1])
    if before < _UNLIKE or not near or near[0][1] > min(_LEAVES * before, max(2.0 * suspect.noise, 0.6)):
        return None
    name, left = near[0]
    if (len(near) > 1 and left > _CLEARLY * near[1][1]) or left > _CLEARLY * _converted(suspect):
        return None
    return Cause(OTHER_COLUMN, details=(("column", name), ("left", round(left, 3))))


def _converted(suspect: Suspect) -> float:
    """Δ that is left where the conversion with an offset that fits best is undone, such as degrees Fahrenheit."""
    bins, sample = suspect.feature.bins, suspect.sample
    if not isinstance(bins, NumericBins) or not isinstance(sample, ValueSample):
        return LARGEST
    p = shares_of(suspect.feature, suspect.reference)
    undone = (bins.assign((sample.values - one.offset) / one.factor) for one in affine())
    return min(distance_of(p, _shares(codes, sample.n, bins.size)) for codes in undone)


def _values_of_another(suspect: Suspect) -> str | None:
    """The column whose few values are those that are served here, where they are not the column's own."""
    if not isinstance(suspect.sample, ValueSample) or not len(suspect.sample.values):
        return None
    values, weights = suspect.sample.distinct()
    at_home = {name: _at_home(values, weights, known) for name, known in suspect.known_to.items() if known}
    if suspect.feature.name not in at_home or len(values) < _TELLING_VALUES:
        return None
    own = at_home.pop(suspect.feature.name)
    ranked = sorted(at_home, key=lambda name: -at_home[name])
    if not ranked or at_home[ranked[0]] < _FAMILIAR or own > _FEW:
        return None
    if len(ranked) > 1 and at_home[ranked[1]] > _FAMILIAR - 0.2:
        return None
    return ranked[0]


def _at_home(values: Floats, weights: Floats, known: tuple[tuple[float, int], ...]) -> float:
    own = np.array([value for value, _ in known])
    return landing(values, weights, own, 1.0, 0.0, 0.0)


def _clipped(suspect: Suspect, sample: ValueSample) -> Cause | None:
    """A new weight at the end of what is served, as heavy as what training held from there on."""
    if not len(sample.values) or not suspect.feature.quantiles:
        return None
    levels, quantiles = np.array(suspect.feature.levels), np.array(suspect.feature.quantiles)
    rows = float(sample.n.sum())
    for side, at in (("above", float(sample.values.max())), ("below", float(sample.values.min()))):
        share = float(sample.n[sample.values == at].sum()) / rows
        place = float(np.interp(at, quantiles, levels))
        beyond = 1 - place if side == "above" else place
        own = suspect.feature.points.of(at).share
        inside = float(quantiles[0]) < at < float(quantiles[-1])
        if not inside or share < max(_PART / 2, 2 * own) or beyond < _PART / 3:
            continue
        if 0.4 * beyond <= share <= 2.5 * (beyond + own):
            return Cause(CLIPPED, share=share, details=(("at", at), ("side", side)))
    return None


def _clock(suspect: Suspect, sample: ValueSample) -> Cause | None:
    """Hours of a day, moved around the clock."""
    feature, bins = suspect.feature, suspect.feature.bins
    lowest, highest = feature.minimum, feature.maximum
    if lowest is None or highest is None or lowest < 0 or highest > _DAY_HOURS or highest - lowest < _DAY_HOURS / 2:
        return None
    if not isinstance(bins, NumericBins | DiscreteBins) or not len(sample.values):
        return None
    if sample.values.min() < 0 or sample.values.max() > _DAY_HOURS:
        return None
    p, before = shares_of(feature, suspect.reference), distance_of(*both(suspect))
    whole = feature.family is not Family.FLOAT
    left = {}
    for offset in np.arange(1.0, _DAY_HOURS - 0.5, 0.5):
        if whole and offset % 1:
            continue
        moved = (sample.values - offset) % _DAY_HOURS
        left[float(offset)] = distance_of(p, _shares(bins.assign(moved), sample.n, bins.size))
    offset = min(left, key=lambda one: left[one])
    if left[offset] > _LEAVES * before:
        return None
    return Cause(CLOCK, details=(("offset", offset if offset <= _DAY_HOURS / 2 else offset - _DAY_HOURS),))


def _shares(codes: Integers, n: Integers, size: int) -> Floats:
    rows = np.bincount(codes, weights=n, minlength=size)[:size].astype(np.float64)
    return np.asarray(rows / max(rows.sum(), 1.0))


def _single_value(suspect: Suspect) -> Cause | None:
    point = suspect.numbers.point
    if point is None or not suspect.flagged(Aspect.POINT):
        return None
    low, high = suspect.feature.minimum, suspect.feature.maximum
    beyond = isinstance(point.value, float) and low is not None and high is not None and not low <= point.value <= high
    kind = NEW_VALUE if beyond or point.expected == 0 else DEFAULT
    share = point.excess / max(1 - point.expected, 1e-9)
    before = (("before", round(point.expected, 4)),) if kind == DEFAULT else ()
    missing = suspect.numbers.missing_shares
    fewer = missing.reference - missing.current
    if fewer > 0 and _ALIKE * point.excess <= fewer and _ALIKE * fewer <= point.excess:
        before = (*before, ("instead_of", "missing values"))
    return Cause(kind, share=share, details=(("value", point.value), *before))


def _part_in_another_unit(suspect: Suspect, sample: ValueSample) -> Cause | None:
    """A part of the rows in another unit: training's shares mixed with the same values times a factor."""
    feature = suspect.feature
    if not isinstance(feature.bins, NumericBins) or not feature.quantiles or not len(sample.values):
        return None
    edges = _further_edges(feature.bins, sample)
    levels = np.linspace(0.0005, 0.9995, 1000)
    known = np.interp(levels, feature.levels, feature.quantiles)
    ones = np.ones(len(known), dtype=np.int64)
    p = _shares(_places(edges, known), ones, len(edges) + 1)
    q = _shares(_places(edges, sample.values), sample.n, len(edges) + 1)
    before = distance_of(p, q)
    left = []
    for one in (*factors(), *_ROUND_FACTORS):
        moved = _shares(_places(edges, known * one.factor), ones, len(edges) + 1)
        share, predicted = _mixed(p, q, moved)
        if _PART <= share <= 1 - _PART:
            left.append((distance_of(predicted, q), share, one))
    left.sort(key=lambda one: one[0])
    if not left or left[0][0] > max(_LEAVES * before, min(suspect.noise, 0.5 * before)):
        return None
    as_well = [one for one in left if one[0] <= _AS_WELL * left[0][0] + 0.01]
    residual, share, best = next((one for one in as_well if one[2].common), left[0])
    rivals = [one for one in left if abs(np.log(one[2].factor / best.factor)) > 0.1]
    if rivals and residual > _CLEARLY * rivals[0][0]:
        return None
    return Cause("constant factor", best.factor, share=share, name=best.words or None)


def _places(edges: Floats, values: Floats) -> Integers:
    return np.searchsorted(edges, values, side="right").astype(np.int64)


def _further_edges(bins: NumericBins, sample: ValueSample) -> Floats:
    """The bins' edges and, beyond them, as many more as it takes to tell large factors apart."""
    edges = list(bins.edges)
    top = max(edges[-1], 1e-9)
    while top < float(sample.values.max()) and len(edges) < 200:
        top *= 3.0
        edges.append(top)
    return np.array(edges)


def _mixed(p: Floats, q: Floats, moved: Floats) -> tuple[float, Floats]:
    """The share of rows that were moved, by least squares, and the shares of bins that this makes."""
    weights = 1 / np.maximum((p + q) / 2, 1e-6)
    way = moved - p
    share = float((way * weights) @ (q - p)) / max(float((way * weights) @ way), 1e-12)
    share = min(max(share, 0.0), 1.0)
    return share, p + share * way


def _fewer_digits(suspect: Suspect, sample: ValueSample) -> Cause | None:
    if not suspect.flagged(Aspect.DIGITS) or not sample.values.any():
        return None
    values = sample.values[sample.values != 0]
    weights = sample.n[sample.values != 0].astype(np.float64)
    codes = digits(values)
    finer = np.cumsum([float(weights[codes == code].sum()) for code in range(int(codes.max()) + 1)]) / weights.sum()
    coarsest = int(np.searchsorted(finer, 0.99))
    before_digits = suspect.digits_before
    if coarsest >= len(finer) or coarsest >= FINEST or before_digits is None:
        return None
    if before_digits.of(tuple(range(coarsest + 1))).sum() > _USUAL * before_digits.rows:
        return None
    step = step_of(coarsest)
    for larger in (5 * step, 2.5 * step, 2 * step):
        if np.average(np.abs(values / larger - np.round(values / larger)) < 1e-6, weights=weights) > 0.99:
            step = larger
            break
    return Cause(ROUNDED, details=(("step", step), ("way", _way(suspect, sample, step))))


def _way(suspect: Suspect, sample: ValueSample, step: float) -> str:
    """Whether values were rounded or cut off, or `either` where days differ by more than that difference."""
    levels = np.linspace(0.05, 0.95, 181)
    before = np.interp(levels, suspect.feature.levels, suspect.feature.quantiles)
    total = np.cumsum(sample.n)
    now = sample.values[np.minimum(np.searchsorted(total, levels * total[-1]), len(total) - 1)]
    level = suspect.numbers.distribution.level
    if level is None or step / 2 < _SURE * level.error * float(before.std()):
        return "either"
    rounded = float(np.abs(np.round(before / step) * step - now).mean())
    cut = float(np.abs(np.floor(before / step) * step - now).mean())
    return "rounded" if rounded <= cut else "cut off"


def _outside(suspect: Suspect, sample: ValueSample) -> Cause | None:
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
    side, share, limit = ("above", above, high) if above >= below else ("below", below, low)
    return Cause(OUTSIDE, share=share, details=(("side", side), ("limit", limit)))
