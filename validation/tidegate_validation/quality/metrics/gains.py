"""How good the candidate is, and how much better or worse than the baseline: any metric of one model, or of both."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from tidegate_validation.quality.evaluation import Evaluation, Task
from tidegate_validation.quality.metrics import classification, ranking, regression
from tidegate_validation.quality.metrics.catalogue import Metric, metrics_for
from tidegate_validation.quality.metrics.margins import Margin, Margins
from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.jackknife import Estimate, mean, paired_ratio, parts_of, ratio

_NOTHING = 1e-300
_SMALL = 0.0005
"""Below that three decimals show nothing."""
_TENFOLD = 9.995
"""From there on three digits of per cent would be written with an exponent."""
MEASURES: dict[str, str] = {Task.BINARY: "AUC", Task.MULTICLASS: "AUC", Task.REGRESSION: "R²", Task.RANKING: "NDCG"}
EVERYTHING = "all examples"
SERVING = "the version that serves now"


@dataclass(frozen=True, slots=True)
class Gain:
    """One metric of both models; `gain` is how much better the candidate is, below zero how much worse.

    Where `relative`, gains are shares of the baseline's value, else points or amounts of the metric. `own` is the
    candidate's value with its error, `margin` the loss that is allowed, in the gain's unit.
    """

    metric: str
    candidate: float
    baseline: float
    gain: Estimate
    relative: bool
    own: Estimate | None = None
    margin: float = 0.0

    def change(self, value: float) -> str:
        """A signed change in the metric's unit, in words."""
        return change_in_words(value, self.relative)

    def between(self, low: float, high: float) -> str:
        """Two bounds of a change, in words; an infinite one is none."""
        ends = self.change(low), self.change(high)
        if np.isfinite(low) and np.isfinite(high):
            return f"between {ends[0]} and {ends[1]}"
        if np.isfinite(low):
            return f"{ends[0]} or more"
        return f"{ends[1]} or less" if np.isfinite(high) else "of which this data gives no bounds"

    def amount(self, value: float) -> str:
        """A size of change in the metric's unit, in words."""
        if not self.relative:
            return f"{value:.3g}"
        return f"{100 * value:.3g} %" if abs(value) < _TENFOLD else f"{100 * value:,.0f} %"


def change_in_words(value: float, relative: bool) -> str:
    """A signed change, in per cent or in points."""
    if relative:
        return f"{100 * value:+,.1f} %"
    return f"{value:+.3f}" if abs(value) >= _SMALL or not value else f"{value:+.2g}"


def value_of(metric: Metric, evaluation: Evaluation, scores: Floats) -> Estimate:
    """A metric of one model."""
    if metric.whole is not None:
        return metric.whole(evaluation, scores).estimate()
    return _mean(_each(metric, evaluation, scores), evaluation)


def gain_of(
    metric: Metric,
    evaluation: Evaluation,
    candidate: Floats,
    baseline: Floats,
    margin: Margins | Margin | None = None,
) -> Gain:
    """A metric of both models on the same examples, paired; in shares or points as its margin has it."""
    sign = 1.0 if metric.higher else -1.0
    if metric.whole is None:
        mine, theirs = (_each(metric, evaluation, scores) for scores in (candidate, baseline))
        allowed = _margin(metric, float(theirs.mean()), margin)
        below = np.maximum(theirs, _NOTHING) if allowed.relative else np.ones(len(theirs))
        gain = _ratio(sign * (mine - theirs), below, evaluation)
        own = _mean(mine, evaluation)
        values = float(mine.mean()), float(theirs.mean())
        return Gain(metric.name, *values, gain, allowed.relative, own, allowed.limit)
    first, second = (metric.whole(evaluation, scores) for scores in (candidate, baseline))
    change = first.minus(second) if metric.higher else second.minus(first)
    allowed = _margin(metric, second.value, margin)
    estimate = (change.over(second) if allowed.relative else change).estimate()
    return Gain(metric.name, first.value, second.value, estimate, allowed.relative, first.estimate(), allowed.limit)


def compare_models(
    evaluation: Evaluation, candidate: Floats, baseline: Floats, margins: Callable[[Metric], Margins] | None = None
) -> list[Gain]:
    """Paired gains by every metric that both models' scores allow."""
    return [
        gain_of(metric, evaluation, candidate, baseline, margins(metric) if margins else None)
        for metric in metrics_for(evaluation, [candidate, baseline])
    ]


def gain_terms(metric: Metric, evaluation: Evaluation, candidate: Floats, baseline: Floats) -> tuple[Floats, Floats]:
    """Of a metric that is a mean, a value per unit: how much better the candidate is, and what shares are taken of."""
    mine, theirs = (_each(metric, evaluation, scores) for scores in (candidate, baseline))
    below = np.maximum(theirs, _NOTHING) if metric.relative else np.ones(len(theirs))
    return np.asarray((mine - theirs) * (1.0 if metric.higher else -1.0)), below


def measure(evaluation: Evaluation) -> str:
    """What `power` is called for the task."""
    return MEASURES[evaluation.task]


def power(evaluation: Evaluation, scores: Floats) -> Estimate:
    """How well scores tell the labels, 1 being perfect: AUC, R² or NDCG."""
    if evaluation.task == Task.REGRESSION:
        return regression.explained(evaluation, scores).estimate()
    if evaluation.task == Task.RANKING:
        return mean(ranking.ndcg(evaluation, scores), _unit_groups(evaluation)).estimate()
    return classification.area(evaluation, scores).estimate()


def chance(evaluation: Evaluation) -> float:
    """The power of a model that knows nothing."""
    if evaluation.task == Task.REGRESSION:
        return 0.0
    if evaluation.task == Task.RANKING:
        return power(evaluation, np.zeros(len(evaluation))).value
    return 0.5


def _margin(metric: Metric, baseline: float, margin: Margins | Margin | None) -> Margin:
    if isinstance(margin, Margins):
        return margin.of(metric, baseline)
    return Margin(0.0, metric.relative) if margin is None else margin


def _each(metric: Metric, evaluation: Evaluation, scores: Floats) -> Floats:
    if metric.each is None:
        raise ValueError(f"{metric.name} is no mean over examples")
    return metric.each(evaluation, scores)


def _unit_groups(evaluation: Evaluation) -> Integers:
    return np.asarray(evaluation.groups[evaluation.units()])


def _mean(values: Floats, evaluation: Evaluation) -> Estimate:
    return _ratio(values, np.ones(len(values)), evaluation)


def _ratio(above: Floats, below: Floats, evaluation: Evaluation) -> Estimate:
    """The ratio of sums over units, with an error that fits whether units come in groups."""
    if evaluation.clustered:
        found = ratio(above, below, _unit_groups(evaluation)).estimate()
    else:
        found = paired_ratio(above, below)
    return found.of_few(parts_of(below))
