"""Values that come and go in waves by nature, as releases of a version do: does a window bring no more of that than
training's own days brought to those before them?

No formula knows such days: each week is unlike all before. So what a window changes is held against what stretches of
training as long as the window, each as long after the days before it, changed: how many rows moved, came to values that
were never there, left values that no row holds any more, came back to values past their best days, and are of one value
alone, and how many values were never there. What has gone wrong, unlike a release, does more of one of these, or brings
values that are written as none of training's.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tidegate_validation.skew.measures.forms import form_of, odd_forms
from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.bins import OFF_SUPPORT, CategoryBins, DiscreteBins
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.points import heaviest
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sample import TextSample, ValueSample

_OF_TRAINING = 3
"""As many windows have to fit into training."""
_FIRST = 6
"""What such a part of training brings first is new whatever its nature."""
_LEAST = 0.05
"""A share of rows in new values that makes a wave."""
_HALF = 0.5
_STRAY = 0.05
"""A part of the rows that it had which does not make a value one that still comes."""
_FURTHER, _ROOM = 1.25, 0.05
"""A release may change so many times what two others did, and so large a share of rows more."""
_BY_CHANCE = 2.0
"""So many square roots of a number of new values do chance days bring more."""
_HEAVIEST, _NUMBER = 4, 5
"""The places of what one bin for all of a window's new values does not tell."""
_ODD = 0.005
_LISTED = 5000


def as_in_waves(
    feature: FeatureProfile,
    reference: FeatureCounts,
    current: FeatureCounts,
    gap: int,
    sample: ValueSample | TextSample | None,
) -> bool:
    """Whether training's values came and went in waves, and the window, `gap` blocks after it, changed no more than
    they did, or than a quarter more where two did so much; `sample` are its values."""
    bins = feature.bins
    if not isinstance(bins, CategoryBins | DiscreteBins) or (isinstance(bins, CategoryBins) and not bins.complete):
        return False
    groups = [(code, OFF_SUPPORT + code) for code in range(bins.size)]
    before, now = reference.grouped(groups).astype(np.float64), current.grouped(groups).astype(np.float64)
    before, now = before[before.sum(axis=1) > 0], now[now.sum(axis=1) > 0]
    length = len(now)
    if length == 0 or len(before) < _OF_TRAINING * (length + gap):
        return False
    starts = np.arange(max(len(before) // _FIRST, length), len(before) - length - gap + 1)
    changes = _changes(np.concatenate([before, now]), starts, length, gap)
    once = changes[:, :-1].max(axis=1)
    values = heaviest(sample, 0.0, _LISTED) if sample is not None and once[1] >= _LEAST else []
    if sample is None or not values:
        return False
    changes[[_HEAVIEST, _NUMBER], -1] = values[0][1], _new(bins, values)
    habits = np.maximum(once, _FURTHER * np.array([_twice(one, length) for one in changes[:, :-1]]))
    most = habits + _ROOM
    most[_NUMBER] = _most_new(bins, habits[_NUMBER], now.sum(axis=1).mean() / before.sum(axis=1).mean())
    alike = _odd(feature, values) <= _ODD or odd_forms(feature, sample, _ODD) is not None  # Those are told themselves.
    return alike and bool((changes[:, -1] <= most).all())


def days_for_waves(feature: FeatureProfile, reference: FeatureCounts, current: FeatureCounts, gap: int) -> int:
    """How many days of training with rows it takes to tell waves in such a window; 0 where it has as many, or where
    values are none that come and go."""
    bins = feature.bins
    if not isinstance(bins, CategoryBins | DiscreteBins) or (isinstance(bins, CategoryBins) and not bins.complete):
        return 0
    before, length = (int((part.n.sum(axis=1) > 0).sum()) for part in (reference, current))
    wanted = _OF_TRAINING * (length + gap)
    return wanted if before < wanted else 0


def _new(bins: CategoryBins | DiscreteBins, values: Sequence[tuple[float | str, float]]) -> int:
    """How many of the values training never held."""
    if isinstance(bins, CategoryBins):
        return len({str(value) for value, _ in values}.difference(bins.top, bins.others))
    return int((bins.assign(np.array([float(value) for value, _ in values])) == bins.unseen).sum())


def _most_new(bins: CategoryBins | DiscreteBins, most: float, rows: float) -> float:
    """How many new values may come at most, where so many of those with a bin of their own came in a stretch of
    training, and days have so many times training's rows: its rarer ones may all have come in one stretch."""
    most += len(bins.others) if isinstance(bins, CategoryBins) else 0
    return (most + _BY_CHANCE * math.sqrt(most)) * max(rows, 1.0)


def _odd(feature: FeatureProfile, values: Sequence[tuple[float | str, float]]) -> float:
    """The share of rows whose values training never held, and which look like none of its values: written otherwise,
    or numbers below its range or far above it."""
    bins, low, high = feature.bins, feature.minimum, feature.maximum
    if isinstance(bins, CategoryBins):
        forms = {form_of(name) for name in (*bins.top, *bins.others)}
        return sum(share for value, share in values if form_of(str(value)) not in forms)
    if low is None or high is None:
        return 0.0
    return sum(share for value, share in values if not low <= float(value) <= high + (high - low))


def _changes(days: Floats, starts: Integers, length: int, gap: int) -> Floats:
    """Shares of rows, [6, stretches], that moved, are of new values, were of values that are gone, came back to values
    that had had their time, and are of the heaviest value, and the number of new values: of stretches `gap` after the
    `starts`, and of the last one, against what was there before the starts, and just before the last one."""
    total = np.concatenate([np.zeros((1, days.shape[1])), np.cumsum(days, axis=0)])
    sums = total[length:] - total[:-length]
    shares = sums / sums.sum(axis=1, keepdims=True)
    ends = np.append(starts, len(days) - length)
    then = np.append(starts + gap, len(days) - length)
    lately, now, best = shares[ends - length], shares[then], np.maximum.accumulate(shares)[ends - length]
    new = total[ends] == 0
    past = ~new & (lately <= _HALF * best)
    return np.array(
        [
            np.abs(now - lately).sum(axis=1) / 2,
            (now * new).sum(axis=1),
            (lately * (now < _STRAY * lately)).sum(axis=1),
            (np.maximum(now - lately, 0) * past).sum(axis=1),
            now.max(axis=1),
            (new & (now > 0)).sum(axis=1),
        ]
    )


def _twice(changes: Floats, length: int) -> float:
    """The most that two stretches changed which share no day."""
    apart = np.abs(np.arange(len(changes)) - int(changes.argmax())) >= length
    return float(changes[apart].max(initial=0.0))
