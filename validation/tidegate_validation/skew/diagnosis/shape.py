"""Changes of numbers that are too many or too dense to be told one from another: by how they are distributed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidegate_validation.skew.diagnosis.cause import AFFINE, FACTOR, OFFSET, Cause, is_usual
from tidegate_validation.skew.diagnosis.evidence import Evidence, days_move, is_nothing
from tidegate_validation.skew.diagnosis.scale import ScaleFit
from tidegate_validation.skew.diagnosis.units import Conversion, affine, named_factors, only_common, only_rare
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.profile import FeatureProfile

_SURE_NAME = 0.02
_SLIGHT = 0.08
_VAGUE = 0.1
_SNAP = 0.004
_WIDEST_SNAP = 0.18
_FAR_SNAP = 0.7
_OF_DAYS = 3.0
_FAR = 8.0
"""A factor of a thousand is known from a handful of rows: none but it is near."""
_SURELY = 3.0
_CLEARLY = 3.0
"""So many standard errors further away, a usual factor is a hundred times less likely than another."""
_TELLING = 0.5
_HARDLY = 0.3
_SHOWN = 0.8
_AS_WELL = 0.03
_OF_SHOWN = 0.25
"""A Δ is known about as well as this part of the smallest that would have shown."""
_OF_NORMAL = 1.349
"""The distance of a normal's quartiles in standard deviations."""
_AROUND_ZERO = 0.45
_LOPSIDED = 0.1
"""By so many standard deviations the middles of training's levels lie apart where turning it over shows."""


def offset_will_do(evidence: Evidence, cause: Cause) -> bool:
    """Whether another sign explains values around zero no better than an offset does; of values whose middle is far
    from it, it would be a strange offset that puts it as far on the other side."""
    low, middle, high = np.interp((0.25, 0.5, 0.75), evidence.feature.levels, evidence.feature.quantiles)
    if cause.factor != -1.0 or abs(middle) >= _AROUND_ZERO * (high - low) / _OF_NORMAL:
        return False
    return evidence.delta(1.0, _middle_offset(evidence).offset) - evidence.delta(-1.0, 0.0) <= _AS_WELL


def best_shape(evidence: Evidence, fit: ScaleFit | None) -> Cause | None:
    """The plainest of the changes that make the shift go away about as well as the best of them does.

    A factor that is none of the usual ones is not determined where an offset does as well, and the other way round.
    """
    before = evidence.delta(1.0, 0.0)
    good = [cause for cause in _by_shape(evidence, fit) if explains_shape(evidence, cause, before)]
    left = [evidence.delta(cause.factor, cause.offset) for cause in good]
    room = max((_room(evidence, cause) for cause in good), default=0.0)
    near = [cause for cause, delta in zip(good, left, strict=True) if delta <= min(left) + room]
    if not near or (not is_usual(near[0]) and any(_is_rival(evidence, one, near[0]) for one in near)):
        return None
    return near[0]


def _is_rival(evidence: Evidence, other: Cause, plainest: Cause) -> bool:
    """Whether it is a change of another kind, and not a factor in all but name: with an offset too small to show."""
    typical = plainest.factor * float(np.median(np.abs(evidence.feature.quantiles)))
    small = other.kind == AFFINE and abs(other.offset) <= _SURELY * plainest.precision * typical
    return other.kind != plainest.kind and other.factor != -1.0 and not (small and plainest.kind == FACTOR)


def _room(evidence: Evidence, cause: Cause) -> float:
    """By how much more Δ another change may leave and still explain values about as well."""
    shown = evidence.distance(cause.factor, cause.offset).detectable(evidence.margin, 0.05)
    return _AS_WELL if shown <= _TELLING else _OF_SHOWN * shown


def _by_shape(evidence: Evidence, fit: ScaleFit | None) -> Iterator[Cause]:
    """Changes that bring the distributions together, for values too many or too dense to be told one from another."""
    if fit is not None:
        yield _estimated(evidence, fit)
    yield Cause(FACTOR, -1.0)
    for one in affine():
        yield Cause(OFFSET if one.factor == 1.0 else AFFINE, one.factor, one.offset, name=one.words)
    yield _middle_offset(evidence)
    mirrored = _mirrored(evidence)
    if _lopsided(evidence.feature) and not _is_left_of_a_whole(mirrored):
        yield mirrored


def _mirrored(evidence: Evidence) -> Cause:
    """What is left of some number, as a year of birth is of this year's and an age: named only where it does better
    than all that are plainer."""
    levels, quantiles = np.array(evidence.feature.levels), np.array(evidence.feature.quantiles)
    inner = (levels >= 0.1) & (levels <= 0.9)
    current = _quantiles(evidence.values, evidence.weights, levels)
    return Cause(AFFINE, -1.0, float(np.median((current + np.interp(1 - levels, levels, quantiles))[inner])))


