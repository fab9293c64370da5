"""Which of several changes explains what is seen of a column: each says what its shares would be, the nearest one wins.

A cause is named only where it leaves little of the difference and clearly less than its rivals do.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from tidegate_validation.skew.diagnosis.beyond import NEW_VALUE, outside, rest_in_another_unit, usual_conversion
from tidegate_validation.skew.diagnosis.categories import category_cause, respelled
from tidegate_validation.skew.diagnosis.cause import Cause
from tidegate_validation.skew.diagnosis.clock import moved_around_the_clock
from tidegate_validation.skew.diagnosis.dates import day_and_month_swapped
from tidegate_validation.skew.diagnosis.frozen import frozen_at
from tidegate_validation.skew.diagnosis.grid import grid_of
from tidegate_validation.skew.diagnosis.in_order import sorted_over_days
from tidegate_validation.skew.diagnosis.landing import landing
from tidegate_validation.skew.diagnosis.part_of_rows import part_in_another_unit
from tidegate_validation.skew.diagnosis.suspect import Suspect, both, distance_of, like_training, shares_of
from tidegate_validation.skew.diagnosis.transformed import moved_by_steps, moved_rather, transformed
from tidegate_validation.skew.diagnosis.units import affine
from tidegate_validation.skew.measures.distance import LARGEST
from tidegate_validation.skew.measures.points import PointExcess, is_special
from tidegate_validation.skew.rule import Aspect
from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.bins import DiscreteBins, NumericBins
from tidegate_validation.statistics.points import FINEST, UNTOLD, digits, step_of
from tidegate_validation.statistics.sample import TextSample, ValueSample

INVERTED = "inverted"
OTHER_COLUMN = "other column"
CLIPPED = "clipped"
DEFAULT = "default value"
ROUNDED = "rounded"
_ALL = 0.95
_ALIKE = 0.8
_FEW = 0.5
_LEAVES = 0.4
_CLEARLY = 0.75
_PART = 0.03
_FAMILIAR = 0.95
_NEARLY = 0.2
_UNLIKE = 0.4
_NEARLY_ALL = 0.9
_USUAL = 0.9
_SURE = 3.0
_NOISY = 1.5
_HARDLY = 0.001
_TWO_VALUES = 3
_FEWEST = 3
"""Some row always holds the largest value, and some the least."""
_TELLING_VALUES = 8
_MOST_OF_IT = 0.6
_NEXT_TO = 0.1
_DENSE = 0.3
_ROOM = 1.01
_SOME = 0.05


def name_cause(suspect: Suspect, plain: Callable[[], Cause | None]) -> Cause | None:
    """The change that explains the column best, or None; `plain` looks for one factor or offset."""
    found = frozen_at(suspect) or sorted_over_days(suspect) or _inverted(suspect)
    if found is not None:
        return found
    if isinstance(suspect.sample, TextSample):
        return respelled(suspect) or _another_column(suspect) or category_cause(suspect)
    dates = day_and_month_swapped(suspect, suspect.sample)
    if dates is not None:
        return dates
    factor = plain()
    other = _values_of_another(suspect) or _another_column(suspect)
    if other is not None and not _nearer(suspect, suspect.sample, factor, other):
        return _rounded_rather(suspect, suspect.sample, other) or other
    rounded = _rounded(suspect, suspect.sample)
    if rounded is not None and (factor is None or _says_less(suspect, factor, rounded)):
        return rounded
    if factor is not None and factor.by_values and factor.share >= _NEARLY_ALL:
        return factor
    return (
        _clipped(suspect, suspect.sample)
        or moved_around_the_clock(suspect, suspect.sample)
        or (factor and _of_some_rows(suspect, factor, alone=False))
        or moved_by_steps(suspect, suspect.sample)
        or transformed(suspect, suspect.sample)
        or rounded
        or _single_value(suspect)
        or _of_some_rows(suspect, factor)
        or usual_conversion(suspect, suspect.sample)
        or rest_in_another_unit(suspect)
        or outside(suspect, suspect.sample)
    )


def _says_less(suspect: Suspect, factor: Cause, rounded: Cause) -> bool:
    """Whether a factor or an offset moves training's middle no further than rounding does, or leaves it open why most
    of the rows have fewer digits."""
    if factor.share < _FEW:
        return True
    middle = float(np.interp(0.5, suspect.feature.levels, suspect.feature.quantiles))
    return abs(middle * factor.factor + factor.offset - middle) <= float(dict(rounded.details)["step"])


def _of_some_rows(suspect: Suspect, factor: Cause | None, *, alone: bool = True) -> Cause | None:
    return part_in_another_unit(suspect, suspect.joint(), factor, alone=alone)


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
    """The column's values are distributed as those of another column are in training, and not as its own.

    Of `others`, only columns are told of which enough values were listed to be known again.
    """
    p, q = both(suspect)
    before = distance_of(p, q)
    by_chance = (len(p) / max(suspect.numbers.distribution.rows, 1)) ** 0.5
    near = sorted(suspect.others().items(), key=lambda one: one[1])
    if before < _UNLIKE or not near or near[0][1] > min(_LEAVES * before, max(1.6 * suspect.noise, 0.5, by_chance)):
        return None
    name, left = near[0]
    if (len(near) > 1 and _about_as_near(suspect, left, near[1][1])) or left > _CLEARLY * _converted(suspect):
        return None
    return Cause(OTHER_COLUMN, details=(("column", name), ("left", round(left, 3))))


def _about_as_near(suspect: Suspect, left: float, other: float) -> bool:
    """Whether another column's values are hardly farther; columns of two values are often alike by chance."""
    bins = suspect.feature.bins
    of_two = isinstance(bins, DiscreteBins) and len(bins.values) <= 2
    return left > _CLEARLY * other or (of_two and other <= _NOISY * suspect.noise)


