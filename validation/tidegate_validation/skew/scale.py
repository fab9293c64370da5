"""Estimates a factor for continuous columns: the one under which served values are most likely under training's shape.

`cause` asks this where values are too many to be listed. The likelihood of a histogram between training's quantiles is
close to the best that the data allow, and it uses sharp ends where a column has them.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
_GRID = 0.004
_REACH = 0.6
_MOST = 4000
_FLOOR = 1e-3


@dataclass(frozen=True, slots=True)
class ScaleFit:
    """`factor` with the standard error of its logarithm, taking rows as independent."""

    factor: float
    log_error: float


def fit_factor(values: Floats, weights: Floats, levels: Floats, quantiles: Floats) -> ScaleFit | None:
    """The most likely positive factor between served `values` (with row counts) and training's quantiles.

    None where signs do not match or too little is left without zeros and atoms.
    """
    density = _density(levels, quantiles)
    keep = values != 0
    values, weights = values[keep], weights[keep]
    if density is None or len(values) < 5:
        return None
    start = _ratio_of_middles(values, weights, levels, quantiles)
    if start is None:
        return None
    rows = float(weights.sum())
    values, weights = _thin(values, weights)

    def likelihood(log_factor: float) -> float:
        undone = values * np.exp(-log_factor)
        return float((weights * density(undone)).sum() / weights.sum() - log_factor) * rows

    grid = np.arange(start - _REACH, start + _REACH, _GRID)
    heights = np.array([likelihood(float(place)) for place in grid])
    best = int(np.argmax(heights))
    fine = np.linspace(grid[best] - 2 * _GRID, grid[best] + 2 * _GRID, 81)
    fine_heights = np.array([likelihood(float(place)) for place in fine])
    top = fine_heights.max()
    plausible = np.concatenate([grid[heights > top - 2], fine[fine_heights > top - 2]])
    share = np.exp(fine_heights - top)
    log_factor = float((fine * share).sum() / share.sum())
    return ScaleFit(float(np.exp(log_factor)), max(float(np.ptp(plausible)) / 4, 1e-4))


def _density(levels: Floats, quantiles: Floats) -> Callable[[Floats], Floats] | None:
    """Log density as a function, piecewise constant between distinct quantiles; None for fewer than four of them."""
    distinct, first = np.unique(quantiles, return_index=True)
    last = len(quantiles) - 1 - np.unique(quantiles[::-1], return_index=True)[1]
    if len(distinct) < 4:
        return None
    mass = levels[first[1:]] - levels[last[:-1]]
    widths = np.diff(distinct)
    outside = np.log(_FLOOR / (distinct[-1] - distinct[0]))
    log_density = np.maximum(np.log(np.maximum(mass, 1e-12) / widths), outside)

    def log_at(values: Floats) -> Floats:
        place = np.searchsorted(distinct, values, side="right") - 1
        inside = (place >= 0) & (place < len(widths))
        return np.asarray(np.where(inside, log_density[np.clip(place, 0, len(widths) - 1)], outside))

    return log_at


def _ratio_of_middles(values: Floats, weights: Floats, levels: Floats, quantiles: Floats) -> float | None:
    """Logarithm of the ratio of both medians of absolute values, zeros left out."""
    order = np.argsort(np.abs(values))
    total = np.cumsum(weights[order])
    current = float(np.abs(values)[order][np.searchsorted(total, total[-1] / 2)])
    inside = (levels > 0) & (levels < 1) & (quantiles != 0)
    if not inside.any():
        return None
    reference = float(np.median(np.abs(quantiles[inside])))
    if np.sign(np.average(np.sign(values), weights=weights)) * np.sign(np.mean(np.sign(quantiles[inside]))) < 0:
        return None
    return float(np.log(current / reference))


def _thin(values: Floats, weights: Floats) -> tuple[Floats, Floats]:
    """At most `_MOST` points that stand for all rows, evenly by rank."""
    if len(values) <= _MOST:
        return values, weights
    order = np.argsort(values)
    total = np.cumsum(weights[order])
    places = np.searchsorted(total, (np.arange(_MOST) + 0.5) / _MOST * total[-1])
    return values[order][places], np.ones(_MOST)
