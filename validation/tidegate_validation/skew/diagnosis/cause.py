"""Says why a numeric column shifted, where one plain change explains it: a constant factor, an offset, or both.

A change counts as the cause only if undoing it makes the shift go away.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tidegate_validation.skew.diagnosis.grid import always_back, factor_by_grid, grid_of, off_the_grid, on_grid
from tidegate_validation.skew.diagnosis.landing import (
    EXACT,
    Match,
    chance,
    find_factor,
    find_offset,
    landing,
    newly_landing,
    of_any_digits,
)
from tidegate_validation.skew.diagnosis.scale import ScaleFit, fit_factor, without_zeros
from tidegate_validation.skew.diagnosis.suspect import like_training
from tidegate_validation.skew.diagnosis.units import affine, named_factors, nearest_factor, only_common, the_other_way
from tidegate_validation.skew.measures.distance import BlockDistance, block_distance, delta_alone
from tidegate_validation.skew.measures.numbers import compared_bins, ordinary_bins
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.bins import CategoryBins, DiscreteBins, NumericBins
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sample import ValueSample

FACTOR = "constant factor"
OFFSET = "constant offset"
AFFINE = "factor and offset"
_DAY = 86_400
_OF_VALUES = ("value", "at", "limit")
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
_PART_FACTOR = 0.02
_NOTHING = 0.004
_VAGUE = 0.1
_SNAP = 0.004
_WIDEST_SNAP = 0.18
_FAR_SNAP = 0.7
_OF_DAYS = 3.0
_FAR = 8.0
"""A factor of a thousand is known from a handful of rows: none but it is near."""
_SURELY = 3.0
_TELLING = 0.5
_HARDLY = 0.3
_SHOWN = 0.8
_AS_WELL = 0.03
_OF_SHOWN = 0.25
"""A Δ is known about as well as this part of the smallest that would have shown."""
_USUAL = 1e-9
_NEARLY_EVEN = 1.25
_EVERY = 0.98
_MORE = 0.1
"""A change that so many more of the rows speak for is told rather than a plainer one."""
_ABOUT = 0.1
_QUARTILES = (0.25, 0.75)
_OF_NORMAL = 1.349
"""The distance of a normal's quartiles in standard deviations."""
_NEAR = 0.05
_AROUND_ZERO = 0.45
_MIXED = 0.7
"""One day's mix of values is hardly ever further from training's."""


@dataclass(frozen=True, slots=True)
class Cause:
    """Served values are `factor` times training's plus `offset`, for a `share` of the rows.

    `precision` is the relative standard error of the factor; `name` says which units may have been mixed up, such as
    `kilometres against miles`. `by_values` says that the values themselves gave it away, not only their distribution.
    Causes of other kinds have `details` instead. `since` is the date from which on it holds, None for the whole window.
    """

    kind: str
    factor: float = 1.0
    offset: float = 0.0
    share: float = 1.0
    precision: float = 0.0
    name: str | None = None
    by_values: bool = False
    details: tuple[tuple[str, Any], ...] = ()
    since: str | None = None

    @property
    def is_conversion(self) -> bool:
        """Whether it is a factor, an offset or both, which can be undone and told from the other side."""
        return self.kind in (FACTOR, OFFSET, AFFINE)

    def dated(self) -> Cause:
        """The same, with Unix seconds among the values that it names as dates, and an offset in days too."""
        told = ((name, _date(value) if name in _OF_VALUES else value) for name, value in self.details)
        days = (("days", round(self.offset / _DAY, 4)),) if self.kind == OFFSET else ()
        return replace(self, details=(*told, *days))

    def to_dict(self) -> dict[str, Any]:
        """As JSON, without what does not apply."""
        document: dict[str, Any] = {"kind": self.kind, "share": round(self.share, 4), **dict(self.details)}
        if self.since:
            document["since"] = self.since
        if not self.is_conversion:
            return document
        if self.kind != OFFSET:
            document.update(factor=self.factor, precision=self.precision)
        if self.kind != FACTOR:
            document["offset"] = self.offset
        if self.name:
            document["units"] = self.name
        return document

    def inverse(self) -> Cause:
        """The same, told from the other side: training's values in terms of the served ones."""
        name = the_other_way(self.name) if self.name else None
        return replace(self, factor=1 / self.factor, offset=-self.offset / self.factor, name=name)