def _converted(suspect: Suspect) -> float:
    """Δ that is left where the conversion with an offset that fits best is undone, such as degrees Fahrenheit."""
    bins, sample = suspect.feature.bins, suspect.sample
    if not isinstance(bins, NumericBins) or not isinstance(sample, ValueSample):
        return LARGEST
    p = shares_of(suspect.feature, suspect.reference)
    undone = (bins.assign((sample.values - one.offset) / one.factor) for one in affine())
    return min(distance_of(p, _shares(codes, sample.n, bins.size)) for codes in undone)


def _values_of_another(suspect: Suspect) -> Cause | None:
    """The column whose few values are those that are served here, where they are not the column's own and lie as far
    from each other as that column's do; of several the one like whose values they are spread by far best."""
    if not isinstance(suspect.sample, ValueSample) or not len(suspect.sample.values):
        return None
    values, weights = suspect.sample.distinct()
    at_home = {name: _at_home(values, weights, known) for name, known in suspect.known_to.items() if known}
    if suspect.feature.name not in at_home or len(values) < _TELLING_VALUES:
        return None
    own = at_home.pop(suspect.feature.name)
    near = {name: left for name, left in suspect.others().items() if at_home.get(name, 0.0) > _FAMILIAR - _NEARLY}
    ranked = sorted(near, key=near.__getitem__)
    if not ranked or at_home[ranked[0]] < _FAMILIAR or own > _FEW:
        return None
    if len(ranked) > 1 and near[ranked[0]] > _FEW * near[ranked[1]]:
        return None
    return Cause(OTHER_COLUMN, details=(("column", ranked[0]),))


def _nearer(suspect: Suspect, sample: ValueSample, factor: Cause | None, other: Cause) -> bool:
    """Whether values are clearly nearer to training's own with the factor undone than to the other column's; or land on
    training's own then, and are not clearly farther: values times ten may well be values of another column."""
    bins = suspect.feature.bins
    if factor is None or not factor.is_conversion or factor.share < _NEARLY_ALL or bins is None:
        return False
    undone = shares_of(suspect.feature, sample.counted(bins, factor.factor, factor.offset))
    left = distance_of(shares_of(suspect.feature, suspect.reference), undone)
    to_other = suspect.others()[str(dict(other.details)["column"])]
    return _CLEARLY * left <= to_other if factor.by_values else left <= _CLEARLY * to_other


def _rounded(suspect: Suspect, sample: ValueSample) -> Cause | None:
    """Fewer digits, where training's own values rounded so are as those that are served: values in another unit may
    have fewer digits too."""
    rounded = _fewer_digits(suspect, sample)
    if rounded is None:
        return None
    before = distance_of(*both(suspect))
    explained = _left_when_rounded(suspect, rounded) <= max(_CLEARLY * before, _NOISY * suspect.noise)
    return rounded if explained and _within_a_step_of_training(suspect, sample, rounded) else None


