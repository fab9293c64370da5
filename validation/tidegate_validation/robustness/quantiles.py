"""Intervals for what latencies show: a quantile by order statistics, a ratio of medians by resampling pairs.

The latency stage asks; nothing is assumed about the distribution of latencies.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_CONFIDENCE = 0.99
_RESAMPLES = 1000

Seconds = npt.NDArray[np.float64]


def quantile_interval(values: Seconds, share: float) -> tuple[float, float]:
    """Bounds between which the quantile lies with 99 % confidence; infinite above where the values are too few.

    Order statistics and the binomial distribution (Hahn and Meeker, Statistical Intervals, section 5.2).
    """
    from scipy import stats

    ordered = np.sort(values)
    below = (1 - _CONFIDENCE) / 2
    lower = int(stats.binom.ppf(below, len(ordered), share)) - 1
    upper = int(stats.binom.ppf(1 - below, len(ordered), share)) + 1
    low = float(ordered[lower]) if lower >= 0 else 0.0
    return low, float(ordered[upper]) if upper < len(ordered) else float("inf")


def ratio_interval(one: Seconds, other: Seconds) -> tuple[float, float, float]:
    """The ratio of medians of paired values, and bounds for it with 99 % confidence, by bootstrap over pairs."""
    random = np.random.default_rng(0)
    chosen = random.integers(0, len(one), (_RESAMPLES, len(one)))
    ratios = np.median(one[chosen], axis=1) / np.maximum(np.median(other[chosen], axis=1), 1e-9)
    below = (1 - _CONFIDENCE) / 2
    low, high = np.quantile(ratios, (below, 1 - below))
    return float(np.median(one) / max(float(np.median(other)), 1e-9)), float(low), float(high)
