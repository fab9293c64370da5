"""The thresholds of skew (`SkewRule`), and the rule that turns numbers into outcomes, corrected over all tests."""

from __future__ import annotations

import enum
import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass

from tidegate_serving.admission import Outcome
from tidegate_validation.skew.measures.distance import BlockDistance
from tidegate_validation.skew.measures.numbers import FeatureNumbers, Unseen
from tidegate_validation.statistics.false_discovery import benjamini_hochberg


class Aspect(enum.StrEnum):
    """What one test of a feature looks at."""

    DISTRIBUTION = "distribution"
    MISSING = "missing"
    UNSEEN = "unseen"
    RANGE = "range"
    INFINITE = "infinite"
    OUTSIDE = "outside"
    DIGITS = "digits"
    POINT = "single value"
    SIGN = "sign"


_OF_PRESENCE = (Aspect.MISSING, Aspect.INFINITE)
_OF_WAVES = (Aspect.DISTRIBUTION, Aspect.UNSEEN, Aspect.POINT)
"""What releases of a version change by nature."""
_NUMBERS = 4.0
"""Numbers that training never held are more ordinary than categories: the floor is this many times higher."""
_MOST_BEYOND = 0.2
NOTED = 4.0
"""Unseen values, and one that weighs more, are worth a WARN from the limit divided by this."""


@dataclass(frozen=True, slots=True)
class SkewRule:
    """Thresholds of the skew tests.

    `margin` is the Δ up to which a shift is tolerated, `alpha` the false discovery rate, `missing_margin` the tolerated
    change of a missing rate, `point_margin` that of a single value's weight, `unseen_factor` and `unseen_floor` how far
    beyond nature's rate unseen values may go, and `detectable` the Δ that the window must have been able to show for a
    PASS. A release is held against the log where that has `least_rows`, else against held-out data.
    """

    margin: float = 0.10
    alpha: float = 0.05
    missing_margin: float = 0.01
    unseen_factor: float = 5.0
    unseen_floor: float = 0.005
    point_margin: float = 0.01
    detectable: float = 0.5
    least_rows: int = 200


@dataclass(frozen=True, slots=True)
class Judgement:
    """Outcome of one test of one feature; p-values adjusted, against the margin and against no difference at all."""

    feature: str
    test: Aspect
    outcome: Outcome
    p_margin: float
    p_zero: float
    limit: float
    detectable: float | None = None


@dataclass(frozen=True, slots=True)
class _Test:
    numbers: FeatureNumbers
    test: Aspect
    p_margin: float
    p_zero: float
    limit: float


def judge(numbers: Sequence[FeatureNumbers], rule: SkewRule, grown: Collection[str] = ()) -> list[Judgement]:
    """One judgement per feature and test, corrected over all of them. Of features that have `grown` with time, values
    are no evidence, and only whether they are there is tested."""
    found = []
    for family in (_of_shape, _of_single_values):
        tested = [one for feature in numbers for one in family(feature, rule)]
        tested = [one for one in tested if one.numbers.feature not in grown or one.test in _OF_PRESENCE]
        margins = benjamini_hochberg([one.p_margin for one in tested])
        zeros = benjamini_hochberg([one.p_zero for one in tested])
        found += [_judgement(*one, rule) for one in zip(tested, margins, zeros, strict=True)]
    return found


def _of_shape(numbers: FeatureNumbers, rule: SkewRule) -> list[_Test]:
    """Tests that look at all values; they are corrected together. One that has nothing to look at takes no share."""
    distribution, missing, missing_limit = numbers.distribution, numbers.missing, _missing_limit(numbers, rule)
    shape = _Test(numbers, Aspect.DISTRIBUTION, distribution.p_value(rule.margin), distribution.p_value(), rule.margin)
    if not missing.decidable:
        return [shape]
    p_margin, p_zero = missing.p_value(missing_limit), missing.p_value()
    return [shape, _Test(numbers, Aspect.MISSING, p_margin, p_zero, rule.missing_margin)]


