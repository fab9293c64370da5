"""The thresholds of the quality gate, and the rules that turn numbers about two models into outcomes.

The policy file fills `QualityRule`; `gate` asks the rules and has `finding` word what they say.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate_serving.contract.verdict import Outcome
from tidegate_validation.quality.metrics import Estimate


@dataclass(frozen=True, slots=True)
class QualityRule:
    """Thresholds of the quality gate.

    `task` is auto, binary or regression. `margin` is how many points of AUC a candidate may lose; `loss_margin` how
    much its loss may grow, `slice_margin` that within one slice, both as shares of the baseline's. `alpha` is the error
    rate of each bound. `too_good` is the share of the baseline's remaining error (1 - AUC, or squared error) that a
    candidate may take away before it is suspected of a leak; `first_limit` the AUC or R² from which a first version is,
    `lone_limit` that of one input by itself. `trusted` lists inputs that may be that strong. `collapse` is the share of
    one single answer from which predictions count as collapsed. `least_power` is the AUC (for R², twice that less one)
    that a first version must surpass. `min_rows` is needed to judge at all; `max_rows` bounds what is predicted,
    `batch_rows` one batch.
    """

    task: str = "auto"
    margin: float = 0.01
    loss_margin: float = 0.05
    slice_margin: float = 0.10
    alpha: float = 0.05
    too_good: float = 0.34
    first_limit: float = 0.98
    lone_limit: float = 0.95
    trusted: tuple[str, ...] = ()
    collapse: float = 0.95
    least_power: float = 0.5
    min_rows: int = 200
    max_rows: int = 60_000
    batch_rows: int = 1024


def not_inferior(gain: Estimate, margin: float, alpha: float) -> Outcome:
    """FAIL when the gain is surely below minus the margin, PASS when surely above, else INCONCLUSIVE."""
    low, high = gain.interval(alpha)
    if high < -margin:
        return Outcome.FAIL
    return Outcome.PASS if low > -margin else Outcome.INCONCLUSIVE


def good_enough(power: Estimate, least: float, alpha: float) -> Outcome:
    """For a first version: FAIL when its power is surely no more than `least`, PASS when surely more."""
    low, high = power.interval(alpha)
    if high <= least:
        return Outcome.FAIL
    return Outcome.PASS if low > least else Outcome.INCONCLUSIVE


def suspicious_power(baseline: float, rule: QualityRule) -> float:
    """The power (AUC or R²) above which a candidate is better than one may believe, given the baseline's."""
    return 1 - (1 - rule.too_good) * (1 - baseline)