def _date(value: Any) -> Any:
    return f"{np.datetime64(round(value), 's').item():%Y-%m-%d %H:%M}" if isinstance(value, float) else value


@dataclass(frozen=True, slots=True)
class _Evidence:
    """What each candidate is compared with; `known` is empty where values are too many to be listed."""

    feature: FeatureProfile
    bins: NumericBins | DiscreteBins
    reference: FeatureCounts
    sample: ValueSample
    values: Floats
    weights: Floats
    known: Floats
    known_weights: Floats
    margin: float
    grid: float | None

    def distance(self, factor: float, offset: float) -> BlockDistance:
        """Distance from training with the change undone."""
        current = self.sample.counted(self.bins, factor, offset)
        return block_distance(self.reference, current, ordinary_bins(self.feature))

    def delta(self, factor: float, offset: float) -> float:
        """How far that is, without what chance would do."""
        current = self.sample.counted(self.bins, factor, offset)
        return delta_alone(self.reference, current, ordinary_bins(self.feature))


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
    evidence = _Evidence(
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
    fit = _fitted(evidence)
    found = _by_grid(evidence, fit)
    if found is not None or by_values:
        return found
    return _best_shape(evidence, fit) or _part_of_rows(evidence)


def _turned(evidence: _Evidence) -> Cause | None:
    """Another sign, of values that are training's either way."""
    turned = Cause(FACTOR, -1.0)
    there = evidence.known.min(initial=0.0) < 0 < evidence.known.max(initial=0.0)
    return turned if there and _explains_shape(evidence, turned, evidence.delta(1.0, 0.0)) else None


def _offset_will_do(evidence: _Evidence, cause: Cause) -> bool:
    """Whether another sign explains values around zero no better than an offset does; of values whose middle is far
    from it, it would be a strange offset that puts it as far on the other side."""
    low, middle, high = np.interp((0.25, 0.5, 0.75), evidence.feature.levels, evidence.feature.quantiles)
    if cause.factor != -1.0 or abs(middle) >= _AROUND_ZERO * (high - low) / _OF_NORMAL:
        return False
    return evidence.delta(1.0, _middle_offset(evidence).offset) - evidence.delta(-1.0, 0.0) <= _AS_WELL


def _lands(evidence: _Evidence, cause: Cause, home: float, by_values: bool) -> bool:
    """Whether values are surely training's with the change undone; `home` is their share that are as they are."""
    if _is_nothing(evidence, cause) or (by_values and not _gives_away(evidence, cause)):
        return False
    if _offset_will_do(evidence, cause):
        return False
    if _evenly(evidence.known):  # On such a grid values land wherever they lie among training's.
        step = float(np.diff(evidence.known).min())
        same = float(np.average(on_grid(evidence.values - evidence.known[0], step), weights=evidence.weights))
        return cause.share > _EVERY and (same < _EVERY or cause.kind == OFFSET or is_usual(cause))
    return cause.share > max(home, _HALF) + _CLEARLY or _explains(evidence, cause, enough=0.5)


def _at_home(evidence: _Evidence) -> float:
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


def _by_values(evidence: _Evidence, *, familiar: bool) -> Iterator[Cause]:
    """Changes under which served values land on training's, the plainest first."""
    values, weights, known, known_weights = evidence.values, evidence.weights, evidence.known, evidence.known_weights
    if not len(known):
        return
    least = _COVERS if familiar else 0.0
    match = find_factor(values, weights, known, known_weights)
    match = match and _usual_rather(evidence, match)
    if match is not None and match.share >= _LANDS and match.covered >= least and _told_by_values(evidence, match):
        yield _exact(match.factor, match.share, match.precision)
    for one in affine():
        share = landing(values, weights, known, one.factor, one.offset, 0.0)
        if share >= _LANDS and chance(values, weights, known, one.factor, one.offset, 0.0) < _DENSE:
            yield Cause(
                OFFSET if one.factor == 1.0 else AFFINE, one.factor, one.offset, share, 0.0, one.words, by_values=True
            )
    match = find_offset(values, weights, known, known_weights)
    if match is not None and match.share >= _LANDS and match.covered >= least:
        yield Cause(OFFSET, 1.0, match.offset, match.share, by_values=True)


def _usual_rather(evidence: _Evidence, match: Match) -> Match:
    """The match, or the one usual factor near it where nearly as many rows land with that: far from zero values land on
    a fine grid with many."""
    usual = only_common(match.factor, _NEAR)
    if usual is None:
        return match
    share = landing(evidence.values, evidence.weights, evidence.known, usual.factor, 0.0, 0.0)
    return replace(match, factor=usual.factor, share=share) if share >= _EVERY * match.share else match


def _gives_away(evidence: _Evidence, cause: Cause) -> bool:
    """Whether several values are training's only with the change undone, or all that are there."""
    slack = cause.precision * float(np.average(np.abs(evidence.values), weights=evidence.weights))
    more = newly_landing(evidence.values, evidence.known, cause.factor, cause.offset, slack)
    return more >= min(_SEVERAL, len(evidence.values))


def _told_by_values(evidence: _Evidence, match: Match) -> bool:
    """Whether the values say that it is this factor; where others of as many digits would land as well, the
    distributions have to say about the same."""
    fit = _fitted(evidence)
    if fit is not None and _always_lands(evidence, match.factor):
        return _fits(evidence, fit, match.factor, _NEAR)
    by_digits = of_any_digits(evidence.values, evidence.weights, evidence.known, match.factor)
    if match.share - by_digits > _HALF * (1 - by_digits):
        return True
    return _fits(evidence, fit, match.factor, _ABOUT)


def _always_lands(evidence: _Evidence, factor: float) -> bool:
    """Whether values that were rounded as the served ones are lie on training's grid with the factor undone, whatever
    they are."""
    return evidence.grid is not None and always_back(evidence.values, evidence.grid, factor)


def _fits(evidence: _Evidence, fit: ScaleFit | None, factor: float, room: float) -> bool:
    """Whether the distributions say about the same factor: within `room`, or what they are unsure by."""
    if fit is None or factor <= 0:
        return False
    sure = float(np.hypot(fit.log_error, _days_move(evidence, fit.factor)))
    return abs(float(np.log(factor / fit.factor))) <= max(room, _SURELY * sure)


def _days_move(evidence: _Evidence, factor: float) -> float:
    """By how much the logarithms of values lie elsewhere in a window like this one, as its days are others, of values
    on both sides of zero by their typical size; infinity where training does not tell."""
    feature = evidence.feature
    current = evidence.sample.counted(evidence.bins, factor, 0.0)
    level = block_distance(evidence.reference, current, compared_bins(feature, evidence.reference), ordered=True).level
    low, high = np.interp(_QUARTILES, feature.levels, feature.quantiles)
    if level is None:
        return np.inf
    if low > 0:
        return level.error * float(np.log(high / low)) / _OF_NORMAL
    typical = float(np.median(np.abs(feature.quantiles)))
    return float(np.log1p(level.error * (high - low) / _OF_NORMAL / typical)) if typical else np.inf


def _by_grid(evidence: _Evidence, fit: ScaleFit | None) -> Cause | None:
    """A well-known factor near the one that distributions suggest, that brings values back onto training's grid."""
    if fit is None or evidence.grid is None:
        return None
    known = like_training(evidence.feature)
    found = factor_by_grid(evidence.values, known, evidence.grid, fit.factor)
    if found is None or (_always_lands(evidence, found.factor) and not _fits(evidence, fit, found.factor, _NEAR)):
        return None
    cause = Cause(FACTOR, found.factor, precision=EXACT, name=found.words or None, by_values=True)
    return cause if _explains(evidence, cause, enough=0.9) else None


def _fitted(evidence: _Evidence) -> ScaleFit | None:
    """The factor that distributions suggest, with an error that takes in how days differ."""
    levels, quantiles = np.array(evidence.feature.levels), np.array(evidence.feature.quantiles)
    present = evidence.feature.rows - evidence.feature.missing - evidence.feature.infinite
    known = without_zeros(levels, quantiles, evidence.feature.support, present)
    fit = fit_factor(evidence.values, evidence.weights, *known)
    if fit is None:
        return None
    return replace(fit, log_error=fit.log_error * evidence.distance(fit.factor, 0.0).design_effect ** 0.5)


def _best_shape(evidence: _Evidence, fit: ScaleFit | None) -> Cause | None:
    """The plainest of the changes that make the shift go away about as well as the best of them does.

    A factor that is none of the usual ones is not determined where an offset does as well, and the other way round.
    """
    before = evidence.delta(1.0, 0.0)
    good = [cause for cause in _by_shape(evidence, fit) if _explains_shape(evidence, cause, before)]
    left = [evidence.delta(cause.factor, cause.offset) for cause in good]
    room = max((_room(evidence, cause) for cause in good), default=0.0)
    near = [cause for cause, delta in zip(good, left, strict=True) if delta <= min(left) + room]
    if not near or (not is_usual(near[0]) and len({one.kind for one in near}) > 1):
        return None
    return near[0]


def _room(evidence: _Evidence, cause: Cause) -> float:
    """By how much more Δ another change may leave and still explain values about as well."""
    shown = evidence.distance(cause.factor, cause.offset).detectable(evidence.margin, 0.05)
    return _AS_WELL if shown <= _TELLING else _OF_SHOWN * shown


def is_usual(cause: Cause) -> bool:
    """Whether people mix up units by just that factor and offset."""
    if cause.kind != FACTOR:
        return cause.name is not None
    return cause.factor == -1.0 or any(abs(np.log(cause.factor / one.factor)) < _USUAL for one in named_factors())


def _by_shape(evidence: _Evidence, fit: ScaleFit | None) -> Iterator[Cause]:
    """Changes that bring the distributions together, for values too many or too dense to be told one from another."""
    if fit is not None:
        yield _estimated(fit.factor, fit.log_error, float(np.abs(evidence.feature.quantiles).max()))
    yield Cause(FACTOR, -1.0)
    for one in affine():
        yield Cause(OFFSET if one.factor == 1.0 else AFFINE, one.factor, one.offset, name=one.words)
    yield _middle_offset(evidence)


def _middle_offset(evidence: _Evidence) -> Cause:
    """By how much most values lie elsewhere."""
    levels, quantiles = np.array(evidence.feature.levels), np.array(evidence.feature.quantiles)
    inner = (levels >= 0.1) & (levels <= 0.9)
    current = _quantiles(evidence.values, evidence.weights, levels)
    return Cause(OFFSET, 1.0, float(np.median((current - quantiles)[inner])))


def _explains(evidence: _Evidence, cause: Cause, *, enough: float) -> bool:
    """Whether undoing the change brings Δ down to a share `enough` of what it was.

    One day's mix of values need not be training's; that served values land on training's is evidence of its own.
    """
    left = evidence.delta(cause.factor, cause.offset)
    return left < min(enough * evidence.delta(1.0, 0.0), _MIXED)


def _explains_shape(evidence: _Evidence, cause: Cause, before: float) -> bool:
    """Whether undoing the change leaves no shift beyond the margin, where the window could have shown one: of a third
    of what the change explains, if that is much, or of nearly all of it where hardly anything is left. `before` is Δ
    with nothing undone. Where training has too few days to know how days differ, what may be a day's own level
    explains nothing.
    """
    if _is_nothing(evidence, cause) or (cause.precision > _VAGUE and not is_usual(cause)):
        return False
    if _offset_will_do(evidence, cause):
        return False
    gridded = evidence.grid is not None and cause.kind == FACTOR and is_usual(cause)
    if gridded and off_the_grid(evidence.values, evidence.grid or 0.0, cause.factor):
        return False
    if evidence.delta(cause.factor, cause.offset) >= 0.5 * before:
        return False
    after = evidence.distance(cause.factor, cause.offset)
    if after.p_value(evidence.margin) <= 0.01 or (not after.block_robust and _of_one_day(cause)):
        return False
    detectable = after.detectable(evidence.margin, 0.05)
    hardly = evidence.delta(cause.factor, cause.offset) <= _HARDLY * before and detectable < _SHOWN * before
    return hardly or detectable < max(_TELLING, before / 3)


def _of_one_day(cause: Cause) -> bool:
    """Whether it may be the level of one day: an offset or a small factor that people mix up no units by."""
    small = cause.kind != FACTOR or abs(float(np.log(abs(cause.factor)))) < np.log(_OF_DAYS)
    return small and not is_usual(cause)


def _is_nothing(evidence: _Evidence, cause: Cause) -> bool:
    return abs(cause.factor - 1) < _NOTHING and abs(cause.offset) < _NOTHING * np.ptp(evidence.feature.quantiles)


def _part_of_rows(evidence: _Evidence) -> Cause | None:
    """A factor that holds for the rows off training's values only, where that is a part of the rows."""
    values, weights, known = evidence.values, evidence.weights, evidence.known
    if not len(known):
        return None
    strange = np.array([landing(values[i : i + 1], np.ones(1), known, 1.0, 0.0, 0.0) == 0 for i in range(len(values))])
    share = float(weights[strange].sum() / weights.sum())
    if not _PART < share < 1 - _PART or weights[strange].max() > _HALF * weights[strange].sum():
        return None
    match = find_factor(values[strange], weights[strange], known, evidence.known_weights)
    if match is None or match.share < 0.9 or match.precision > EXACT or strange.sum() < _PART_VALUES:
        return None
    if abs(np.log(abs(match.factor))) < _PART_FACTOR:
        return None
    by_digits = of_any_digits(values[strange], weights[strange], known, match.factor)
    if match.share - by_digits <= _HALF * (1 - by_digits):
        return None
    return replace(_exact(match.factor, share, match.precision), by_values=False)


def _exact(factor: float, share: float, precision: float) -> Cause:
    """A factor found by the values, with its name if it has one."""
    named = nearest_factor(factor, max(_EXACT_NAME, precision))
    name = named.words if named else None
    return Cause(FACTOR, factor, share=share, precision=precision, name=name, by_values=True)


def _estimated(factor: float, error: float, largest: float) -> Cause:
    """A factor found by the shape: the common one that its error allows, if it is one and the error not too large, else
    as estimated; `largest` is training's largest value."""
    room = max(_SNAP, _SURELY * error)
    wide = max(_WIDEST_SNAP, min(_FAR_SNAP, abs(float(np.log(factor))) / _FAR))
    common = only_common(factor, room, largest) if room <= wide else None
    if common is not None:
        return Cause(FACTOR, common.factor, precision=error, name=common.words or None)
    return Cause(FACTOR, factor, precision=error)


def _quantiles(values: Floats, weights: Floats, levels: Floats) -> Floats:
    total = np.cumsum(weights)
    return np.asarray(values[np.minimum(np.searchsorted(total, levels * total[-1]), len(values) - 1)])
