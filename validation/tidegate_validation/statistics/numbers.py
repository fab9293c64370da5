"""Numbers as findings carry them."""

from __future__ import annotations

import math


def finite_or_none(value: float) -> float | None:
    """The number, or None for NaN and infinity, which JSON does not know."""
    return value if math.isfinite(value) else None


def round_up(count: float) -> int:
    """A count of rows to ask for, up to the next number of two digits and zeros."""
    size = int(10 ** max(len(str(int(count))) - 2, 0))
    return math.ceil(count / size) * size
