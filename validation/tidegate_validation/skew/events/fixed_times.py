"""Columns that follow the local time of day, as prices do, of events that come at a few fixed times of UTC: once summer
time has begun or ended, they hold what belongs to hours that training never had.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from datetime import date, timedelta

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.columns.together import CHECK as TOGETHER
from tidegate_validation.skew.compare import Comparison
from tidegate_validation.skew.diagnosis.beyond import OUTSIDE
from tidegate_validation.skew.rule import Aspect
from tidegate_validation.statistics.arrays import Integers
from tidegate_validation.statistics.counts import TIME_OF_DAY, FeatureCounts
from tidegate_validation.statistics.profile import Profile

_RULES = (((3, -1), (10, -1)), ((3, 2), (11, 1)), ((10, 1), (4, 1)))
"""Month and Sunday of it, the last one as -1, on which summer time begins and ends: in Europe, in North America and in
the south."""
_NEARLY_ALL = 0.99
_HARDLY = 0.005
_EPOCH = date(1970, 1, 1)
_OF_VALUES = (Aspect.DISTRIBUTION.value, Aspect.OUTSIDE.value, Aspect.UNSEEN.value)


def told_of_fixed_times(comparison: Comparison, profile: Profile, time: str) -> Comparison:
    """The comparison in which columns that go with the time of day of events at fixed times do not fail for other
    values than training's, none far outside its range, where the clocks were changed since most of training."""
    hours, counts = profile.counts.get(TIME_OF_DAY), next(iter(comparison.counts.values()), None)
    if hours is None or counts is None or not _fixed(hours) or not _changed(hours.blocks, counts.blocks):
        return comparison
    pairs = [(one.first, one.second) for one in profile.pairs if one.ranked and one.telling]
    follow = {name for pair in pairs if TIME_OF_DAY in pair for name in pair}
    findings = {
        name: _excused(found, name, time) if name in follow else found for name, found in comparison.findings.items()
    }
    return replace(comparison, findings=findings)


def _excused(found: Sequence[Finding], name: str, time: str) -> Sequence[Finding]:
    """A WARN in place of failing findings about values that have no other cause, where the column still goes with what
    it went with."""
    excused = [
        one
        for one in found
        if one.outcome is Outcome.FAIL and one.check in _OF_VALUES and (one.cause or {}).get("kind", OUTSIDE) == OUTSIDE
    ]
    if not excused or any(one.outcome is Outcome.FAIL and one.check == TOGETHER for one in found):
        return found
    words = f"`{name}`: other values than in training, as if those of other times of day of `{time}` (summer time?)"
    told = replace(excused[0], outcome=Outcome.WARN, sentence=words, cause=None)
    return [told, *(one for one in found if one not in excused)]


def _fixed(hours: FeatureCounts) -> bool:
    """Whether nearly all events come in hours of which neither neighbour has any."""
    rows = np.array([hours.of((hour,)).sum() for hour in range(24)], dtype=np.float64)
    shares = rows / max(rows.sum(), 1.0)
    alone = np.maximum(np.roll(shares, 1), np.roll(shares, -1)) <= _HARDLY
    return bool(shares[alone].sum() >= _NEARLY_ALL)


def _changed(before: Integers, now: Integers) -> bool:
    """Whether the last of the window's days has another time than the middle one of training's, somewhere; rows
    without a time have none."""
    before, now = before[before > 0], now[now > 0]
    if not len(before) or not len(now):
        return False
    return any(_in_summer(int(np.median(before)), rule) != _in_summer(int(now[-1]), rule) for rule in _RULES)


def _in_summer(day: int, rule: tuple[tuple[int, int], tuple[int, int]]) -> bool:
    """Whether a day since 1970 has summer time by a rule."""
    found = _EPOCH + timedelta(days=day)
    start, end = (_sunday(found.year, *one) for one in rule)
    return start <= found < end if start < end else not end <= found < start


def _sunday(year: int, month: int, place: int) -> date:
    """The first, second ... or last Sunday of a month."""
    first = date(year, month, 1) if place > 0 else date(year, month + 1, 1)
    return first + timedelta(days=6 - first.weekday() + 7 * (place - 1 if place > 0 else -1))
