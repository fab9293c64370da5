"""A part of the rows in another unit: any rows, or those of one category of another column.

Each explanation says how likely the window's values are: rows come from training's values, or from these times a
factor. For any rows the share is fitted; for a category the rows are given, so that it is believed only where they are
the ones. The likeliest explanation is the cause, where it is clearly likelier than the others.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tidegate_validation.skew.diagnosis.cause import AFFINE, FACTOR, OFFSET, Cause
from tidegate_validation.skew.diagnosis.cells import Cells, cells_of, step_after
from tidegate_validation.skew.diagnosis.grid import (
    back_as_they_were,
    comes_back,
    grid_of,
    on_grid,
    rounded_by,
)
from tidegate_validation.skew.diagnosis.ranges import (
    CLEARLY,
    SHARES,
    VAGUE,
    Change,
    Ranges,
    changed,
    likely,
    places_of,
)
from tidegate_validation.skew.diagnosis.suspect import Joint, Suspect, both, distance_of, like_training
from tidegate_validation.skew.diagnosis.units import Conversion, affine, factors, nearest_factor, only_common, only_rare
from tidegate_validation.statistics.arrays import Floats, Integers, Mask
from tidegate_validation.statistics.bins import NumericBins, quantile_edges

_RANGES = 60
_PART = 0.03
_HAIR = 1e-9
"""Ranges begin so little before the values that they were taken from: those may come back with another last digit."""
_LEAST_ROWS = 20
_FAR = 3.0
"""Categories hardly differ so many times: a factor that does is told as a rare conversion that it may be."""
_VERY_FAR = 50.0
"""Currencies and such differ by less: a factor of that size which is near a usual one is that."""
_WITHIN = 2.0
_MOST_CATEGORIES = 60
_MUCH = 0.2
_CLOSE = 0.05
_ALIKE = 0.025
"""Usual factors that lie further apart, such as minutes of an hour and degrees of a radian, are not one."""
_SURELY = 3.0
_BELIEVED = 0.9
_UNCOMMON = 0.25
_CHANCE = 0.95
_LEAVES = 0.5
_STRETCHES = 20
_NEAR, _VERY_VAGUE = 1.5, 0.15
"""Where other categories differ by so much that a factor would not be told, a usual one that is as near as this is."""
_VAGUE_USUAL = 0.18
"""With a larger relative error not even a usual factor is told."""
_NUMBERS = (2.0, 3.0, 4.0, 5.0, 10.0, 100.0, 1000.0, 1e4, 1e6)

_COMMON: tuple[Change, ...] = tuple(
    (factor, 0.0)
    for factor in (*_NUMBERS, *(1 / one for one in _NUMBERS), *(one.factor for one in factors() if one.common), -1.0)
) + tuple((one.factor, one.offset) for one in affine())


@dataclass(frozen=True, slots=True)
class _Way:
    """An explanation: a `change` of a `share` of the rows, those with a `value` in a `column` where these are named.

    `gain` is how much likelier it makes the values than no change does, as a logarithm; of a category less what the
    choice among so many brings.
    """

    gain: float
    change: Change
    share: float
    column: str = ""
    value: str = ""


def part_in_another_unit(suspect: Suspect, joint: Joint, found: Cause | None, *, alone: bool = True) -> Cause | None:
    """The change of a part of the rows; `found` is what explains the column otherwise, None where nothing does.

    Where `found` is a factor, it is said of which rows; it is kept where nothing is clearly likelier, and else changes
    of any rows are looked for, unless not `alone`. One for all rows is an estimate, under which values are on no grid,
    so that it and its rivals are held against ranges alone; one that is no usual factor is not told where a usual one
    of a part of the rows explains values as well, and then neither is.
    """
    if not isinstance(suspect.feature.bins, NumericBins) or not suspect.feature.quantiles or not len(joint.values):
        return found
    known = like_training(suspect.feature)
    edges = np.union1d(quantile_edges(known, _RANGES), quantile_edges(joint.values, _RANGES))
    edges -= _HAIR * np.abs(edges)
    grid = _telling_grid(suspect, joint.values)
    if found is not None and found.share >= 1:
        found, grid = (None, grid) if _on_both(joint.values, grid) else (found, None)
    tried = _tried(found, known, edges)
    robust = suspect.numbers.distribution.block_robust
    if not tried or not (robust or grid is not None or found is not None):
        # Days of which nothing is known look like any change of a part of the rows.
        return found
    cells_at = functools.cache(lambda *steps: cells_of(joint.values, known, edges, tried, grid, steps))
    moved = _surely_moved(suspect, joint)
    cells = cells_at(step_after(joint.values, grid), step_after(moved, grid))
    effect = _effect(suspect, len(joint.values))
    # Without a grid, days that differ look like rare conversions of a part of the rows.
    told = [one for one in cells.moved if grid is not None or found is not None or _is_common(one)]
    anywhere = [_of_any_rows(cells, change) for change in told]
    best = max((one.gain for one in anywhere), default=-np.inf)
    whole = _whole(edges, known, joint.values, found)
    ranges = Ranges(edges, known, effect, 2 * rounded_by(moved))
    category = _best(_of_categories(joint, cells_at, grid, effect), effect)
    if category is not None and (category.gain - max(best, whole, 0.0)) / effect > CLEARLY:
        return _of_one_category(suspect, category, joint, ranges, grid, found)
    if found is not None:
        better = (best - whole) / effect - np.log(len(cells.moved)) - np.log(len(joint.values)) / 2
        if found.share < 1:
            return _said_where(suspect, found, joint)
        if better <= CLEARLY and not _ambiguous(found, anywhere, whole, effect):
            return found
        return part_in_another_unit(suspect, joint, None) if alone and better > CLEARLY else None
    part = _best(anywhere, effect) if alone and not _of_related_rows(suspect, joint) else None
    return None if part is None else _of_part(suspect, part, joint, ranges, grid)


def _of_part(suspect: Suspect, way: _Way, joint: Joint, ranges: Ranges, grid: float | None) -> Cause | None:
    """The change of a part of any rows, where the grid shows it or no other factor explains them clearly better."""
    if grid is not None and comes_back(joint.values, ranges.known, grid, *way.change):
        off = joint.values[~on_grid(joint.values, grid)]
        return _cause(way) if _within(suspect, off, way.change) else None
    if _as_likely_anything(suspect, joint.values, way.change) or ranges.refute(joint.values, way.change, partly=True):
        return None
    if not ranges.partly_rather(joint.values, way.change):
        return None
    precision = ranges.precision(joint.values, way.change, partly=True)
    told = _named(suspect, way, joint, _LEAVES) if precision <= _VAGUE_USUAL else None
    return told and _as_sure(told, precision)


def _of_related_rows(suspect: Suspect, joint: Joint) -> bool:
    """Whether values beyond training's range are those of some categories of a column that they go together with: then
    they had others than those of any rows before."""
    return joint.only_where(_beyond_training(suspect, joint), joint.related & joint.beside.keys()) is not None


def _said_where(suspect: Suspect, found: Cause, joint: Joint) -> Cause:
    """The change of a part of the rows with the one category whose rows these are, as far as training's range shows."""
    outside = _beyond_training(suspect, joint)
    where = joint.only_where(outside, joint.beside)
    if where is None or len(where[1]) > 1 or abs(float(outside.mean()) - found.share) > _CLOSE * found.share:
        return found
    return replace(found, details=(*found.details, ("where", {"column": where[0], "value": where[1][0]})))


