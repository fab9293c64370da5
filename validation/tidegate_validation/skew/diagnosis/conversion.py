"""Says why a numeric column shifted, where one plain change explains it: a constant factor, an offset, or both.

A change counts as the cause only if undoing it makes the shift go away.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from tidegate_validation.skew.diagnosis.cause import AFFINE, FACTOR, OFFSET, Cause, is_usual
from tidegate_validation.skew.diagnosis.evidence import Evidence, days_move, fitted, is_nothing
from tidegate_validation.skew.diagnosis.grid import always_back, factor_by_grid, grid_of, on_grid, rounded_by
from tidegate_validation.skew.diagnosis.landing import (
    EXACT,
    Match,
    chance,
    find_factor,
    find_offset,
    landing,
    lands,
    newly_landing,
    of_any_digits,
)
from tidegate_validation.skew.diagnosis.scale import ScaleFit
from tidegate_validation.skew.diagnosis.shape import best_shape, explains_shape, offset_will_do
from tidegate_validation.skew.diagnosis.suspect import like_training
from tidegate_validation.skew.diagnosis.units import affine, named_factors, nearest_factor, only_common
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.bins import CategoryBins
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sample import ValueSample

_EXACT_NAME = 1e-3
_LANDS = 0.55
_COVERS = 0.75
_FAMILIAR = 0.9
_CLEARLY = 0.3
_HALF = 0.5
_SEVERAL = 5
_DENSE = 0.7
_PART = 0.05
_PART_VALUES = 8
_WHOLE_NUMBERS = 0.5
_PART_FACTOR = 0.02
_SURELY = 3.0
_NEARLY_EVEN = 1.25
_EVERY = 0.98
_MORE = 0.1
"""A change that so many more of the rows speak for is told rather than a plainer one."""
_ABOUT = 0.1
_NEAR = 0.05
_MIXED = 0.7
"""One day's mix of values is hardly ever further from training's."""


def find_cause(
    feature: FeatureProfile,
    reference: FeatureCounts,
    sample: ValueSample,
    *,
    margin: float,
    digits: FeatureCounts | None = None,
    by_values: bool = False,
) -> Cause | None:
    """The one change that explains why `sample` differs from training, or None if there is no such change; `digits` are
    training's counts of its values' digits. With `by_values`, where no test says that it differs, only one that the
    values themselves give away: several of them must be training's only with the change undone."""
    if not feature.family.numeric or isinstance(feature.bins, CategoryBins) or feature.bins is None:
        return None
    if len(sample.values) == 0 or not feature.quantiles:
        return None
    values, weights = sample.distinct()
    if len(values) < 2:
        return None  # One value lies on many scales.
    known = np.array([value for value, _ in feature.support])
    known_weights = np.array([float(n) for _, n in feature.support])
    if len(known) == 2 and np.isin(values, known).all():
        return None  # Of two values one weighs more, whatever happened.
    evidence = Evidence(
        feature, feature.bins, reference, sample, values, weights, known, known_weights, margin, grid_of(digits)
    )
    home = _at_home(evidence)
    told = [one for one in _by_values(evidence, familiar=home >= _FAMILIAR) if _lands(evidence, one, home, by_values)]
    if told:
        most = max(one.share for one in told)
        return next(one for one in told if one.share >= most - _MORE)
    if home >= _FAMILIAR:
        return None if by_values else _turned(evidence)
    if by_values and evidence.grid is None:
        return None
    fit = fitted(evidence)
    found = _by_grid(evidence, fit)
    if found is not None or by_values:
        return found
    return best_shape(evidence, fit) or _part_of_rows(evidence)


def _turned(evidence: Evidence) -> Cause | None:
    """Another sign, of values that are training's either way."""
    turned = Cause(FACTOR, -1.0)
    there = evidence.known.min(initial=0.0) < 0 < evidence.known.max(initial=0.0)
    return turned if there and explains_shape(evidence, turned, evidence.delta(1.0, 0.0)) else None


def _lands(evidence: Evidence, cause: Cause, home: float, by_values: bool) -> bool:
    """Whether values are surely training's with the change undone; `home` is their share that are as they are."""
    if is_nothing(evidence, cause) or (by_values and not _gives_away(evidence, cause)):
        return False
    if offset_will_do(evidence, cause):
        return False
    if _evenly(evidence.known):  # On such a grid values land wherever they lie among training's.
        step = float(np.diff(evidence.known).min())
        same = float(np.average(on_grid(evidence.values - evidence.known[0], step), weights=evidence.weights))
        return cause.share > _EVERY and (same < _EVERY or cause.kind == OFFSET or is_usual(cause))
    return cause.share > max(home, _HALF) + _CLEARLY or _explains(evidence, cause, enough=0.5)


