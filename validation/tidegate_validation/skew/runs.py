"""How far runs of the reference's own days are from the rest of it: an empirical check on the distance test.

Days that follow each other resemble each other, which no formula for independent days knows. So no window is called
shifted that is no further away than training's own weeks and storms are from each other.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate_validation.statistics.arrays import Floats

_LONGEST = 3
_USUAL = 0.95


@dataclass(frozen=True, slots=True)
class Runs:
    """Of `count` runs of reference blocks as long as the window, `further` are at least as far from the rest as it is.

    `usual` is the distance that 19 of 20 runs keep below; 0 without runs.
    """

    count: int = 0
    further: int = 0
    usual: float = 0.0

    @property
    def p_value(self) -> float:
        """Probability of a run this far out, where some were; 0 where none was, for then only a formula can say."""
        return (1 + self.further) / (1 + self.count) if self.further else 0.0


def runs_of(reference: Floats, blocks: int, rows: float, delta: float) -> Runs:
    """Compares a window of `blocks` blocks and `rows` rows at distance `delta` with runs of `reference`, shape [B, K].

    Runs with less than half the window's rows do not count; neither does anything where fewer than three runs would
    fit into the reference without overlap.
    """
    if blocks * _LONGEST > len(reference) or blocks == 0:
        return Runs()
    total = np.concatenate([np.zeros((1, reference.shape[1])), np.cumsum(reference, axis=0)])
    inside = total[blocks:] - total[:-blocks]
    outside = total[-1] - inside
    inside_rows, outside_rows = inside.sum(axis=1), outside.sum(axis=1)
    usable = (inside_rows >= rows / 2) & (outside_rows > 0)
    if not usable.any():
        return Runs()
    q = inside[usable] / inside_rows[usable, None]
    p = outside[usable] / outside_rows[usable, None]
    pi = np.maximum((p + q) / 2, 1e-12)
    distances = np.sqrt(((p - q) ** 2 / pi).sum(axis=1))
    return Runs(len(distances), int((distances >= delta).sum()), float(np.quantile(distances, _USUAL)))