def _beyond_training(suspect: Suspect, joint: Joint) -> Mask:
    low, high = suspect.feature.minimum, suspect.feature.maximum
    if low is None or high is None:
        return np.zeros(len(joint.values), dtype=np.bool_)
    return (joint.values < low) | (joint.values > high)


def _surely_moved(suspect: Suspect, joint: Joint) -> Floats:
    """The values that only a change can have brought where they are, as far as there are enough; else all."""
    outside = _beyond_training(suspect, joint)
    return joint.values[outside] if outside.sum() >= _LEAST_ROWS else joint.values


def _within(suspect: Suspect, values: Floats, change: Change) -> bool:
    """Whether nearly all values are in training's range with the change undone."""
    low, high = suspect.feature.minimum, suspect.feature.maximum
    if low is None or high is None:
        return False
    back = (values - change[1]) / change[0]
    return bool(np.mean((back >= low) & (back <= high)) >= _BELIEVED)


def _as_likely_anything(suspect: Suspect, values: Floats, change: Change) -> bool:
    """Whether values beyond training's range may as well be any: spread evenly from the least to the largest of them
    they are about as likely as by the change."""
    low, high = suspect.feature.minimum, suspect.feature.maximum
    moved = like_training(suspect.feature) * change[0] + change[1]
    if low is None or high is None:
        return False
    strange, there = (one[(one < low) | (one > high)] for one in (values, moved))
    if len(strange) < _LEAST_ROWS:
        return False
    edges = np.linspace(strange.min(), strange.max(), _STRETCHES + 1)[1:-1]
    rows = np.bincount(places_of(edges, strange), minlength=_STRETCHES)
    gain = float(rows @ np.log(likely(edges, there) * _STRETCHES)) if len(there) else -np.inf
    return gain < CLEARLY


