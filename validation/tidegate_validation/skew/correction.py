"""Benjamini and Hochberg's (1995) correction: p-values adjusted so that false discoveries stay under a rate.

`rule` adjusts all tests of one report together, quality all slices of one.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np


def benjamini_hochberg(p_values: Sequence[float]) -> list[float]:
    """Adjusted p-values in the same order; rejecting those below alpha keeps the false discovery rate below alpha."""
    p = np.asarray(p_values, dtype=np.float64)
    if p.size == 0:
        return []
    order = np.argsort(p)
    scaled = p[order] * p.size / np.arange(1, p.size + 1)
    adjusted = np.minimum(np.minimum.accumulate(scaled[::-1])[::-1], 1.0)
    out = np.empty_like(p)
    out[order] = adjusted
    return [float(value) for value in out]
