"""Has the level of ordered values moved: one number per day, weighed over all the ways in which days may hang together.

Each bin counts with its normal score (van der Waerden 1952), so that a shift by d standard deviations of a normal moves
the mean score by d. The step of the window is fitted by generalised least squares: where days hang together, those
beside the window say most about what was to be expected in it.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate_validation.skew.measures.likeness import Timeline, explain_days
from tidegate_validation.statistics.arrays import Floats

_HARDLY = 1e-6
_OUTERMOST = 1e-4


@dataclass(frozen=True, slots=True)
class LevelShift:
    """The mean score moved by `sizes` with standard errors `errors` under each model, to be believed by `weights`."""

    sizes: Floats
    errors: Floats
    weights: Floats
    freedom: int

    @property
    def size(self) -> float:
        """The move, over all models."""
        return float(self.weights @ self.sizes)

    @property
    def error(self) -> float:
        """Its standard error, over all models."""
        return float(np.sqrt(self.weights @ (self.errors**2 + (self.sizes - self.size) ** 2)))

    def p_value(self, margin: float) -> float:
        """Probability of a move at least this large if the true one were `margin`; two-sided against none at all."""
        from scipy import special

        sides, way = (1.0 if margin > 0 else 2.0), (1.0 if self.size >= 0 else -1.0)
        each = special.stdtr(self.freedom, (margin - way * self.sizes) / self.errors)
        return min(1.0, sides * float(self.weights @ each))

    def detectable(self, margin: float, alpha: float, power: float = 0.8) -> float:
        """The smallest move that the test against `margin` finds with this power."""
        from scipy import special

        reach = -special.stdtrit(self.freedom, alpha) - special.stdtrit(self.freedom, 1 - power)
        return float(margin + reach * self.error)


def normal_scores(ref: Floats) -> Floats:
    """What each bin, ascending, counts for; `ref` are rows per block and bin, [B, K].

    A bin beyond all rows counts little more than the outermost that has some: how far out it lies nobody knows, and
    where all rows of a day hold one value, one a little further out than any before is nothing rare.
    """
    from scipy import special

    shares = ref.sum(axis=0) / ref.sum()
    held = shares[shares > 0]
    low, high = max(_OUTERMOST, held[0] / 8), max(_OUTERMOST, held[-1] / 8)
    return np.asarray(special.ndtri(np.clip(np.cumsum(shares) - shares / 2, low, 1 - high)))


def level_shift(ref: Floats, cur: Floats, line: Timeline, prior: Floats | None = None) -> LevelShift:
    """From rows per block and bin, shapes [B, K] and [J, K]; `prior` is what to expect of how days hang together."""
    shares, scores = ref.sum(axis=0) / ref.sum(), normal_scores(ref)
    spread = float(shares @ scores**2 - (shares @ scores) ** 2)
    days = np.concatenate([ref, cur]) @ scores / line.sizes
    found = explain_days(days[:, None], line, fewer_rows(days[: len(ref), None], spread, line))
    weights = found.weights(np.ones(1), prior)
    kept = weights > _HARDLY
    least = spread * (1 / ref.sum() + 1 / cur.sum())
    errors = np.sqrt(np.maximum(found.error[kept, 0] ** 2, least))
    return LevelShift(found.step[kept, 0], errors, weights[kept] / weights[kept].sum(), found.freedom)


def fewer_rows(days: Floats, spread: float, line: Timeline) -> Floats:
    """The variance that a day has beyond a usual one because it has fewer rows, in units of one day's.

    `days` are the reference's days, [B, K], `spread` the variance of one row.
    """
    usual = float(line.sizes[~line.inside].mean())
    between = max(float(days.var(axis=0, ddof=1).sum()), spread / usual)
    return np.asarray(spread * np.maximum(1 / line.sizes - 1 / usual, 0.0) / between)
