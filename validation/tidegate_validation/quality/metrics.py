"""Statistics over examples in groups, and their uncertainty by leaving one group out at a time.

Every task's metrics are made of these; groups are days of the event where there are enough, else buckets of a hash.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Groups = npt.NDArray[np.int64]
Mask = npt.NDArray[np.bool_]


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

    def p_below(self, limit: float) -> float:
        """P-value of the claim that the truth lies below `limit`; 1 where nothing is known."""
        from scipy import stats

        if not (np.isfinite(self.value) and np.isfinite(self.error)):
            return 1.0
        if self.error == 0:
            return 0.0 if self.value < limit else 1.0
        return float(stats.t.cdf((self.value - limit) / self.error, self.freedom))

    def detectable(self, alpha: float, power: float = 0.8) -> float:
        """The smallest change that data with this error shows with that power; infinite where nothing is known."""
        from scipy import stats

        if not np.isfinite(self.error):
            return float("inf")
        return float(stats.t.ppf(1 - alpha, self.freedom) + stats.norm.ppf(power)) * self.error


@dataclass(frozen=True, slots=True)
class Replicates:
    """A statistic of all rows as `value`, and `without` each group in turn, shape [groups]; NaN where there is none."""

    value: float
    without: Floats

    def estimate(self) -> Estimate:
        """The value with its delete-a-group jackknife error."""
        finite = self.without[np.isfinite(self.without)]
        count = len(finite)
        if count < 2:
            return Estimate(self.value, float("inf"), 1)
        spread = float(((finite - finite.mean()) ** 2).sum())
        return Estimate(self.value, float(np.sqrt((count - 1) / count * spread)), count - 1)

    def minus(self, other: Replicates) -> Replicates:
        """The difference, paired by group."""
        return Replicates(self.value - other.value, self.without - other.without)

    def over(self, other: Replicates) -> Replicates:
        """The ratio, paired by group; NaN where the other is 0."""
        below = np.where(other.without == 0, np.nan, other.without)
        value = self.value / other.value if other.value else float("nan")
        return Replicates(value, self.without / below)


def totals(values: Floats, groups: Groups) -> tuple[float, Floats]:
    """Sum of all, and the sums without each group, NaN for a group without rows."""
    parts = np.bincount(groups, weights=values)
    rows = np.bincount(groups)
    whole = float(parts.sum())
    return whole, np.where(rows > 0, whole - parts, np.nan)


def ratio(numerator: Floats, denominator: Floats, groups: Groups) -> Replicates:
    """Sum(numerator) / sum(denominator), shape [n] each, from one pass over the rows."""
    above, rest_above = totals(numerator, groups)
    below, rest_below = totals(denominator, groups)
    rest_below = np.where(rest_below > 0, rest_below, np.nan)
    return Replicates(above / below if below > 0 else float("nan"), rest_above / rest_below)


def mean(values: Floats, groups: Groups) -> Replicates:
    """The mean of values per row."""
    return ratio(values, np.ones(len(values)), groups)


def paired_ratio(numerator: Floats, denominator: Floats) -> Estimate:
    """The ratio of sums where every row stands for itself: a paired t-test, by the ratio's linear part."""
    rows, below = len(numerator), float(denominator.sum())
    if rows < 2 or below <= 0:
        return Estimate(float("nan"), float("inf"), 1)
    value = float(numerator.sum()) / below
    residuals = numerator - value * denominator
    return Estimate(value, float(np.sqrt((residuals**2).sum() * rows / (rows - 1))) / below, rows - 1)


def average_ranks(values: npt.NDArray[np.generic]) -> Floats:
    """Ranks from 1, ties sharing their mean."""
    _, place, count = np.unique(values, return_inverse=True, return_counts=True)
    return np.asarray((np.cumsum(count) - (count - 1) / 2)[place], dtype=np.float64)


def auc_replicates(positive: Mask, scores: Floats, groups: Groups) -> Replicates:
    """AUC of all rows and without each group, shape [groups], from counts of pairs within and across groups."""
    size = int(groups.max()) + 1
    _, dense = np.unique(scores, return_inverse=True)
    wins = _wins(dense, positive)
    won, lost = _by_group(wins, positive, groups, size), _by_group(wins, ~positive, groups, size)
    inside = _wins(groups * (int(dense.max()) + 1) + dense, positive)
    before = np.concatenate([[0], np.cumsum(np.bincount(groups[~positive], minlength=size))])[:size]
    own = _by_group(np.where(positive, inside - before[groups], 0.0), positive, groups, size)
    positives, negatives = (np.bincount(groups[kind], minlength=size) for kind in (positive, ~positive))
    pairs = (positives.sum() - positives) * (negatives.sum() - negatives).astype(np.float64)
    left = np.where((pairs > 0) & (positives + negatives > 0), pairs, np.nan)
    whole = float(positives.sum()) * float(negatives.sum())
    value = float(won.sum()) / whole if whole else float("nan")
    return Replicates(value, (won.sum() - won - lost + own) / left)


def auc_influence(positive: Mask, scores: Floats) -> tuple[float, Floats]:
    """AUC, and how much each row adds to its error, shape [n], summing up to 0 (DeLong et al. 1988)."""
    positives = float(positive.sum())
    negatives = len(positive) - positives
    if positives == 0 or negatives == 0:
        return float("nan"), np.zeros(len(positive))
    share = _wins(scores, positive) / np.where(positive, negatives, positives)
    value = float(share[positive].mean())
    return value, np.asarray((share - value) / np.where(positive, positives, negatives))


def _wins(values: npt.NDArray[np.generic], positive: Mask) -> Floats:
    """For a positive row how many negatives lie below it, for a negative how many positives above; ties half."""
    ranks = average_ranks(values)
    wins = np.empty(len(values))
    wins[positive] = ranks[positive] - average_ranks(values[positive])
    wins[~positive] = positive.sum() - (ranks[~positive] - average_ranks(values[~positive]))
    return wins


def _by_group(values: Floats, mask: Mask, groups: Groups, size: int) -> Floats:
    return np.asarray(np.bincount(groups[mask], weights=values[mask], minlength=size), dtype=np.float64)