def _at_home(evidence: Evidence) -> float:
    """Share of rows whose value is one of training's as it is; 0 where that would say nothing."""
    keep = evidence.values != 0
    values, weights, known = evidence.values[keep], evidence.weights[keep], evidence.known
    if not len(known) or not len(values) or chance(values, weights, known, 1.0, 0.0, 0.0) > _DENSE:
        return 0.0
    return landing(values, weights, known, 1.0, 0.0, 0.0)


def _evenly(known: Floats) -> bool:
    """Whether training's values are nearly all multiples of a step, on which those of any other grid land too."""
    step = float(np.diff(known).min(initial=np.inf))
    return len(known) > 1 and bool(np.ptp(known) / step + 1 <= _NEARLY_EVEN * len(known))


def _by_values(evidence: Evidence, *, familiar: bool) -> Iterator[Cause]:
    """Changes under which served values land on training's, the plainest first."""
    values, weights, known, known_weights = evidence.values, evidence.weights, evidence.known, evidence.known_weights
    if not len(known):
        return
    least = _COVERS if familiar else 0.0
    match = find_factor(values, weights, known, known_weights)
    match = match and _usual_rather(evidence, match)
    if match is not None and match.share >= _LANDS and match.covered >= least and _told_by_values(evidence, match):
        yield _exact(match.factor, match.share, match.precision)
    # One value alone, as zeros that are most rows, lands on some of training's under many a change.
    rest = np.arange(len(values)) != weights.argmax()
    for one in affine():
        change = (known, one.factor, one.offset, 0.0)
        share = landing(values, weights, *change)
        if min(share, landing(values[rest], weights[rest], *change)) < _LANDS:
            continue
        if chance(values, weights, *change) < _DENSE:
            yield Cause(
                OFFSET if one.factor == 1.0 else AFFINE, one.factor, one.offset, share, 0.0, one.words, by_values=True
            )
    match = find_offset(values, weights, known, known_weights)
    if match is not None and match.share >= _LANDS and match.covered >= least:
        yield Cause(OFFSET, 1.0, match.offset, match.share, by_values=True)


def _usual_rather(evidence: Evidence, match: Match) -> Match:
    """The match, or the one usual factor near it where nearly as many rows land with that: far from zero values land on
    a fine grid with many."""
    usual = only_common(match.factor, _NEAR)
    if usual is None:
        return match
    told = evidence.values != 0  # No factor moves zeros.
    share = landing(evidence.values[told], evidence.weights[told], evidence.known, usual.factor, 0.0, 0.0)
    return replace(match, factor=usual.factor, share=share) if share >= _EVERY * match.share else match


def _gives_away(evidence: Evidence, cause: Cause) -> bool:
    """Whether several values are training's only with the change undone, or all that are there."""
    slack = cause.precision * float(np.average(np.abs(evidence.values), weights=evidence.weights))
    more = newly_landing(evidence.values, evidence.known, cause.factor, cause.offset, slack)
    return more >= min(_SEVERAL, len(evidence.values))


def _told_by_values(evidence: Evidence, match: Match) -> bool:
    """Whether the values say that it is this factor; where others of as many digits would land as well, they have to
    land exactly, and the distributions to say about the same."""
    fit = fitted(evidence)
    if _denied(evidence, fit, match.factor):
        return False
    if fit is not None and _always_lands(evidence, match.factor) and _lie_side_by_side(evidence):
        return _fits_alone(evidence, fit, match.factor)
    by_digits = of_any_digits(evidence.values, evidence.weights, evidence.known, match.factor, match.slack)
    if match.share - by_digits > _HALF * (1 - by_digits):
        return True
    return not match.slack and _fits(evidence, fit, match.factor, _ABOUT)


def _denied(evidence: Evidence, fit: ScaleFit | None, factor: float) -> bool:
    """Whether distributions surely say another factor, with which far less is left: values that lie dense, or on a
    coarse grid, land on training's with many."""
    if fit is None or _fits(evidence, fit, factor, 0.0):
        return False
    return evidence.delta(factor, 0.0) - evidence.delta(fit.factor, 0.0) > _CLEARLY


