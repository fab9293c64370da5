"""Evidence of drift, gathered window after window, whose one knob is "one false alarm per so many windows".

A Shiryaev-Roberts e-detector (Shin, Ramdas and Rinaldo 2024): each window multiplies a feature's evidence by an
e-value, a number that is 1 on average as long as nothing drifts, after 1 was added for a drift that begins with this
window. An alarm is raised when the mean over features reaches N; the mean time between false alarms is N windows.
"""

from __future__ import annotations

import numpy as np

from tidegate_validation.statistics.arrays import Floats, Mask

_BETS = np.array([0.5, 1.0, 2.0, 3.0])
_LEAST_P = 1e-15
_MOST = 1e12
_CALM = 1.0


def e_values(p_values: Floats) -> Floats:
    """E-values from two-sided p-values of any shape: a mixture of bets on normal deviates that lie to either side."""
    from scipy import special

    deviates = -special.ndtri(np.clip(p_values, _LEAST_P, 1.0) / 2)[..., None]
    return np.asarray(np.mean(np.cosh(_BETS * deviates) * np.exp(-(_BETS**2) / 2), axis=-1))


def advance(evidence: Floats, alarm: Mask, e: Floats, windows: float) -> tuple[Floats, Mask]:
    """Evidence of F features, and which are in alarm, after a window with e-values `e`; `windows` is the knob.

    An alarm blames the features with more evidence than the mean. A feature stays in alarm, and its evidence where it
    was, until a window of it looks as was to be expected; then it begins anew. `e` is NaN where a window says nothing.
    """
    calm = alarm & (e <= _CALM)
    e = np.where(np.isnan(e), 1.0, e)
    held = alarm & ~calm
    found = np.where(held, evidence, np.minimum((np.where(calm, 0.0, evidence) + 1.0) * e, _MOST))
    others = found[~held]
    raised = ~held & (found >= others.mean()) if len(others) and others.mean() >= windows else np.zeros_like(alarm)
    return found, held | raised
