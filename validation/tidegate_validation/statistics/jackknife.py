"""Ratios of sums over rows that come in groups, and their standard errors by the delete-a-group jackknife.

Rows of one group (a day, a user) resemble each other, so each group counts as one observation. scipy's `bootstrap`
resamples single rows and would call such data more certain than it is.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tidegate_validation.statistics.arrays import Floats, Integers

_FEWEST_PARTS = 2.0


@dataclass(frozen=True, slots=True)
class Estimate:
    """A value with its standard error and the degrees of freedom behind that."""

    value: float
    error: float
    freedom: int

    def interval(self, alpha: float) -> tuple[float, float]:
        """Two-sided confidence interval at level 1 - 2 alpha: each end is a bound at level 1 - alpha."""
        from scipy import special

        reach = float(special.stdtrit(self.freedom, 1 - alpha)) * self.error
        return self.value - reach, self.value + reach

    def finite_interval(self, alpha: float) -> tuple[float, float] | None:
        """The interval, or None where a single group leaves it without bounds."""
        low, high = self.interval(alpha)
        return (low, high) if np.isfinite(low) and np.isfinite(high) else None

    def p_below(self, limit: float) -> float:
        """P-value of the claim that the truth lies below `limit`; 1 where nothing is known."""
        from scipy import special

        if not (np.isfinite(self.value) and np.isfinite(self.error)):
            return 1.0
        if self.error == 0:
            return 0.0 if self.value < limit else 1.0
        return float(special.stdtr(self.freedom, (self.value - limit) / self.error))

    def detectable(self, alpha: float, power: float = 0.8) -> float:
        """The smallest change that data with this error shows with that power; infinite where nothing is known."""
        from scipy import special

        if not np.isfinite(self.error):
            return float("inf")
        return float(special.stdtrit(self.freedom, 1 - alpha) + special.ndtri(power)) * self.error

    def of_few(self, parts: float) -> Estimate:
        """The same where no more than so many `parts` make up what a share is taken of: as many degrees of freedom, and
        nothing is known where it is hardly more than one, as that leaves no error by which to tell.
        """
        if parts < _FEWEST_PARTS:
            return replace(self, error=float("inf"), freedom=1)
        return replace(self, freedom=max(min(self.freedom, round(parts) - 1), 1))


def parts_of(values: Floats) -> float:
    """How many values make up their sum: 1 where one alone does, their number where all are alike."""
    return float(values.sum() ** 2 / (values**2).sum()) if values.any() else 0.0


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


def totals(values: Floats, groups: Integers) -> tuple[float, Floats]:
    """Sum of all, and the sums without each group, NaN for a group without rows."""
    parts = np.bincount(groups, weights=values)
    rows = np.bincount(groups)
    whole = float(parts.sum())
    return whole, np.where(rows > 0, whole - parts, np.nan)


def ratio(numerator: Floats, denominator: Floats, groups: Integers) -> Replicates:
    """Sum(numerator) / sum(denominator), shape [n] each, from one pass over the rows."""
    above, rest_above = totals(numerator, groups)
    below, rest_below = totals(denominator, groups)
    rest_below = np.where(rest_below > 0, rest_below, np.nan)
    return Replicates(above / below if below > 0 else float("nan"), rest_above / rest_below)


def mean(values: Floats, groups: Integers) -> Replicates:
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