def _within_a_step_of_training(suspect: Suspect, sample: ValueSample, rounded: Cause) -> bool:
    """Whether hardly any value lies further outside training's range than rounding could bring it; zeros say nothing,
    for no factor moves them."""
    low, high, step = suspect.feature.minimum, suspect.feature.maximum, float(dict(rounded.details)["step"])
    if low is None or high is None:
        return False
    beyond = (sample.values < low - step) | (sample.values > high + step)
    return float(sample.n[beyond].sum()) < _PART * float(sample.n[sample.values != 0].sum())


def _left_when_rounded(suspect: Suspect, rounded: Cause) -> float:
    """Δ between training's values, rounded or cut off as `rounded` says, and those that are served."""
    bins = suspect.feature.bins
    if not isinstance(bins, NumericBins | DiscreteBins):
        return LARGEST
    step = float(dict(rounded.details)["step"])
    known = like_training(suspect.feature)
    q = both(suspect)[1]
    ways = (np.round(known / step) * step, np.trunc(known / step) * step)
    return min(distance_of(_shares(bins.assign(one), np.ones(len(one)), bins.size), q) for one in ways)


def _rounded_rather(suspect: Suspect, sample: ValueSample, other: Cause) -> Cause | None:
    """Rounding, where training's own values rounded so are as near: few whole numbers look alike."""
    rounded = _fewer_digits(suspect, sample)
    if rounded is None or not isinstance(suspect.feature.bins, NumericBins):
        return None
    left = _left_when_rounded(suspect, rounded)
    return rounded if left <= suspect.others()[str(dict(other.details)["column"])] else None


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
        held = float(sample.n[sample.values == at].sum())
        share = held / rows
        place = float(np.interp(at, quantiles, levels))
        beyond = 1 - place if side == "above" else place
        own = suspect.feature.points.of(at).share
        inside = float(quantiles[0]) < at < float(quantiles[-1])
        if not inside or held < _FEWEST or share < max(_PART / 2, own + min(own, beyond / 2)) or beyond < _PART / 3:
            continue
        if _is_cut(suspect, at, side, share, beyond + own):
            return Cause(CLIPPED, share=share, details=(("at", at), ("side", side)))
    return None


def _is_cut(suspect: Suspect, at: float, side: str, share: float, beyond: float) -> bool:
    """Whether values are cut off at their end `at`, which a `share` of the rows holds: where that is about what
    training held from there on, `beyond`, and values are spread as training's would be; or where they lie dense up to
    it, however high or low the window's days are. Special numbers may be a default at any end."""
    sample = suspect.sample
    if not isinstance(sample, ValueSample):
        return False
    numeric = isinstance(suspect.feature.bins, NumericBins)
    # Where most rows are cut, those that are not are to lie dense up to the end.
    dense = _dense_beside(sample, at, grid_of(suspect.digits_before) or 0.0) / min(share, max(1 - share, _SOME))
    if 0.4 * beyond <= share <= 2.5 * beyond and (dense >= _SOME or not numeric) and _as_if_cut(suspect, at, side):
        return True
    if not (numeric and dense >= _DENSE and suspect.flagged(Aspect.POINT)) or is_special(at):
        return False
    return not _end_moved(suspect, side, share)


def _end_moved(suspect: Suspect, side: str, share: float) -> bool:
    """Whether training's own end held about as many rows as the served one: then all values lie elsewhere, uncut."""
    end = suspect.feature.maximum if side == "above" else suspect.feature.minimum
    return end is not None and suspect.feature.points.of(end).share >= _FEW * share


def _dense_beside(sample: ValueSample, at: float, step: float) -> float:
    """The share of rows whose values lie just inside the end `at`, or one `step` from it: next to none where a default
    lies apart."""
    near = np.abs(sample.values - at) <= max(_NEXT_TO * np.ptp(sample.values), _ROOM * step)
    return float(sample.n[near & (sample.values != at)].sum()) / float(sample.n.sum())


def _as_if_cut(suspect: Suspect, at: float, side: str) -> bool:
    """Whether training's values, cut off there, are spread as those that are served."""
    bins = suspect.feature.bins
    if not isinstance(bins, NumericBins | DiscreteBins) or not isinstance(suspect.sample, ValueSample):
        return False
    if isinstance(bins, DiscreteBins) and (
        not _known(suspect.sample, bins, at) or moved_rather(suspect, suspect.sample, at, side)
    ):
        return False
    return _left_when_cut(suspect, at, side) <= max(_CLEARLY * distance_of(*both(suspect)), _NOISY * suspect.noise)