def _telling_grid(suspect: Suspect, values: Floats) -> float | None:
    """Training's grid; None where what was rounded after the change lies on it too, so that it tells nothing."""
    grid = grid_of(suspect.digits_before)
    return None if grid is not None and np.mean(~on_grid(values, grid)) < _PART / 3 else grid


def _ambiguous(found: Cause, anywhere: Sequence[_Way], whole: float, effect: float) -> bool:
    """Whether an unusual factor of all rows explains them not clearly better than a usual one of a part of them; one of
    nearly all rows that is within its error is no other."""
    rivals = [one for one in anywhere if _is_common(one.change) and not _is_about(found, one)]
    usual = max((one.gain for one in rivals), default=-np.inf)
    unusual = not found.by_values and not _is_common((found.factor, found.offset))
    return unusual and (whole - usual) / effect < CLEARLY


def _is_about(found: Cause, way: _Way) -> bool:
    ratio = way.change[0] / found.factor
    return way.share >= _BELIEVED and ratio > 0 and abs(float(np.log(ratio))) <= _SURELY * found.precision


def _of_one_category(
    suspect: Suspect, way: _Way, joint: Joint, ranges: Ranges, grid: float | None, found: Cause | None
) -> Cause | None:
    """The change of one category's rows: a usual one where the grid shows it, or where no other factor explains them
    clearly better; else the factor that does, if the rows determine one."""
    values = joint.values[joint.beside[way.column] == way.value]
    ranges = replace(ranges, step=step_after(values, None))
    if grid is not None and comes_back(values, ranges.known, grid, *way.change):
        return _cause(way)
    told = _named(suspect, way, joint, 1.0 if found is not None and found.share < 1 else _LEAVES)
    if not ranges.refute(values, way.change):
        precision = ranges.precision(values, way.change)
        if told is None or not _has_rival(way, joint, float(np.abs(suspect.feature.quantiles).max()), precision):
            return _as_sure(told, precision) if told is not None else found
    fitted = ranges.estimate(values)
    if fitted is None:
        return None
    factor, precision = fitted[0], float(np.hypot(fitted[1], _categories_differ(way, joint)))
    named = _far_name(factor, (_WITHIN if precision < VAGUE else _NEAR) * precision)
    if precision >= (_VERY_VAGUE if named is not None and named.common else VAGUE):
        return None
    return replace(_cause(replace(way, change=(named.factor if named else factor, 0.0))), precision=precision)


def _far_name(factor: float, room: float) -> Conversion | None:
    """The conversion within `room` that a factor of a category is which is far from 1; None where it may be any."""
    size = abs(float(np.log(factor)))
    common = only_common(factor, _WITHIN * room) if size > np.log(_VERY_FAR) else None
    if common is None:
        return only_rare(factor, room) if size > np.log(_FAR) else None
    return common if abs(float(np.log(factor / common.factor))) <= room else None


