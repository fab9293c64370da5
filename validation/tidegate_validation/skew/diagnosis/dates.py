"""Dates that were read with day and month in each other's place, where both are possible."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidegate_validation.skew.diagnosis.cause import Cause
from tidegate_validation.skew.diagnosis.suspect import Suspect
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.sample import ValueSample
from tidegate_validation.statistics.sql import Family

SWAPPED = "day and month swapped"
_DAY = 86_400
_MONTHS = 12
_MONTH = 31.0 * _DAY
_SEVERAL = 3
_PART = 0.01
_NEARLY_ALL = 0.9


def day_and_month_swapped(suspect: Suspect, sample: ValueSample) -> Cause | None:
    """Whether nearly all dates far from training's lie among the others once day and month have changed places."""
    low, high = suspect.feature.minimum, suspect.feature.maximum
    if suspect.feature.family is not Family.TIME or low is None or high is None or not len(sample.values):
        return None
    values, weights = sample.distinct()
    far = (values < low - _MONTH) | (values > high + _MONTH)
    rows = float(weights[far].sum())
    if far.sum() < _SEVERAL or far.all() or rows < _PART * weights.sum():
        return None
    back, can = _swapped(values[far])
    near = can & (back >= values[~far].min() - _MONTH) & (back <= values[~far].max() + _MONTH)
    if float(weights[far][near].sum()) < _NEARLY_ALL * rows:
        return None
    return Cause(SWAPPED, share=rows / float(weights.sum()))


def swapped_back(dates: Floats, low: Floats, high: Floats) -> Cause | None:
    """Whether nearly all dates that lie below `low` or above `high`, a limit for each as shapes [n] in Unix seconds,
    lie between them once day and month have changed places."""
    far = (dates < low) | (dates > high)
    if far.sum() < max(_SEVERAL, _PART * len(dates)):
        return None
    back, can = _swapped(dates[far])
    near = can & (back >= low[far]) & (back <= high[far])
    return Cause(SWAPPED, share=float(far.mean())) if near.mean() >= _NEARLY_ALL else None


def _swapped(seconds: Floats) -> tuple[Floats, npt.NDArray[np.bool_]]:
    """Unix seconds with day and month swapped where the day may be a month, and where that changes them."""
    days = np.floor(seconds / _DAY)
    dates = days.astype("int64").astype("datetime64[D]")
    months = dates.astype("datetime64[M]")
    day, month = (dates - months).astype(np.int64) + 1, months.astype(np.int64) % _MONTHS + 1
    can = (day <= _MONTHS) & (day != month)
    years = months.astype("datetime64[Y]").astype("datetime64[M]")
    other = (years + (day - 1)).astype("datetime64[D]") + (month - 1)
    moved = np.where(can, other.astype(np.int64) - days, 0.0)
    return np.asarray(seconds + moved * _DAY, dtype=np.float64), np.asarray(can)
