"""Which numbers an output may hold: a policy's range, and whether those of a row sum to 1, as probabilities do."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.tensors import Array

_SUM_TOLERANCE, _ROUNDING = 1e-3, 1e-6


@dataclass(frozen=True, slots=True)
class OutputRange:
    """Every number of an output lies within `minimum` and `maximum`; with `sums_to_one` those of each row are shares.

    A bound that is None does not bind. Raises InvalidInput where no number could lie within.
    """

    minimum: float | None = None
    maximum: float | None = None
    sums_to_one: bool = False

    def __post_init__(self) -> None:
        if self.minimum is not None and self.maximum is not None and self.minimum > self.maximum:
            raise InvalidInput(f"minimum is {self.minimum} and maximum {self.maximum}: the minimum comes first")

    def first_outside(self, output: Array) -> tuple[int, str] | None:
        """The first row that breaks it, and how, in words that follow the output's name; None where none does."""
        if output.dtype.kind not in "fiub":
            return 0, "holds no numbers"
        if not len(output):
            return None
        rows = output.reshape(len(output), -1).astype(np.float64)
        for limit, outside, words in (
            (self.minimum, rows < _lenient(self.minimum, -1), "below the minimum"),
            (self.maximum, rows > _lenient(self.maximum, 1), "above the maximum"),
        ):
            if limit is not None and outside.any():
                row, column = (int(place) for place in np.argwhere(outside)[0])
                return row, f"is {rows[row, column]:g}, {words} of {limit:g}"
        if self.sums_to_one:
            sums = rows.sum(axis=1)
            wrong = ~(np.abs(sums - 1.0) <= _SUM_TOLERANCE)
            if wrong.any():
                row = int(np.argmax(wrong))
                return row, f"sums to {sums[row]:g} instead of 1"
        return None


def _lenient(limit: float | None, sign: int) -> float:
    """A limit that rounding to 32 bits does not break."""
    return 0.0 if limit is None else limit + sign * _ROUNDING * max(1.0, abs(limit))