def _has_rival(way: _Way, joint: Joint, largest: float, precision: float) -> bool:
    """Whether another usual factor lies as near as its error and the own level of the category allow; `largest` is the
    largest value of training."""
    factor, room = way.change[0], _WITHIN * float(np.hypot(precision, _categories_differ(way, joint)))
    usual = _is_common(way.change) and way.change[1] == 0 and factor > 0
    return usual and only_common(factor, room, largest) is None


def _categories_differ(way: _Way, joint: Joint) -> float:
    """The standard deviation of the logarithm by which values of the other categories differ in their middle."""
    names, n = np.unique(joint.beside[way.column], return_counts=True)
    others = [name for name, rows in zip(names, n, strict=True) if rows >= _LEAST_ROWS and name != way.value]
    middles = np.array([np.median(joint.values[joint.beside[way.column] == name]) for name in others])
    return float(np.log(middles).std()) if len(middles) > 1 and (middles > 0).all() else 0.0


def _as_sure(cause: Cause, precision: float) -> Cause:
    """With the error of its factor; a sign has none, nor has a conversion with an offset."""
    return replace(cause, precision=precision) if cause.kind == FACTOR and cause.factor > 0 else cause


def _effect(suspect: Suspect, rows: int) -> float:
    """By how much likelihoods are too sure of themselves: days differ, and training's rows are a sample."""
    return float(max(1.0, suspect.numbers.distribution.design_effect) * (1 + rows / max(suspect.feature.rows, 1)))


def _tried(found: Cause | None, known: Floats, edges: Floats) -> list[Change]:
    """The factor that was found for a part of the rows, or all that have a name and change training's values much."""
    if found is not None and found.share < 1 and found.kind == FACTOR:
        return [(found.factor, 0.0)]
    named = sorted({*_COMMON, *((one.factor, 0.0) for one in factors())})
    plain = likely(edges, known)
    return [one for one in named if distance_of(plain, likely(edges, known * one[0] + one[1])) > _MUCH]


def _on_both(values: Floats, grid: float | None) -> bool:
    """Whether most values are on training's grid and some are not: a change of all rows moves most of them. Zeros say
    nothing, for no factor moves them."""
    values = values[values != 0]
    return grid is not None and bool(_PART < np.mean(~on_grid(values, grid)) < 1 - _LEAVES)


def _whole(edges: Floats, known: Floats, values: Floats, found: Cause | None) -> float:
    """How much likelier than as in training values are where what was found holds for all rows, within its error."""
    if found is None or not found.is_conversion or found.share < 1:
        return -np.inf
    rows = np.bincount(places_of(edges, values), minlength=len(edges) + 1)
    near = found.factor * np.exp(_SURELY * found.precision * np.linspace(-1, 1, 13))
    usual = np.log(likely(edges, known))
    step = 2 * rounded_by(values)
    moved = (changed(known, (one, found.offset), step) for one in near)
    return max(float(rows @ (np.log(likely(edges, one)) - usual)) for one in moved)


def _of_any_rows(cells: Cells, change: Change) -> _Way:
    rows = cells.counted(change)
    used = rows > 0
    ratio = cells.moved[change][used] / cells.plain[used]
    gains = np.log(1 + SHARES[:, None] * (ratio - 1)) @ rows[used]
    place = int(np.argmax(gains))
    return _Way(float(gains[place]), change, float(SHARES[place]))


def _of_categories(
    joint: Joint, cells_at: Callable[[float, float], Cells], grid: float | None, effect: float
) -> Iterator[_Way]:
    """Every change for the rows of every category that is neither rare nor nearly everywhere, rounded as these are.

    Rows of a category have other values anyway where its column goes together with them in training, so that those of
    such columns are looked at only where a grid tells.
    """
    total = len(joint.values)
    gains_at = functools.cache(lambda step: cells_at(step, step).gains())
    told = [one for one in joint.beside if grid is not None or one not in joint.related]
    for column, texts in ((one, joint.beside[one]) for one in told):
        names, codes, n = np.unique(texts, return_inverse=True, return_counts=True)
        kept = [one for one in np.argsort(-n)[:_MOST_CATEGORIES] if n[one] >= max(_LEAST_ROWS, _PART / 3 * total)]
        steps = [step_after(joint.values[codes == code], grid) for code in kept]
        for step, (change, gain) in ((one, gain) for one in sorted(set(steps)) for gain in gains_at(one).items()):
            sums = np.bincount(codes, weights=gain)
            for code in (code for code, own in zip(kept, steps, strict=True) if own == step):
                # Other rows that may as well be changed too leave nothing to be told of the category.
                if n[code] <= (1 - _PART) * total and gain.sum() - sums[code] < -CLEARLY * effect:
                    fewer = float(sums[code]) - float(np.log(len(names)))
                    yield _Way(fewer, change, float(n[code]) / total, column, str(names[code]))


