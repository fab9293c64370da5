"""The grid that training's values lie on, such as cents: which factors bring served values back onto it."""

from __future__ import annotations

import numpy as np

from tidegate_validation.skew.diagnosis.landing import EXACT
from tidegate_validation.skew.diagnosis.units import Conversion, named_factors
from tidegate_validation.statistics.arrays import Floats, Mask
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.points import FINEST, UNTOLD, digits, step_of

_HARDLY = 0.001
_ROUNDING = 3e-7
_TELLING_STEPS = 0.1 / EXACT
_LEAST_VALUES = 20
_NEARLY_ALL = 0.98
_MOST = 0.9
_FEW = 0.5
_FARTHEST = 0.5
_CLEARLY_FINER = 0.05
_FINE = 0.4
_ROOM = 1.01
_MANY = 0.6
_AS_LARGE = 0.15
_NEARER = 0.06
"""Categories and the values of a part of the rows lie so much higher or lower by chance."""
_NAMED = [one.factor for one in named_factors()]
_NEARBY = np.exp([-0.031, -0.013, 0.011, 0.029])


def grid_of(counts: FeatureCounts | None) -> float | None:
    """The power of ten that values are multiples of, from counts of their digits; None where they are finer than can be
    told."""
    if counts is None or not counts.rows or counts.of((UNTOLD,)).sum() > counts.rows / 2:
        return None
    finer = [float(counts.of(tuple(range(code, FINEST + 1))).sum()) / counts.rows for code in range(FINEST + 1)]
    code = max((code for code, share in enumerate(finer) if share > _HARDLY), default=FINEST)
    return None if code == FINEST else step_of(code)


def on_grid(values: Floats, grid: float, room: float = _ROUNDING, slack: float = 0.0) -> Mask:
    """Which values are multiples of `grid`, to a relative `room` and an absolute `slack`."""
    steps = values / grid
    return np.asarray(np.abs(steps - np.round(steps)) <= np.minimum(0.5, 1e-9 + slack / grid + room * np.abs(steps)))


def back_on_grid(values: Floats, grid: float, factor: float, offset: float = 0.0) -> Mask:
    """Which values lie on the grid with factor and offset undone, where they were rounded after it too: to digits of
    which the grid's are clearly coarser.
    """
    slack = rounded_by(values) / abs(factor)
    return on_grid((values - offset) / factor, grid, EXACT, slack if tells(values, grid, factor) else 0.0)


def tells(values: Floats, grid: float, factor: float) -> bool:
    """Whether the grid is clearly coarser than what values were rounded to, with the factor undone."""
    return rounded_by(values) / abs(factor) <= _CLEARLY_FINER * grid


def fits_the_grid(values: Floats, grid: float, factor: float) -> bool | None:
    """Whether values lie on the grid with the factor undone, to what they were rounded to; None where they are too few,
    or rounded too far to tell."""
    slack = _ROOM * rounded_by(values) / abs(factor)
    telling = values[(values != 0) & (np.abs(values / factor) <= _TELLING_STEPS * grid)]
    if slack > _FINE * grid or len(telling) < _LEAST_VALUES:
        return None
    by_chance = 2 * slack / grid
    least = max(_MANY, by_chance + _MOST * (1 - by_chance))
    return bool(np.mean(on_grid(telling / factor, grid, EXACT, slack)) >= least)


def back_as_they_were(values: Floats, grid: float, factor: float, offset: float) -> Floats:
    """The values with factor and offset undone, and on the grid where nothing but their own rounding kept them off."""
    back = (values - offset) / factor
    slack, near = _ROOM * rounded_by(values) / abs(factor), np.round(back / grid) * grid
    return np.where((np.abs(back - near) <= slack) & (slack < grid / 2), near, back)


def always_back(values: Floats, grid: float, factor: float) -> bool:
    """Whether any values of as few digits as these would lie on the grid with the factor undone, as any whole numbers
    are hundredths times a hundred: that they do then says nothing about the factor."""
    half = rounded_by(values) / abs(factor) or rounded_by(values / factor)
    steps = 2 * half / grid
    return steps > _NEARLY_ALL and abs(steps - round(steps)) <= EXACT * steps


def rounded_by(values: Floats) -> float:
    """Half a step of the digits to which nearly all values are given; 0 for finer ones than can be told."""
    codes = digits(values[values != 0])
    codes = np.sort(codes[codes != UNTOLD])
    code = int(codes[int((1 - _HARDLY) * (len(codes) - 1))]) if len(codes) else FINEST
    return 0.0 if code == FINEST else step_of(code) / 2


def factor_by_grid(values: Floats, known: Floats, grid: float, near: float) -> Conversion | None:
    """The well-known factor nearest to `near`, of its size, that brings the served `values` back onto the grid as no
    other factor close by does; None where `known` values of training would lie there too.
    """
    within = [one for one in named_factors() if abs(np.log(near / one.factor)) <= _FARTHEST]
    for one in sorted(within, key=lambda one: abs(float(np.log(near / one.factor)))):
        telling = values[(values != 0) & (np.abs(values / one.factor) <= _TELLING_STEPS * grid)]
        if len(telling) < _LEAST_VALUES or _back(telling, grid, one.factor) < _NEARLY_ALL:
            continue
        others = max(_back(telling, grid, one.factor * float(step)) for step in _NEARBY)
        if max(others, _back(np.round(known / grid) * grid, grid, one.factor)) <= _FEW:
            return one
    return None


def comes_back(values: Floats, known: Floats, grid: float, factor: float, offset: float = 0.0) -> bool:
    """Whether those of the `values` that are off the grid lie on it with factor and offset undone, and with no factor
    close by; where any values of as few digits would, whether they also are as large as training's `known` ones."""
    off = values[~on_grid(values, grid)] - offset
    if always_back(off, grid, factor) and not _as_large(off, factor, known):
        return False
    telling = off[np.abs(off / factor) <= _TELLING_STEPS * grid]
    if len(telling) < _LEAST_VALUES or _back(telling, grid, factor) < _MOST:
        return False
    return max(_back(telling, grid, factor * float(step)) for step in _NEARBY) <= _FEW


def _as_large(values: Floats, factor: float, known: Floats) -> bool:
    """Whether the middle of the values is about that of training's times the factor, zeros and signs aside, and no
    other named factor's clearly more so."""
    middles = [float(np.median(np.abs(one[one != 0]))) for one in (values, known) if one.any()]
    if len(middles) < 2:
        return False
    gaps = [abs(float(np.log(middles[0] / middles[1] / size))) for size in (abs(factor), *_NAMED)]
    return gaps[0] <= _AS_LARGE and gaps[0] - min(gaps) <= _NEARER


def _back(values: Floats, grid: float, factor: float) -> float:
    return float(np.mean(back_on_grid(values, grid, factor)))
