"""What a policy asks of quality (`QualityRule`), and the rules that turn numbers about two models into outcomes."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.quality.evaluation import MetricOptions
from tidegate_validation.quality.metrics.catalogue import canonical
from tidegate_validation.statistics.jackknife import Estimate

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


@dataclass(frozen=True, slots=True)
class QualityRule:
    """Thresholds of the quality gate.

    What is judged: `output` is the one that is the prediction, where models have several; `task` is auto, binary,
    multiclass, regression or ranking; `positive` the positive one of two
    classes; `group` the column of a ranking's queries; `entity` a column whose equal values belong together (a user),
    `id` one that names examples. `metrics` are those that decide, the task's own where it is empty. `threshold`,
    `top_k`, `cutoff`, `quantile`, `exponential_gain` belong to single metrics (`MetricOptions`).

    How much: `margin` is how many points of AUC, accuracy or NDCG a candidate may lose; `loss_margin` how much its loss
    may grow, as a share of the baseline's; `slice_points` and `slice_margin` the same within one slice. However little
    the baseline loses, a loss may grow by `absolute_margin` in its unit (squared error: in that of its root), by
    `loss_floor` as a share of what one answer for everything loses, and in a slice by `slice_floor` as a share of what
    the baseline loses on all examples. `alpha` is the error rate of each bound. `thresholds` are further limits of
    single metrics. `churn_limit` is the share of decisions (for numbers the mean change in standard deviations) that
    may differ from the baseline's.

    Slices: `slice_columns` (inputs where empty), `crosses` such as "carrier*origin", `sql` (conditions on the held-out
    table by name), and `auto_slices` regions found by a search `slice_depth` conditions deep; at most `max_slices`,
    each with `slice_rows` examples or more. Where examples of one entity or day go together, a slice of fewer than
    `slice_groups` entities or days is undecided.

    Leakage: `too_good` is the share of the baseline's remaining error (1 - AUC, or squared error) that a candidate may
    take away before a leak is suspected; `first_limit` the power (AUC, R² or NDCG) from which a first version is, and
    `single_feature_limit` that of one input by itself, on all examples or on a share of `leak_share` or more of them.
    `trusted` lists inputs that may be that strong.

    Predictions: `collapse` is the share of one single answer from which predictions count as collapsed, unless it was
    `usual` before (as a share of that). `least_power` is the AUC (for R², twice that less one) that a first version
    must surpass. `history_least` is how many earlier verdicts make a history.

    `min_rows` is needed to judge at all; `max_rows` bounds what is predicted, `batch_rows` one batch.
    """

    output: str = ""
    task: str = "auto"
    positive: str = ""
    group: str = ""
    entity: str = ""
    id: str = ""
    metrics: tuple[str, ...] = ()
    threshold: float = 0.5
    top_k: int = 3
    cutoff: int = 10
    quantile: float = 0.5
    exponential_gain: bool = True
    margin: float = 0.01
    loss_margin: float = 0.05
    slice_points: float = 0.02
    slice_margin: float = 0.10
    absolute_margin: float = 0.0
    loss_floor: float = 0.0001
    slice_floor: float = 0.02
    alpha: float = 0.05
    thresholds: tuple[Threshold, ...] = ()
    churn_limit: float = math.inf
    slice_columns: tuple[str, ...] = ()
    crosses: tuple[str, ...] = ()
    sql: Mapping[str, str] = field(default_factory=dict)
    auto_slices: int = 5
    slice_depth: int = 2
    max_slices: int = 200
    slice_rows: int = 300
    slice_groups: int = 6
    too_good: float = 0.34
    first_limit: float = 0.98
    single_feature_limit: float = 0.95
    leak_share: float = 0.05
    trusted: tuple[str, ...] = ()
    collapse: float = 0.95
    usual: float = 0.8
    least_power: float = 0.5
    history_least: int = 5
    min_rows: int = 200
    max_rows: int = 200_000
    batch_rows: int = 1024

    @property
    def options(self) -> MetricOptions:
        """What single metrics need to know."""
        return MetricOptions(self.threshold, self.top_k, self.cutoff, self.quantile, self.exponential_gain)


def not_inferior(gain: Estimate, margin: float, alpha: float, p_value: float | None = None) -> Outcome:
    """FAIL when the gain is surely below minus the margin, PASS when surely above, else INCONCLUSIVE.

    `p_value` is that of being below, adjusted for other metrics, where there are any.
    """
    below = gain.p_below(-margin) if p_value is None else p_value
    if below < alpha:
        return Outcome.FAIL
    return Outcome.PASS if gain.interval(alpha)[0] > -margin else Outcome.INCONCLUSIVE


def slice_outcome(p_margin: float, p_worse: float, gain: float, margin: float, alpha: float) -> Outcome:
    """FAIL when a slice is surely worse by more than the margin; WARN when surely worse, and as it looks by more than
    half of it. A slice that is too small to say is no refusal of the whole.
    """
    if p_margin < alpha:
        return Outcome.FAIL
    return Outcome.WARN if p_worse < alpha and gain < -margin / 2 else Outcome.PASS


def good_enough(power: Estimate, least: float, alpha: float) -> Outcome:
    """For a first version: FAIL when its power is surely no more than `least`, PASS when surely more."""
    low, high = power.interval(alpha)
    if high <= least:
        return Outcome.FAIL
    return Outcome.PASS if low > least else Outcome.INCONCLUSIVE


def suspicious_power(reference: float, rule: QualityRule) -> float:
    """The power (AUC, R² or NDCG) above which a candidate is better than one may believe, given the baseline's."""
    return 1 - (1 - rule.too_good) * (1 - reference)
