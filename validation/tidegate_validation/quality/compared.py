"""The numbers of the quality gate: how good the candidate is, and how much better or worse than the baseline.

`gate` hands in labels and scores of both for the same examples; `rule` judges what comes out, `leak` asks for more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate_validation.quality import classification, ranking, regression
from tidegate_validation.quality.catalogue import Metric, metrics_for
from tidegate_validation.quality.evaluation import Evaluation, Task
from tidegate_validation.quality.metrics import Estimate, Floats, Groups, mean, paired_ratio, ratio

_NOTHING = 1e-300
MEASURES: dict[str, str] = {Task.BINARY: "AUC", Task.MULTICLASS: "AUC", Task.REGRESSION: "R²", Task.RANKING: "NDCG"}


@dataclass(frozen=True, slots=True)
class Gain:
    """One metric of both models; `gain` is how much better the candidate is, below zero how much worse.

    Where `relative`, gains are shares of the baseline's value, else points. `own` is the candidate's value with its
    error.
    """

    metric: str
    candidate: float
    baseline: float
    gain: Estimate
    relative: bool
    own: Estimate | None = None


def value_of(metric: Metric, evaluation: Evaluation, scores: Floats) -> Estimate:
    """A metric of one model."""
    if metric.whole is not None:
        return metric.whole(evaluation, scores).estimate()
    values = _each(metric, evaluation, scores)
    return _ratio(values, np.ones(len(values)), evaluation, evaluation.units())


def gain_of(
    metric: Metric, evaluation: Evaluation, candidate: Floats, baseline: Floats, relative: bool | None = None
) -> Gain:
    """A metric of both models on the same examples, paired; in shares or points as the metric has it, or as told."""
    shares = metric.relative if relative is None else relative
    sign = 1.0 if metric.higher else -1.0
    if metric.whole is None:
        mine, theirs = (_each(metric, evaluation, scores) for scores in (candidate, baseline))
        below = np.maximum(theirs, _NOTHING) if shares else np.ones(len(theirs))
        gain = _ratio(sign * (mine - theirs), below, evaluation, evaluation.units())
        own = _ratio(mine, np.ones(len(mine)), evaluation, evaluation.units())
        return Gain(metric.name, float(mine.mean()), float(theirs.mean()), gain, shares, own)
    first, second = (metric.whole(evaluation, scores) for scores in (candidate, baseline))
    change = first.minus(second) if metric.higher else second.minus(first)
    estimate = (change.over(second) if shares else change).estimate()
    return Gain(metric.name, first.value, second.value, estimate, shares, first.estimate())


def compare_models(evaluation: Evaluation, candidate: Floats, baseline: Floats) -> list[Gain]:
    """Paired gains by every metric that both models' scores allow."""
    return [
        gain_of(metric, evaluation, candidate, baseline) for metric in metrics_for(evaluation, [candidate, baseline])
    ]


def losses_of(metric: Metric, evaluation: Evaluation, candidate: Floats, baseline: Floats) -> tuple[Floats, Floats]:
    """Of a metric that is a mean: numerator and denominator of the gain, a value per unit."""
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


def _each(metric: Metric, evaluation: Evaluation, scores: Floats) -> Floats:
    if metric.each is None:
        raise ValueError(f"{metric.name} is no mean over examples")
    return metric.each(evaluation, scores)


def _unit_groups(evaluation: Evaluation) -> Groups:
    return np.asarray(evaluation.groups[evaluation.units()])


def _ratio(above: Floats, below: Floats, evaluation: Evaluation, units: Groups) -> Estimate:
    if evaluation.clustered:
        return ratio(above, below, evaluation.groups[units]).estimate()
    return paired_ratio(above, below)