def _lopsided(feature: FeatureProfile) -> bool:
    """Whether training's values lie otherwise when they are turned over: of others an offset says as much."""
    levels, quantiles = np.array(feature.levels), np.array(feature.quantiles)
    inner = (levels >= 0.1) & (levels <= 0.9)
    middles = ((quantiles + np.interp(1 - levels, levels, quantiles)) / 2)[inner]
    low, high = np.interp((0.25, 0.75), levels, quantiles)
    return bool(np.ptp(middles) > _LOPSIDED * (high - low) / _OF_NORMAL)


def _is_left_of_a_whole(mirrored: Cause) -> bool:
    """Whether it is what is left of 1 or of 100, which is told as a function of the values."""
    return any(abs(mirrored.offset - one) <= _SURE_NAME * one for one in (1.0, 100.0))


def _middle_offset(evidence: Evidence) -> Cause:
    """By how much most values lie elsewhere."""
    levels, quantiles = np.array(evidence.feature.levels), np.array(evidence.feature.quantiles)
    inner = (levels >= 0.1) & (levels <= 0.9)
    current = _quantiles(evidence.values, evidence.weights, levels)
    return Cause(OFFSET, 1.0, float(np.median((current - quantiles)[inner])))


def explains_shape(evidence: Evidence, cause: Cause, before: float) -> bool:
    """Whether undoing the change leaves no shift beyond the margin, where the window could have shown one: of a third
    of what the change explains, if that is much, or of nearly all of it where hardly anything is left. `before` is Δ
    with nothing undone. Where training has too few days to know how days differ, what may be a day's own level
    explains nothing.
    """
    if is_nothing(evidence, cause) or (cause.precision > _VAGUE and not is_usual(cause)):
        return False
    if offset_will_do(evidence, cause) or (_is_slight(cause) and before < _TELLING):
        return False
    if cause.kind == FACTOR and is_usual(cause) and evidence.on_grid(cause.factor) is False:
        return False
    if evidence.delta(cause.factor, cause.offset) >= 0.5 * before:
        return False
    after = evidence.distance(cause.factor, cause.offset)
    if after.p_value(evidence.margin) <= 0.01 or (not after.block_robust and _of_one_day(cause)):
        return False
    detectable = after.detectable(evidence.margin, 0.05)
    hardly = evidence.delta(cause.factor, cause.offset) <= _HARDLY * before and detectable < _SHOWN * before
    return hardly or detectable < max(_TELLING, before / 3)


def _is_slight(cause: Cause) -> bool:
    """Whether it is a factor near 1 that nobody mixes up: another mix of rows looks like that."""
    return cause.kind == FACTOR and not is_usual(cause) and abs(float(np.log(abs(cause.factor)))) < _SLIGHT


def _of_one_day(cause: Cause) -> bool:
    """Whether it may be the level of one day: an offset or a small factor that people mix up no units by."""
    small = cause.kind != FACTOR or abs(float(np.log(abs(cause.factor)))) < np.log(_OF_DAYS)
    return small and not is_usual(cause)


def _estimated(evidence: Evidence, fit: ScaleFit) -> Cause:
    """A factor found by the shape: the common one that its error allows, if it is one and the error not too large; or
    a rarer one where it is large and hardly has an error; or a common one that days may have led away from, where the
    grid shows it. Else as estimated."""
    factor, error, size = fit.factor, fit.log_error, abs(float(np.log(fit.factor)))
    largest = float(np.abs(evidence.feature.quantiles).max())
    room, wide = max(_SNAP, _SURELY * error), max(_WIDEST_SNAP, min(_FAR_SNAP, size / _FAR))
    days = min(_SURELY * float(np.hypot(error, days_move(evidence, factor))), wide)
    named = only_common(factor, room, largest, lambda one: evidence.on_grid(one) is not False) if room <= wide else None
    if named is not None and evidence.on_grid(named.factor) is None and _has_rival(evidence, factor, named, days):
        return Cause(FACTOR, factor, precision=days / _SURELY)
    if named is None and room <= _SURE_NAME and size > np.log(_OF_DAYS):
        named = only_rare(factor, room)
    if named is None:
        named = only_common(factor, days, largest, lambda one: evidence.on_grid(one) is True)
    if named is None and room <= wide:
        named = only_common(factor, room, largest)  # The grid refuses it, and with it any estimate so near.
    if named is None:
        return Cause(FACTOR, factor, precision=error)
    return Cause(FACTOR, named.factor, precision=error, name=named.words or None)


def _has_rival(evidence: Evidence, factor: float, named: Conversion, days: float) -> bool:
    """Whether a usual factor that values would bear lies hardly further from the estimate, as far as days may move it:
    `days` is the most that they do."""
    own = abs(float(np.log(factor / named.factor)))
    farthest = min(days, float(np.hypot(own, _CLEARLY / _SURELY * days)))
    others = [one.factor for one in named_factors() if one.common and one.factor != named.factor]
    near = [one for one in others if abs(np.log(factor / one)) <= farthest]
    return any(evidence.on_grid(one) is not False for one in near)


def _quantiles(values: Floats, weights: Floats, levels: Floats) -> Floats:
    total = np.cumsum(weights)
    return np.asarray(values[np.minimum(np.searchsorted(total, levels * total[-1]), len(values) - 1)])
