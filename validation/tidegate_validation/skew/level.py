"""Has the level of ordered values moved: one number per day, and how much days that follow each other resemble.

Each bin counts with its normal score (van der Waerden 1952), so that a shift by d standard deviations of a normal moves
the mean score by d. The variance of a mean of days is that of an autoregressive series of their resemblance.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate_validation.statistics.arrays import Floats

_MOST = 0.97


@dataclass(frozen=True, slots=True)
class LevelShift:
    """The mean score moved by `size`, with standard error `error` on `freedom` degrees of freedom."""

    size: float
    error: float
    freedom: float

    def p_value(self, margin: float) -> float:
        """Probability of a move at least this large if the true one were `margin`; two-sided against none at all."""
        from scipy import stats

        sides = 1.0 if margin > 0 else 2.0
        return min(1.0, sides * float(stats.t.sf((abs(self.size) - margin) / self.error, self.freedom)))

    def detectable(self, margin: float, alpha: float, power: float = 0.8) -> float:
        """The smallest move that the test against `margin` finds with this power."""
        from scipy import stats

        reach = stats.t.isf(alpha, self.freedom) + stats.t.isf(1 - power, self.freedom)
        return float(margin + reach * self.error)


def level_shift(ref: Floats, cur: Floats, days: Floats, now: Floats) -> LevelShift:
    """From rows per block and bin, shapes [B, K] and [J, K], and the numbers of the blocks."""
    from scipy import stats

    shares = ref.sum(axis=0) / ref.sum()
    scores = stats.norm.ppf(np.clip(np.cumsum(shares) - shares / 2, 1e-4, 1 - 1e-4))
    sizes, inside = ref.sum(axis=1), cur.sum(axis=1)
    before, after = ref @ scores, cur @ scores
    mean = float(before.sum() / sizes.sum())
    typical = sizes.sum() / len(ref)
    scatter = ((before - sizes * mean) / typical)[:, None]
    between = float((scatter**2).sum() / (len(ref) - 1))
    alike = resemblance(scatter, days)
    spread = float(shares @ scores**2 - (shares @ scores) ** 2)
    thinner = max(0.0, float((inside**2).sum() / inside.sum()) ** -1 - 1 / typical)
    one_row = spread * thinner * float((inside**2).sum() / inside.sum() ** 2)
    variance = between * (share_of_mean(sizes, days, alike) + share_of_mean(inside, now, alike)) + one_row
    least = spread * (1 / sizes.sum() + 1 / inside.sum())
    freedom = max(3.0, (len(ref) - 1) * (1 - alike) / (1 + alike))
    return LevelShift(float(after.sum() / inside.sum()) - mean, max(variance, least) ** 0.5, freedom)


def resemblance(scatter: Floats, days: Floats) -> float:
    """How much of a block's deviation, rows of `scatter`, the next block shares; from 0 to nearly 1.

    Corrected for the bias of short series (Kendall 1954), towards more resemblance.
    """
    neighbours = np.diff(days) == 1
    if neighbours.sum() < 3:
        return 0.0
    products = (scatter[:-1] * scatter[1:]).sum(axis=1)[neighbours]
    found = float(products.mean() / max(float((scatter**2).sum(axis=1).mean()), 1e-300))
    chance = 1 / float(neighbours.sum()) ** 0.5
    return 0.0 if found < chance else min(_MOST, found + (1 + 4 * found) / len(scatter))


def share_of_mean(sizes: Floats, days: Floats, alike: float) -> float:
    """Variance of a mean over blocks, weighed by `sizes`, in units of one block's."""
    weights = sizes / sizes.sum()
    if alike <= 0:
        return float((weights**2).sum())
    nearness = alike ** np.abs(days[:, None] - days[None, :])
    return float(weights @ nearness @ weights)
