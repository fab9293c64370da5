"""The numbers of the quality gate: how good the candidate is, and how much better or worse than the baseline.

`gate` hands in labels and scores of both for the same examples; `rule` judges what comes out, `leak` asks for more.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate_validation.quality.metrics import Estimate, Floats, Groups, auc, group_ratio, jackknife


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Labels and groups of the examples, shape [n], and what kind of task it is: `binary` or `regression`."""

    task: str
    labels: Floats
    groups: Groups

    @property
    def measure(self) -> str:
        """What `power` is called."""
        return "AUC" if self.task == "binary" else "R²"

    def power(self, scores: Floats) -> Estimate:
        """How well scores tell the labels: AUC, or for regression the share of variance explained."""
        labels = self.labels
        if self.task == "binary":
            return jackknife(lambda kept: auc(labels[kept], scores[kept]), self.groups)
        spread = (labels - labels.mean()) ** 2
        return group_ratio(spread - (labels - scores) ** 2, spread, self.groups)


@dataclass(frozen=True, slots=True)
class Gain:
    """One metric of both models; `gain` is how much better the candidate is, below zero how much worse.

    AUC is in points; losses are shares of the baseline's loss.
    """

    metric: str
    candidate: float
    baseline: float
    gain: Estimate


def compare_models(evaluation: Evaluation, candidate: Floats, baseline: Floats) -> list[Gain]:
    """Paired gains on the same examples: AUC and Brier score, or squared and absolute error."""
    labels, groups = evaluation.labels, evaluation.groups
    if evaluation.task == "regression":
        return [
            _loss("squared error", (labels - candidate) ** 2, (labels - baseline) ** 2, groups),
            _loss("absolute error", np.abs(labels - candidate), np.abs(labels - baseline), groups),
        ]
    gains = [
        Gain(
            "AUC",
            auc(labels, candidate),
            auc(labels, baseline),
            jackknife(lambda kept: auc(labels[kept], candidate[kept]) - auc(labels[kept], baseline[kept]), groups),
        )
    ]
    if is_probability(candidate) and is_probability(baseline):
        gains.append(_loss("Brier score", (labels - candidate) ** 2, (labels - baseline) ** 2, groups))
    return gains


def is_probability(scores: Floats) -> bool:
    """Whether all scores lie between 0 and 1, but for rounding."""
    return bool((scores >= -1e-6).all() and (scores <= 1 + 1e-6).all())


def _loss(metric: str, candidate: Floats, baseline: Floats, groups: Groups) -> Gain:
    gain = group_ratio(baseline - candidate, np.maximum(baseline, 1e-300), groups)
    return Gain(metric, float(candidate.mean()), float(baseline.mean()), gain)
