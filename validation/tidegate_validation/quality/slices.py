"""Slices on which the candidate is worse than the baseline, though it may be better on the whole.

The quality gate hands in per-example losses; slices are the values of inputs that have few, corrected for their number.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate_validation.quality.metrics import Estimate, Floats, Groups, group_ratio
from tidegate_validation.robustness.examples import Examples, plain
from tidegate_validation.skew.correction import benjamini_hochberg

_FEW = 30
_LEAST = 300


@dataclass(frozen=True, slots=True)
class Slice:
    """Examples with one value of one input: the candidate's gain there, and the adjusted p-value that it is so low."""

    name: str
    rows: int
    gain: Estimate
    p_value: float


def worse_slices(examples: Examples, candidate: Floats, baseline: Floats, groups: Groups, margin: float) -> list[Slice]:
    """All slices with their p-values against a gain of minus `margin`, the worst first; losses per example."""
    found: list[tuple[str, int, Estimate]] = []
    for column, array in examples.arrays.items():
        flat = array.reshape(len(array), -1)[:, 0]
        if flat.dtype.kind == "f":
            continue
        values, place = np.unique(flat, return_inverse=True)
        if len(values) > _FEW:
            continue
        for index, value in enumerate(values):
            rows = place == index
            if rows.sum() >= _LEAST and len(np.unique(groups[rows])) > 2:
                below = np.maximum(baseline[rows], 1e-300)
                gain = group_ratio((baseline - candidate)[rows], below, groups[rows])
                found.append((f"{column}={plain(value)}", int(rows.sum()), gain))
    adjusted = benjamini_hochberg([_p_value(gain, margin) for _, _, gain in found])
    slices = [Slice(name, rows, gain, p) for (name, rows, gain), p in zip(found, adjusted, strict=True)]
    return sorted(slices, key=lambda one: one.p_value)


def _p_value(gain: Estimate, margin: float) -> float:
    from scipy import stats

    if not np.isfinite(gain.error) or gain.error == 0:
        return 1.0
    return float(stats.t.cdf((gain.value + margin) / gain.error, gain.freedom))