def _of_single_values(numbers: FeatureNumbers, rule: SkewRule) -> list[_Test]:
    """Tests for what the shape dilutes; they are corrected together."""
    found = []
    rates = {Aspect.UNSEEN: numbers.unseen, Aspect.RANGE: numbers.far, Aspect.OUTSIDE: numbers.outside}
    for test, unseen in rates.items():
        if unseen is not None:
            limit, noted = _unseen_limits(unseen, rule)
            found.append(_Test(numbers, test, unseen.p_value(limit), unseen.p_value(noted), limit))
    if numbers.infinite_shares.current > 0:
        new = numbers.infinite_shares.reference == 0
        p_margin = 0.0 if new and numbers.infinite_shares.current > rule.unseen_floor else 1.0
        found.append(_Test(numbers, Aspect.INFINITE, p_margin, 0.0 if new else 1.0, rule.unseen_floor))
    if numbers.digits is not None and numbers.digits.decidable:
        p_margin = numbers.digits.p_value(rule.margin)
        found.append(_Test(numbers, Aspect.DIGITS, p_margin, p_margin, rule.margin))
    if numbers.signs is not None and numbers.signs.distance.decidable:
        p_margin = numbers.signs.distance.p_value(rule.margin)
        found.append(_Test(numbers, Aspect.SIGN, p_margin, p_margin, rule.margin))
    if numbers.point is not None:
        limit = numbers.point.limit(rule.point_margin)
        noted = numbers.point.p_value(numbers.point.limit(rule.point_margin, 1 / NOTED))
        found.append(_Test(numbers, Aspect.POINT, numbers.point.p_value(limit), noted, limit))
    return found


def _unseen_limits(unseen: Unseen, rule: SkewRule) -> tuple[float, float]:
    """The rates of unseen values that fail and that are worth a WARN: so many times nature's, but no more than
    `_MOST_BEYOND` more, half of that for a WARN, where days bring many new categories anyway.
    """
    limit = max(rule.unseen_factor * unseen.expected, rule.unseen_floor * (_NUMBERS if unseen.number else 1.0))
    beyond = unseen.expected + _MOST_BEYOND
    return (limit, limit / NOTED) if limit <= beyond else (beyond, unseen.expected + _MOST_BEYOND / 2)


def _missing_limit(numbers: FeatureNumbers, rule: SkewRule) -> float:
    """The margin in percentage points as a Δ over the two bins missing and present."""
    middle = (numbers.missing_shares.reference + numbers.missing_shares.current) / 2
    return rule.missing_margin / math.sqrt(max(middle * (1 - middle), 1e-12))


def _judgement(one: _Test, p_margin: float, p_zero: float, rule: SkewRule) -> Judgement:
    detectable = _detectable(one, rule)
    outcome = _outcome(one, p_margin, p_zero, rule, detectable)
    return Judgement(one.numbers.feature, one.test, outcome, p_margin, p_zero, one.limit, detectable)


def _outcome(one: _Test, p_margin: float, p_zero: float, rule: SkewRule, detectable: float | None) -> Outcome:
    distance = _distance(one)
    if p_margin < rule.alpha:
        in_waves = one.numbers.waves and one.test in _OF_WAVES
        return Outcome.FAIL if _days_known(one) and not in_waves else Outcome.WARN
    if one.test is Aspect.DISTRIBUTION and p_zero < rule.alpha and distance is not None:
        return Outcome.PASS if distance.upper(rule.alpha) < rule.margin else Outcome.WARN
    if p_zero < rule.alpha:
        return Outcome.WARN
    too_weak = detectable is not None and detectable > rule.detectable
    if too_weak and not (distance is not None and distance.block_robust and distance.rows_enough(rule.detectable)):
        return Outcome.INCONCLUSIVE
    return Outcome.PASS


def _days_known(one: _Test) -> bool:
    """Whether it is known how days differ, where a test's numbers hang on that: a day may bring its own ordinary
    numbers, and some beyond training's, but no default, no category and nothing far away."""
    distance = _distance(one)
    point, unseen = one.numbers.point, one.numbers.unseen
    by_day = (
        one.test is Aspect.OUTSIDE
        or (one.test is Aspect.UNSEEN and unseen is not None and unseen.number)
        or (one.test is Aspect.POINT and point is not None and point.daily)
    )
    if by_day:
        distance = one.numbers.distribution
    return distance is None or distance.block_robust


def _distance(one: _Test) -> BlockDistance | None:
    if one.test is Aspect.SIGN:
        return None if one.numbers.signs is None else one.numbers.signs.distance
    by_test = {Aspect.DISTRIBUTION: one.numbers.distribution, Aspect.MISSING: one.numbers.missing}
    return one.numbers.digits if one.test is Aspect.DIGITS else by_test.get(one.test)


def _detectable(one: _Test, rule: SkewRule) -> float | None:
    """The smallest Δ that the distribution test would have found; only that test can be too weak to say anything."""
    distance = one.numbers.distribution
    if one.test is not Aspect.DISTRIBUTION or (not distance.decidable and not distance.too_few):
        return None
    return distance.detectable(rule.margin, rule.alpha)
