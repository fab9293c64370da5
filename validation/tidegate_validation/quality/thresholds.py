"""Thresholds that a policy sets on single metrics, in the vocabulary of TensorFlow Model Analysis.

The policy file lists them under `[[quality.thresholds]]`; `bounds` judges them with intervals, or by point estimates as
TensorFlow Model Analysis does.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from tidegate_serving.admission.verdict import Outcome
from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.quality.catalogue import canonical
from tidegate_validation.quality.metrics import Estimate

HIGHER = "HIGHER_IS_BETTER"
LOWER = "LOWER_IS_BETTER"
EVERY = "*"


@dataclass(frozen=True, slots=True)
class Threshold:
    """Limits of one metric on all examples, on the slice named (`carrier=UA`, a name under quality.sql) or on every
    slice (`*`).

    Value: `lower` <= metric <= `upper`. Change, candidate minus baseline: with HIGHER_IS_BETTER at least `absolute`,
    and at least `relative` as a share of the baseline; with LOWER_IS_BETTER at most. `point_estimate` leaves the
    interval out, which is how TensorFlow Model Analysis judges.
    """

    metric: str
    slice: str = ""
    lower: float | None = None
    upper: float | None = None
    absolute: float | None = None
    relative: float | None = None
    direction: str = ""
    point_estimate: bool = False

    def __post_init__(self) -> None:
        canonical(self.metric)
        if self.direction not in ("", HIGHER, LOWER):
            raise InvalidInput(
                f"direction {self.direction!r} of the threshold of {self.metric} is neither {HIGHER} nor {LOWER}"
            )
        if self.changes and not self.direction:
            raise InvalidInput(
                f"the threshold of {self.metric} limits a change: give it a direction, {HIGHER} or {LOWER}"
            )
        if not self.changes and self.lower is None and self.upper is None:
            raise InvalidInput(
                f"the threshold of {self.metric} limits nothing: give lower, upper, absolute or relative"
            )

    @property
    def changes(self) -> bool:
        """Whether it needs a baseline."""
        return self.absolute is not None or self.relative is not None


def judge_value(threshold: Threshold, value: Estimate, alpha: float) -> Outcome:
    """Whether a metric keeps within lower and upper. NaN fails."""
    low, high = (
        (-math.inf if threshold.lower is None else threshold.lower),
        (math.inf if threshold.upper is None else threshold.upper),
    )
    return _within(value, low, high, threshold.point_estimate, alpha)


def judge_change(threshold: Threshold, limit: float, change: Estimate, alpha: float) -> Outcome:
    """Whether candidate minus baseline keeps to the limit, `absolute` or `relative`. NaN fails."""
    low, high = (limit, math.inf) if threshold.direction == HIGHER else (-math.inf, limit)
    return _within(change, low, high, threshold.point_estimate, alpha)


def _within(estimate: Estimate, low: float, high: float, point: bool, alpha: float) -> Outcome:
    if math.isnan(estimate.value):
        return Outcome.FAIL
    least, most = (estimate.value, estimate.value) if point else estimate.interval(alpha)
    if math.isnan(least) or math.isnan(most):
        return Outcome.INCONCLUSIVE
    if most < low or least > high:
        return Outcome.FAIL
    return Outcome.PASS if low <= least and most <= high else Outcome.INCONCLUSIVE
