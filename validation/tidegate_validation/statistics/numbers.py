"""Numbers as findings carry them, and where functions pass zero."""

from __future__ import annotations

import math
from collections.abc import Callable


def finite_or_none(value: float) -> float | None:
    """The number, or None for NaN and infinity, which JSON does not know."""
    return value if math.isfinite(value) else None


def round_up(count: float) -> int:
    """A count of rows to ask for, up to the next number of two digits and zeros."""
    size = int(10 ** max(len(str(int(count))) - 2, 0))
    return math.ceil(count / size) * size


def root_of_falling(function: Callable[[float], float], low: float, high: float, close: float) -> float:
    """Where a function that falls from plus at `low` to minus at `high` passes zero, to within `close`; `low` where it
    is not above zero there. By halves: what is solved here has steps and long flat ends, on which secants gain nothing.
    """
    if function(low) <= 0:
        return low
    while high - low > close:
        middle = (low + high) / 2
        low, high = (middle, high) if function(middle) > 0 else (low, middle)
    return (low + high) / 2
