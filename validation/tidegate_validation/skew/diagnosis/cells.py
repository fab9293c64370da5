"""Cells of values: how likely rows are with a change, by ranges and by whether they lie on training's grid."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tidegate_validation.skew.diagnosis.grid import back_on_grid, on_grid, rounded_by
from tidegate_validation.skew.diagnosis.ranges import STRANGE, Change, changed, likely, places_of
from tidegate_validation.statistics.arrays import Floats, Integers

_WHOLE_NUMBERS = 1.0


@dataclass(frozen=True, slots=True)
class Cells:
    """Which cell each row is in, and how likely each cell is: with values as in training, and with these changed.

    A cell is a range of values; where training's lie on a grid, values off it have cells of their own, and
    those again that are on it with the change undone.
    """

    rows: Mapping[Change, Integers]
    plain: Floats
    moved: Mapping[Change, Floats]

    def counted(self, change: Change) -> Floats:
        """Rows in each cell."""
        return np.bincount(self.rows[change], minlength=len(self.plain)).astype(np.float64)

    def gains(self) -> Mapping[Change, Floats]:
        """How much likelier each change makes each row, as a logarithm."""
        return {change: np.log(moved / self.plain)[self.rows[change]] for change, moved in self.moved.items()}


def step_after(values: Floats, grid: float | None) -> float:
    """What values were rounded to after a change, which is no more than to whole numbers; 0 where training's grid tells
    of them."""
    return 0.0 if grid is not None else min(_WHOLE_NUMBERS, 2 * rounded_by(values))


def cells_of(
    values: Floats,
    known: Floats,
    edges: Floats,
    tried: Sequence[Change],
    grid: float | None,
    steps: tuple[float, float],
) -> Cells:
    """The cells between `edges` for every change that is `tried`, of training's values `known`; `steps` are what served
    `values` were rounded to that are as in training and that are changed, 0 where that says nothing."""
    size = len(edges) + 1
    places = places_of(edges, values)
    off = np.zeros(len(values), dtype=np.bool_) if grid is None else ~on_grid(values, grid)
    plain = likely(edges, changed(known, (1.0, 0.0), steps[0]))
    rows, moved = {}, {}
    for factor, offset in tried:
        back = off if grid is None else off & back_on_grid(values, grid, factor, offset)
        rows[factor, offset] = places + size * (off.astype(np.int64) + back)
        then = known if grid is None else np.round(known / grid) * grid
        stays = 1.0 if grid is None else float(np.mean(on_grid(then * factor + offset, grid)))
        there = likely(edges, changed(known, (factor, offset), steps[1]))
        moved[factor, offset] = np.concatenate(
            [there * max(stays, STRANGE), there * STRANGE, there * max(1 - stays, STRANGE)]
        )
    return Cells(rows, np.concatenate([plain, plain * STRANGE, plain * STRANGE]), moved)
