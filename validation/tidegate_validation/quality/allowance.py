"""How much a candidate may lose by the policy: margins on all examples, for a warning, and within one slice."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tidegate_validation.quality.evaluation import Evaluation, Task
from tidegate_validation.quality.metrics.catalogue import METRICS, Metric, metrics_for
from tidegate_validation.quality.metrics.gains import Gain, value_of
from tidegate_validation.quality.metrics.margins import Margins
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.statistics.arrays import Floats


@dataclass(frozen=True, slots=True)
class Allowance:
    """Margins of metrics that decide on all examples, of those that only warn, and of any within one slice."""

    deciding: Margins
    warning: Margins
    slices: Margins

    @classmethod
    def of(cls, evaluation: Evaluation, baseline: Floats, rule: QualityRule) -> Allowance:
        """By the policy, with floors that fit the labels and what the baseline loses on all examples."""
        losses = [metric for metric in metrics_for(evaluation, [baseline]) if metric.relative]
        guessed = {one.name: rule.loss_floor * _of_a_guess(one, evaluation) for one in losses}
        inside = {
            one.name: max(guessed[one.name], rule.slice_floor * value_of(one, evaluation, baseline).value)
            for one in losses
        }

        def margins(points: float, share: float, least: Mapping[str, float]) -> Margins:
            return Margins(points, share, rule.absolute_margin, least)

        return cls(
            deciding=margins(rule.margin, rule.loss_margin, guessed),
            warning=margins(rule.slice_points, rule.slice_margin, guessed),
            slices=margins(rule.slice_points, rule.slice_margin, inside),
        )


def margin_key(gain: Gain, share: str, points: str, floor: str, rule: QualityRule) -> str:
    """Which of the policy's keys set the margin: for a loss its share, or what is allowed at the least."""
    if gain.relative:
        return share
    if not any(metric.relative for metric in METRICS if metric.name == gain.metric):
        return points
    return "absolute_margin" if rule.absolute_margin else floor


def _of_a_guess(metric: Metric, evaluation: Evaluation) -> float:
    """What the same answer to everything loses: the share of each class, or the labels' middle."""
    labels = evaluation.labels
    if evaluation.task == Task.MULTICLASS:
        shares = np.bincount(labels.astype(np.int64), minlength=evaluation.k) / len(labels)
        return value_of(metric, evaluation, np.tile(shares, (len(labels), 1))).value
    answers = {"absolute error": np.median(labels), "quantile loss": np.quantile(labels, evaluation.options.quantile)}
    return value_of(metric, evaluation, np.full(len(labels), float(answers.get(metric.name, labels.mean())))).value