def _left_when_cut(suspect: Suspect, at: float, side: str) -> float:
    """Δ between training's values, cut off at `at`, and those that are served."""
    bins = suspect.feature.bins
    if not isinstance(bins, NumericBins | DiscreteBins):
        return LARGEST
    known = like_training(suspect.feature)
    cut = np.minimum(known, at) if side == "above" else np.maximum(known, at)
    return distance_of(_shares(bins.assign(cut), np.ones(len(cut)), bins.size), both(suspect)[1])


def _known(sample: ValueSample, bins: DiscreteBins, at: float) -> bool:
    """Whether training held nearly all values but `at`, as it did where nothing but the end was cut off."""
    new = (bins.assign(sample.values) == bins.unseen) & (sample.values != at)
    return float(sample.n[new].sum()) < _PART * float(sample.n.sum())


def _shares(codes: Integers, n: Integers | Floats, size: int) -> Floats:
    rows = np.bincount(codes, weights=n, minlength=size)[:size].astype(np.float64)
    return np.asarray(rows / max(rows.sum(), 1.0))


def _single_value(suspect: Suspect) -> Cause | None:
    point = suspect.numbers.point
    if point is None or not (suspect.flagged(Aspect.POINT) or _one_grew(suspect, point)):
        return None
    if point.expected > 0 and isinstance(suspect.feature.bins, DiscreteBins) and len(suspect.feature.bins.values) <= 2:
        return None  # Of two values one grows whatever happened.
    if not _explained_by_one(suspect, point):
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


def _explained_by_one(suspect: Suspect, point: PointExcess) -> bool:
    """Whether other values are spread about as in training once the one value is left out, and it is most of what is
    new in its range."""
    bins = suspect.feature.bins
    if not isinstance(bins, NumericBins | DiscreteBins):
        return False
    p, q = both(suspect)
    place = bins.assign(np.array([float(point.value)]))[0]
    if point.excess < _MOST_OF_IT * (q[place] - p[place]):
        return False
    return _after_growth(bins, p, q, point) <= max(_CLEARLY * distance_of(p, q), _NOISY * suspect.noise)


def _after_growth(bins: NumericBins | DiscreteBins, p: Floats, q: Floats, point: PointExcess) -> float:
    """Δ that is left where one value weighs more, and the others less in proportion."""
    grown = np.zeros(len(p))
    grown[bins.assign(np.array([float(point.value)]))[0]] = 1.0
    share = point.excess / max(1 - point.expected, 1e-9)
    return distance_of(p + share * (grown - p), q)


def _one_grew(suspect: Suspect, point: PointExcess) -> bool:
    """Whether all that differs is that one value weighs more and the others less in proportion; of two values that says
    nothing."""
    bins = suspect.feature.bins
    if not isinstance(bins, NumericBins | DiscreteBins) or bins.size <= _TWO_VALUES or point.p_value(0.0) > _HARDLY:
        return False
    p, q = both(suspect)
    return _after_growth(bins, p, q, point) <= min(_LEAVES * distance_of(p, q), max(suspect.noise, _PART))


def _fewer_digits(suspect: Suspect, sample: ValueSample) -> Cause | None:
    flagged = suspect.flagged(Aspect.DIGITS) or suspect.flagged(Aspect.POINT)
    if not flagged or not sample.values.any():
        return None
    codes = digits(sample.values)
    kept = (sample.values != 0) & (codes != UNTOLD)
    values, weights, codes = sample.values[kept], sample.n[kept].astype(np.float64), codes[kept]
    if weights.sum() < _FEW * sample.n[sample.values != 0].sum():
        return None
    finer = np.cumsum([float(weights[codes == code].sum()) for code in range(int(codes.max()) + 1)]) / weights.sum()
    coarsest = int(np.searchsorted(finer, 0.99))
    before_digits = suspect.digits_before
    if coarsest >= len(finer) or coarsest >= FINEST or before_digits is None:
        return None
    if before_digits.of(tuple(range(coarsest + 1))).sum() > _USUAL * before_digits.rows:
        return None
    step = step_of(coarsest)
    for larger in (125 * step, 25 * step, 5 * step, 2.5 * step, 2 * step):
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
