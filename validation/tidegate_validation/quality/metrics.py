"""Metrics over examples in groups, and their uncertainty by leaving one group out at a time.

`compared` uses them for the candidate, the baseline and their difference; groups are days of the event where there are
enough, else buckets of a hash.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Groups = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its standard error and the degrees of freedom behind that."""

    value: float
    error: float
    freedom: int

    def interval(self, alpha: float) -> tuple[float, float]:
        """Two-sided confidence interval at level 1 - 2 alpha: each end is a bound at level 1 - alpha."""
        from scipy import stats

        reach = float(stats.t.ppf(1 - alpha, self.freedom)) * self.error
        return self.value - reach, self.value + reach


def auc(labels: Floats, scores: Floats) -> float:
    """Area under the ROC curve, ties counted half (the Mann-Whitney statistic); NaN with one class only."""
    from scipy import stats

    positives = float(labels.sum())
    negatives = len(labels) - positives
    if positives == 0 or negatives == 0:
        return float("nan")
    ranks = stats.rankdata(scores)
    return float((ranks[labels == 1].sum() - positives * (positives + 1) / 2) / (positives * negatives))


def jackknife(statistic: Callable[[npt.NDArray[np.bool_]], float], groups: Groups) -> Estimate:
    """Estimate of a statistic of kept rows, with the error from leaving one group out at a time (delete-a-group)."""
    everything = np.ones(len(groups), dtype=bool)
    names = np.unique(groups)
    without = np.array([statistic(groups != name) for name in names])
    without = without[np.isfinite(without)]
    count = len(without)
    spread = float(((without - without.mean()) ** 2).sum()) if count else 0.0
    error = float(np.sqrt((count - 1) / count * spread)) if count > 1 else float("inf")
    return Estimate(statistic(everything), error, max(count - 1, 1))


def group_ratio(numerator: Floats, denominator: Floats, groups: Groups) -> Estimate:
    """Jackknife of sum(numerator) / sum(denominator), from one pass over the rows."""
    _, place = np.unique(groups, return_inverse=True)
    above, below = np.bincount(place, weights=numerator), np.bincount(place, weights=denominator)
    rest_above, rest_below = above.sum() - above, below.sum() - below
    usable = rest_below > 0
    without = rest_above[usable] / rest_below[usable]
    count = len(without)
    total = float(below.sum())
    value = float(above.sum()) / total if total > 0 else float("nan")
    spread = float(((without - without.mean()) ** 2).sum()) if count else 0.0
    error = float(np.sqrt((count - 1) / count * spread)) if count > 1 else float("inf")
    return Estimate(value, error, max(count - 1, 1))
