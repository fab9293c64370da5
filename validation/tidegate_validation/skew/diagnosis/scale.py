"""Estimates a factor for continuous columns, where values are too many to be told one from another.

The logarithms of both quantile functions differ by the factor's; the best linear unbiased estimate from a few quantiles
(Ogawa 1951) weighs them by how surely each is known.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate_validation.statistics.arrays import Floats

_LEVELS = np.array([0.01, 0.02, *(step / 20 for step in range(1, 20)), 0.98, 0.99])
_NEAR = 0.02
_SIGNS = 0.1
_LEAST = 1e-6
_FLAT = 0.1
"""A few values over and over make quantiles flat, which says nothing of how surely they are known."""
_OF_NORMAL = 1.349
"""The distance of a normal's quartiles in standard deviations."""
_BETTER = 2.0
"""No weighing of quantiles knows a factor so many times as well as the mean of logarithms does."""
_PLACES = np.linspace(0.001, 0.999, 999)
_MANY = 100


@dataclass(frozen=True, slots=True)
class ScaleFit:
    """`factor` with the standard error of its logarithm, taking rows as independent."""

    factor: float
    log_error: float


def without_zeros(
    levels: Floats, quantiles: Floats, support: tuple[tuple[float, int], ...], rows: int
) -> tuple[Floats, float]:
    """Values spread as training's that are not zero, ascending, and how many of its `rows` those are: by its listed
    values where they are many, else by its quantiles."""
    listed = np.array([one for one in support if one[0] != 0])
    if len(listed) >= _MANY:
        reached = np.cumsum(listed[:, 1])
        return np.interp(_PLACES, (reached - listed[:, 1] / 2) / reached[-1], listed[:, 0]), float(reached[-1])
    known = np.interp(_PLACES, levels, quantiles)
    kept = known[known != 0]
    return kept, len(kept) / len(known) * rows


def fit_factor(values: Floats, weights: Floats, known: Floats, rows: float) -> ScaleFit | None:
    """The positive factor between served `values` (with row counts) and `known` ones, ascending, which are spread as
    those of `rows` rows of training; both without zeros.

    None where the signs of both do not match or too few values are left.
    """
    keep = values != 0
    values, weights = values[keep], weights[keep]
    if len(values) < 5 or len(np.unique(known)) < 5:
        return None
    negative = float(np.average(values < 0, weights=weights)), float(np.mean(known < 0))
    if abs(negative[0] - negative[1]) > _SIGNS:
        return None
    order = np.argsort(np.abs(values))
    served = np.log(np.abs(values[order]))
    middle = (np.cumsum(weights[order]) - weights[order] / 2) / weights.sum()
    reference = np.sort(np.log(np.abs(known)))
    places = (np.arange(len(reference)) + 0.5) / len(reference)
    gaps = np.interp(_LEVELS, middle, served) - np.interp(_LEVELS, places, reference)
    served_rows = float(weights.sum())
    fit = _best_linear(gaps, _slopes(places, reference), served_rows, rows)
    spread = float(np.subtract(*np.quantile(reference, (0.75, 0.25)))) / _OF_NORMAL
    least = spread / _BETTER * (1 / served_rows + 1 / rows) ** 0.5
    return ScaleFit(fit.factor, max(fit.log_error, least))


def _slopes(places: Floats, reference: Floats) -> Floats:
    """How fast the logarithm of the quantile grows with its level, at each of the levels."""
    reach = np.minimum(_NEAR, np.minimum(_LEVELS, 1 - _LEVELS) * 0.9)
    above, below = (np.interp(_LEVELS + sign * reach, places, reference) for sign in (1, -1))
    slopes = (above - below) / (2 * reach)
    return np.asarray(np.maximum(slopes, max(_LEAST, _FLAT * float(np.median(slopes)))))


def _best_linear(gaps: Floats, slopes: Floats, served_rows: float, known_rows: float) -> ScaleFit:
    """Generalised least squares of one constant through the gaps, whose covariance is a Brownian bridge's."""
    bridge = np.minimum.outer(_LEVELS, _LEVELS) - np.outer(_LEVELS, _LEVELS)
    covariance = np.outer(slopes, slopes) * bridge
    covariance += np.eye(len(gaps)) * _LEAST * float(np.mean(np.diag(covariance)))
    weighed = np.linalg.solve(covariance, np.column_stack([np.ones(len(gaps)), gaps]))
    information = float(weighed[:, 0].sum())
    error = float(np.sqrt((1 / served_rows + 1 / known_rows) / information))
    return ScaleFit(float(np.exp(weighed[:, 1].sum() / information)), error)