def _best(ways: Sequence[_Way] | Iterator[_Way], effect: float) -> _Way | None:
    """The likeliest, where its change is believed by nine to one of all that were tried, those that are not common less
    from the start; of close ones a common one.
    """
    ranked = sorted(ways, key=lambda one: -one.gain)
    if not ranked or ranked[0].gain / effect < CLEARLY or not _PART / 3 <= ranked[0].share <= 1 - _PART:
        return None
    behind = (ranked[0].gain - np.array([one.gain for one in ranked])) / effect
    near = np.array([_same(one.change, ranked[0].change, _CLOSE) for one in ranked])
    belief = np.exp(-behind) * np.where([_is_common(one.change) for one in ranked], 1.0, _UNCOMMON)
    if belief[near].sum() < _BELIEVED * belief.sum():
        return None
    close = [one for one, gap, same in zip(ranked, behind, near, strict=True) if same and gap < _SURELY]
    common = [one for one in close if _is_common(one.change)]
    if any(not _same(one.change, common[0].change, _ALIKE) for one in common):
        return None
    return (common or ranked)[0]


def _is_common(change: Change) -> bool:
    return any(_same(change, one) for one in _COMMON)


def _same(one: Change, other: Change, room: float = 1e-6) -> bool:
    """Whether two factors are as good as one, with the same offset."""
    return one[1] == other[1] and one[0] / other[0] > 0 and abs(float(np.log(one[0] / other[0]))) <= room


def _named(suspect: Suspect, way: _Way, joint: Joint, leaves: float) -> Cause | None:
    """The way as a cause, where it leaves no more than a part `leaves` of the difference."""
    p, q = both(suspect)
    bins = suspect.feature.bins
    if not isinstance(bins, NumericBins):
        return None
    factor, offset = way.change
    if way.column:
        hit = joint.beside[way.column] == way.value
        grid = grid_of(suspect.digits_before)
        codes = bins.assign(np.where(hit, _undone(joint.values, grid, way.change), joint.values))
        left = distance_of(p, _shares(codes, bins.size))
    else:
        values = like_training(suspect.feature)
        part = _shares(bins.assign(values * factor + offset), bins.size)
        left = distance_of(p + way.share * (part - p), q)
    before = distance_of(p, q)
    if left > max(leaves * before, min(_by_chance(suspect, len(p)), 0.8 * before)):
        return None
    return _cause(way)


def _undone(values: Floats, grid: float | None, change: Change) -> Floats:
    """The values with a change undone, on training's grid where nothing but rounding after it kept them off."""
    factor, offset = change
    return (values - offset) / factor if grid is None else back_as_they_were(values, grid, factor, offset)


def _by_chance(suspect: Suspect, bins: int) -> float:
    """What Δ over so many bins hardly ever exceeds by chance alone."""
    from scipy import special

    freedom = max(bins - 1, 1)
    return suspect.noise * float(np.sqrt(special.chdtri(freedom, 1 - _CHANCE) / freedom))


def _cause(way: _Way) -> Cause:
    factor, offset = way.change
    details = (("where", {"column": way.column, "value": way.value}),) if way.column else ()
    if offset:
        words = next(one.words for one in affine() if (one.factor, one.offset) == way.change)
        return Cause(OFFSET if factor == 1.0 else AFFINE, factor, offset, way.share, name=words, details=details)
    named = nearest_factor(factor, 1e-6)
    return Cause(FACTOR, factor, share=way.share, name=named.words if named else None, details=details)


def _shares(codes: Integers, size: int) -> Floats:
    return np.asarray(np.bincount(codes, minlength=size)[:size] / max(len(codes), 1))
