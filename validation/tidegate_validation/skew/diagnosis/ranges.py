"""How likely rows are by the ranges of values they are in: what a change of all of them, or of a part, explains."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate_validation.statistics.arrays import Floats, Integers

STRANGE = 0.01
"""The share of rows for which no explanation holds."""
SHARES = np.arange(0.02, 0.99, 0.01)
"""Parts of the rows that are tried."""
CLEARLY = 5.0
"""By how much, as a logarithm, an explanation is likelier that is clearly so."""
_NEARBY = np.exp(np.sort(np.concatenate([np.arange(-0.5, 0.5001, 0.005), np.linspace(-0.02, 0.02, 80)])))
_FAR = np.exp(np.concatenate([-np.arange(0.75, 9.1, 0.25), np.arange(0.75, 9.1, 0.25)]))
"""Other sizes altogether."""
_STEPS = np.linspace(-2.0, 2.0, 201)
_FALLS = 2.0
_BETTER = 1.5
_NEARLY = 0.1
VAGUE = 0.1
"""Relative error from which on a factor is not told."""
_FINEST = 0.005

Change = tuple[float, float]
"""A factor, and an offset."""


@dataclass(frozen=True, slots=True)
class Ranges:
    """Ranges between `edges`, and training's values `known`, as many from each part of their distribution; `effect` is
    by how much likelihoods are too sure of themselves, `step` what served values are rounded to."""

    edges: Floats
    known: Floats
    effect: float
    step: float

    def gain(self, rows: Floats, change: Change) -> float:
        """How much likelier rows, counted by range, are where the change holds for all than without one."""
        return float(rows @ np.log(self._ratio(change)))

    def partly(self, rows: Floats, change: Change) -> float:
        """The same where the change holds for a part of the rows."""
        return float((np.log(1 + SHARES[:, None] * (self._ratio(change) - 1)) @ rows).max())

    def refute(self, values: Floats, change: Change, *, partly: bool = False) -> bool:
        """Whether another factor, but not one that is nearly the same, explains the values surely better."""
        rows, gain = self._rows(values), self.partly if partly else self.gain
        others = _NEARBY[np.abs(_NEARBY - 1) * abs(float(np.median(self.known))) > _NEARLY * self._width()]
        best = max(gain(rows, (change[0] * float(one), change[1])) for one in (*others, *_FAR))
        return (best - gain(rows, change)) / self.effect > _BETTER

    def precision(self, values: Floats, change: Change, *, partly: bool = False) -> float:
        """The relative error with which the values determine the factor of a change."""
        rows, gain = self._rows(values), self.partly if partly else self.gain
        gains = np.array([gain(rows, (change[0] * float(one), change[1])) for one in _NEARBY]) / self.effect
        within = _NEARBY[gains > gains.max() - _FALLS]
        return float(np.log(within[-1] / within[0])) / 4

    def estimate(self, values: Floats) -> tuple[float, float] | None:
        """The factor of all values that explains them best, with its relative error; None where they do not determine
        it, or where an offset explains them as well."""
        rows, middle = self._rows(values), float(np.median(self.known))
        near = float(np.median(values)) / middle if middle else 0.0
        if near <= 0:
            return None
        gains = np.array([self.gain(rows, (near * float(one), 0.0)) for one in _NEARBY]) / self.effect
        precision = max(self.precision(values, (near, 0.0)), _FINEST)
        apart, spread = float(np.median(values)) - middle, float(values.std())
        offsets = max(self.gain(rows, (1.0, apart + spread * float(one))) for one in _STEPS) / self.effect
        if precision > VAGUE or float(gains.max()) - offsets < CLEARLY:
            return None
        return near * float(_NEARBY[int(np.argmax(gains))]), precision

    def partly_rather(self, values: Floats, change: Change) -> bool:
        """Whether the change of a part of the rows explains the values clearly better than any factor of all does."""
        rows, near = self._rows(values), float(np.median(values)) / (float(np.median(self.known)) or np.inf)
        whole = (
            max((self.gain(rows, (near * float(one), 0.0)) for one in _NEARBY), default=-np.inf) if near > 0 else 0.0
        )
        return (self.partly(rows, change) - whole) / self.effect > CLEARLY

    def _width(self) -> float:
        """How far apart the quarters of training's values lie."""
        return float(np.ptp(np.quantile(self.known, (0.25, 0.75))))

    def _ratio(self, change: Change) -> Floats:
        return likely(self.edges, changed(self.known, change, self.step)) / likely(self.edges, self.known)

    def _rows(self, values: Floats) -> Floats:
        return np.bincount(places_of(self.edges, values), minlength=len(self.edges) + 1).astype(np.float64)


def changed(known: Floats, change: Change, step: float) -> Floats:
    """Training's values after a change, rounded to a `step`; as they come for 0."""
    values = known * change[0] + change[1]
    return np.round(values / step) * step if step else values


def places_of(edges: Floats, values: Floats) -> Integers:
    """The range of each value."""
    return np.searchsorted(edges, values, side="right").astype(np.int64)


def likely(edges: Floats, values: Floats) -> Floats:
    """Shares of ranges, with a hundredth for what belongs to none of them."""
    shares = np.bincount(places_of(edges, values), minlength=len(edges) + 1) / len(values)
    return np.asarray((1 - STRANGE) * shares + STRANGE / len(shares))
