"""Times of day as plain numbers: which columns hold them, and whether they were moved around the clock."""

from __future__ import annotations

import numpy as np

from tidegate_validation.skew.diagnosis.cause import Cause
from tidegate_validation.skew.diagnosis.suspect import Suspect, both, distance_of, shares_of
from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.bins import DiscreteBins, NumericBins
from tidegate_validation.statistics.sample import ValueSample
from tidegate_validation.statistics.sql import Family

CLOCK = "clock"
DAY_HOURS = 24.0
_PER_HOUR = (1, 60, 3600)
_LEAVES = 0.4
_CLEARLY = 0.75
_APART = 1.0
_MOST = 0.5
_NIGHT_HOURS = 6.0


def per_hour(lowest: float | None, highest: float | None) -> int | None:
    """How many units an hour has where values may be hours, minutes or seconds of the day; None where they may not."""
    if lowest is None or highest is None or lowest < 0:
        return None
    days = ((DAY_HOURS * unit, unit) for unit in _PER_HOUR)
    return next((unit for day, unit in days if highest <= day <= 2 * (highest - lowest)), None)


def moved_around_the_clock(suspect: Suspect, sample: ValueSample) -> Cause | None:
    """Times of day, moved: those that passed midnight are found again at its other end, unlike those of a quantity that
    merely happens to lie in the same range."""
    feature, bins = suspect.feature, suspect.feature.bins
    lowest, highest = feature.minimum, feature.maximum
    unit = per_hour(lowest, highest)
    if max((point.share for point in feature.points.listed), default=0.0) > _MOST:
        return None  # Nothing happens at one hour of the day alone; counts are mostly zero.
    if (
        lowest is None
        or highest is None
        or unit is None
        or not isinstance(bins, NumericBins | DiscreteBins)
        or not len(sample.values)
    ):
        return None
    day = unit * DAY_HOURS
    if sample.values.min() < 0 or sample.values.max() > day:
        return None
    p, before = shares_of(feature, suspect.reference), distance_of(*both(suspect))
    whole = unit == 1 and feature.family is not Family.FLOAT
    left = {}
    for offset in np.arange(1.0 if whole else 0.5, DAY_HOURS, 1.0 if whole else 0.5):
        moved = (sample.values - offset * unit) % day
        left[float(offset)] = distance_of(p, _shares(bins.assign(moved), sample.n, bins.size))
    offset = min(left, key=lambda one: left[one])
    if left[offset] > _LEAVES * before:
        return None
    elsewhere = [one for other, one in left.items() if _APART < abs(other - offset) < DAY_HOURS - _APART]
    if left[offset] > _CLEARLY * min(elsewhere):
        return None
    around = whole and highest - lowest >= DAY_HOURS - _NIGHT_HOURS and _some_passed_midnight(sample, offset, day)
    if not around and left[offset] > _CLEARLY * _without_midnight(suspect, sample, offset * unit, day):
        return None  # Whole hours of nearly all the day are times of it; a count of things fills less.
    hours = offset if offset <= DAY_HOURS / 2 else offset - DAY_HOURS
    return Cause(CLOCK, details=(("offset", hours), *((("per_hour", unit),) if unit != 1 else ())))


def _some_passed_midnight(sample: ValueSample, offset: float, day: float) -> bool:
    """Whether times were found again at the other end of the day, with either way around the clock undone."""
    return all(
        bool(((back < 0) | (back >= day)).any()) for back in (sample.values - offset, sample.values - offset + day)
    )


def _without_midnight(suspect: Suspect, sample: ValueSample, offset: float, day: float) -> float:
    """Δ that is left where the times are undone without going around the clock."""
    bins = suspect.feature.bins
    assert isinstance(bins, NumericBins | DiscreteBins)
    p = shares_of(suspect.feature, suspect.reference)
    ways = (offset, offset - day)
    return min(distance_of(p, _shares(bins.assign(sample.values - one), sample.n, bins.size)) for one in ways)


def _shares(codes: Integers, n: Integers, size: int) -> Floats:
    rows = np.bincount(codes, weights=n, minlength=size)[:size].astype(np.float64)
    return np.asarray(rows / max(rows.sum(), 1.0))