def _always_lands(evidence: Evidence, factor: float) -> bool:
    """Whether values that were rounded as the served ones are lie on training's grid with the factor undone, whatever
    they are."""
    return evidence.grid is not None and always_back(evidence.values, evidence.grid, factor)


def _lie_side_by_side(evidence: Evidence) -> bool:
    """Whether training's values mostly have neighbours one step of their grid away, so that many of any numbers land on
    them: a handful of prices is no such."""
    known, step = evidence.known, evidence.grid or 0.0
    return landing(known + step, evidence.known_weights, known, 1.0, 0.0, 0.0) > _CLEARLY


def _fits(evidence: Evidence, fit: ScaleFit | None, factor: float, room: float) -> bool:
    """Whether the distributions say about the same factor: within `room`, or what they are unsure by."""
    if fit is None or factor <= 0:
        return False
    return abs(float(np.log(factor / fit.factor))) <= max(room, _unsure(evidence, fit))


def _unsure(evidence: Evidence, fit: ScaleFit) -> float:
    """By how much the logarithm of the factor that distributions say may be another."""
    return _SURELY * float(np.hypot(fit.log_error, days_move(evidence, fit.factor)))


def _fits_alone(evidence: Evidence, fit: ScaleFit, factor: float) -> bool:
    """Whether the distributions say about the same factor, and no other usual one that the values bear as well."""
    room = max(_NEAR, _unsure(evidence, fit))
    if factor <= 0 or abs(np.log(factor / fit.factor)) > room:
        return False
    near = [one.factor for one in named_factors() if one.common and abs(np.log(one.factor / fit.factor)) <= room]
    return not any(abs(np.log(one / factor)) > _EXACT_NAME and _always_lands(evidence, one) for one in near)


def _by_grid(evidence: Evidence, fit: ScaleFit | None) -> Cause | None:
    """A well-known factor near the one that distributions suggest, that brings values back onto training's grid."""
    if fit is None or evidence.grid is None:
        return None
    known = like_training(evidence.feature)
    found = factor_by_grid(evidence.values, known, evidence.grid, fit.factor)
    if found is None or (_always_lands(evidence, found.factor) and not _fits_alone(evidence, fit, found.factor)):
        return None
    cause = Cause(FACTOR, found.factor, precision=EXACT, name=found.words or None, by_values=True)
    return cause if _explains(evidence, cause, enough=0.9) else None


def _explains(evidence: Evidence, cause: Cause, *, enough: float) -> bool:
    """Whether undoing the change brings Δ down to a share `enough` of what it was.

    One day's mix of values need not be training's; that served values land on training's is evidence of its own.
    """
    left = evidence.delta(cause.factor, cause.offset)
    return left < min(enough * evidence.delta(1.0, 0.0), _MIXED)


def _part_of_rows(evidence: Evidence) -> Cause | None:
    """A factor that holds for the rows off training's values only, where that is a part of the rows."""
    values, weights, known = evidence.values, evidence.weights, evidence.known
    if not len(known):
        return None
    strange = ~lands(values, known, 1.0)
    share = float(weights[strange].sum() / weights.sum())
    if not _PART < share < 1 - _PART or weights[strange].max() > _HALF * weights[strange].sum():
        return None
    match = find_factor(values[strange], weights[strange], known, evidence.known_weights)
    if match is None or match.share < 0.9 or match.precision > EXACT or strange.sum() < _PART_VALUES:
        return None
    # Others are rare ones as in training, with as many digits as those have.
    told = strange & lands(values, known, match.factor)
    # Nobody rounds to tens: that they are such says something.
    rounded = evidence.grid is not None and rounded_by(values[told]) <= _WHOLE_NUMBERS
    always = rounded and always_back(values[told], evidence.grid or 0.0, match.factor)
    if always or abs(np.log(abs(match.factor))) < _PART_FACTOR:
        return None
    by_digits = of_any_digits(values[told], weights[told], known, match.factor)
    if match.share - by_digits <= _HALF * (1 - by_digits):
        return None
    return replace(_exact(match.factor, share, match.precision), by_values=False)


def _exact(factor: float, share: float, precision: float) -> Cause:
    """A factor found by the values, with its name if it has one."""
    named = nearest_factor(factor, max(_EXACT_NAME, precision))
    name = named.words if named else None
    return Cause(FACTOR, factor, share=share, precision=precision, name=name, by_values=True)
