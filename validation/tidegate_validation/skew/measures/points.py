"""Does one value weigh more than in training: a default that creeps in, a sentinel, a cut-off, a frozen column."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate_validation.skew.measures.likeness import Apart
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.bins import CategoryBins, DiscreteBins
from tidegate_validation.statistics.points import RARE, heaviest
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sample import TextSample, ValueSample

_LEAST = 0.01
_MOST = 100
_TWO = 2
_SPECIAL = {0.0, -1.0, 1.0, *(sign * 10.0**power - sign for power in range(1, 7) for sign in (1, -1))}
_SIZE = 0.1
_FEW_TRIES = 4
_HEAVY = 1.5
_MANY = 20
_FILLED = 0.9
"""A value that nobody would take for a default may weigh this many times what values of the column do on their days,
or what those do that come for a while."""
_NEXT = 10


@dataclass(frozen=True, slots=True)
class PointExcess:
    """One value holds `share` of the window's rows, and `expected` of training's.

    `error` is the standard error of their difference, days included, on `freedom` degrees of freedom: those of days
    alone, and more where rows, whose part is known, make most of it (Welch 1938, Satterthwaite 1946). `room` is what
    one day of training's heaviest would explain, or a value that comes for a while; `tries` is how many values were
    looked at. It is `daily` where a day's own level may bring it: values of the column weigh about as much on their
    days, and nobody would take it for a default.
    """

    value: float | str
    share: float
    expected: float
    error: float
    freedom: float
    room: float
    daily: bool
    tries: int

    @property
    def excess(self) -> float:
        """What the value weighs beyond training."""
        return self.share - self.expected

    def limit(self, margin: float, part: float = 1.0) -> float:
        """The excess that is tolerated: at least `margin`, a Δ of a tenth, and one of training's heaviest days; of the
        first two only a `part`."""
        middle = (self.share + self.expected) / 2
        return float(max(part * max(margin, _SIZE * (middle * (1 - middle)) ** 0.5), self.room))

    def p_value(self, limit: float) -> float:
        """Probability of such an excess if the true one were `limit`, after looking at so many values."""
        from scipy import special

        return min(1.0, self.tries * float(special.stdtr(self.freedom, (limit - self.excess) / self.error)))


def heaviest_excess(
    feature: FeatureProfile, sample: ValueSample | TextSample, blocks: int, apart: Apart, margin: float
) -> PointExcess | None:
    """The value whose excess is surest, None where no value weighs anything; of categories, and of two values
    of which one grows whatever happens, only what training lacks.

    `apart` says what so many `blocks` differ from training's by, in units of how a value's weight wanders by the day.
    """
    candidates = heaviest(sample, _LEAST, _MOST)
    if isinstance(feature.bins, DiscreteBins) and len(feature.bins.values) <= _TWO:
        candidates = [one for one in candidates if one[0] not in feature.bins.values]
    if isinstance(feature.bins, CategoryBins):
        known = {*feature.bins.top, *feature.bins.others} if feature.bins.complete else None
        candidates = [one for one in candidates if known is not None and one[0] not in known]
    rows = float(sample.n.sum())
    # Values are cut off to an end of training's range where none lie beyond it.
    ends = {feature.minimum, feature.maximum} & {*sample.values[:1].tolist(), *sample.values[-1:].tolist()}
    tries = {one: _FEW_TRIES if is_special(one) or one in ends else 2 * len(candidates) for one, _ in candidates}
    found = [_excess(feature, one, rows, blocks, apart, tries[one[0]], sample) for one in candidates]
    return min(found, key=lambda one: (one.p_value(one.limit(margin)), -one.excess), default=None)


def is_special(value: float | str) -> bool:
    """Whether people write it for want of a value: 0, 1, -1, 999 and the like."""
    return value in _SPECIAL


def _excess(
    feature: FeatureProfile,
    held: tuple[float | str, float],
    rows: float,
    blocks: int,
    apart: Apart,
    tries: int,
    sample: ValueSample | TextSample,
) -> PointExcess:
    value, share = held
    point = feature.points.of(value)
    present = max(feature.rows - feature.missing - feature.infinite, 1)
    middle = (share + point.share) / 2
    by_rows = middle * (1 - middle) * (1 / rows + 1 / present)
    by_days = max(point.spread**2 * apart.factor, 1e-12)
    error = by_rows + by_days
    special = tries == _FEW_TRIES
    phase = feature.points.phase(max(blocks, 1))
    for_a_while = _HEAVY * phase if not special and point.share <= RARE * phase else 0.0
    # Where each day holds one of many values, two days may come out alike.
    of_days = len(feature.points.listed) >= _MANY and feature.points.usual_peak >= _FILLED
    usually = (_TWO if of_days else _HEAVY) * feature.points.usual_peak
    heavy = point.peak if special else max(point.peak, usually)
    beside = _grown_beside(feature, value, sample) if special and isinstance(sample, ValueSample) else 0.0
    return PointExcess(
        value=value,
        share=share,
        expected=point.share,
        error=error**0.5,
        freedom=apart.freedom * (error / by_days) ** 2,
        room=max((heavy - point.share) / max(blocks, 1), for_a_while - point.share, beside, 0.0),
        daily=not special and share <= _TWO * heavy,
        tries=tries,
    )


def _grown_beside(feature: FeatureProfile, value: float | str, sample: ValueSample) -> float:
    """By how much one of the next values weighs more than in training, 0 where those on one side do not: where the
    level of days moved to a value, as to frost, its neighbours weigh about as much, and no default has such."""
    values, n = sample.distinct()
    place = int(np.searchsorted(values, float(value)))
    before, after = slice(max(place - _NEXT, 0), place), slice(place + 1, place + 1 + _NEXT)
    grown = [_most_grown(feature, values[side], n[side] / n.sum()) for side in (before, after)]
    return max(grown) if min(grown) > 0 else 0.0


def _most_grown(feature: FeatureProfile, values: Floats, shares: Floats) -> float:
    known = np.array([feature.points.of(float(one)).share for one in values])
    return float((shares - known).max(initial=0.0))
