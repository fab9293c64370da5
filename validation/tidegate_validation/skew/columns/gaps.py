"""Hours and days within a window of which no row is there, though training had rows then: a file that did not come, an
hour that nobody wrote. A finding about the rows, not about a feature.

An hour weighs what training's rows on that weekday had in it, beside those of a usual day. A stretch without a row is
told where it weighs far more than any such stretch of training, and where the days that it touches lack its rows: those
of a job that ran later are only elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.columns.repeated import SUBJECT
from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.counts import TIME_OF_DAY, FeatureCounts
from tidegate_validation.statistics.profile import Profile
from tidegate_validation.statistics.rows import Rows
from tidegate_validation.statistics.window import Window

CHECK = "gaps"
MISSING_ROWS = "missing rows"
_HOURS, _WEEK = 24, 7
_LEAST_DAYS, _LONGEST = 14, 10_000
_STRAY = 0.02
_STRAYS, _AT_MOST = 3, 0.1
"""Days of fewer rows than these are none, where they are no larger a part of a usual day's."""
_LEAST, _TIMES = 0.1, 2.0
"""A gap weighs a tenth of a day at least, and so many times the heaviest one of training."""
_SURELY = 25.0
"""Of so many rows that were to come some come, however days differ."""
_HALF = 0.5
_AROUND = 3
_MOVED = 0.15
"""Where so large a part of the other rows came at other hours than in training, so did those of single hours."""
_HARDLY = 0.05
"""A day that has less of a usual day's rows may have none."""
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class _Gap:
    """From one hour on, up to but without another, in hours since 1970, no row came; `weight` in usual days, and `days`
    those that lie in it whole and usually have rows."""

    begin: int
    end: int
    weight: float
    days: Integers

    @property
    def words(self) -> str:
        """Its whole days, or its hours."""
        if not len(self.days):
            return f"from {_time(self.begin)} to {_time(self.end)}"
        day = self.days[0].astype("datetime64[D]")
        return f"on {day}" if len(self.days) == 1 else f"on {len(self.days)} days from {day} on"


def _time(hour: int) -> str:
    return str(np.datetime64(hour, "h").astype("datetime64[m]")).replace("T", " ")


def rows_missing(profile: Profile, window: Window, read: Rows) -> list[Finding]:
    """A WARN where hours or days within the window have no row, as none of training's had not; nothing where rows have
    no time, or training has too few days to say."""
    if window.moment is None or window.moment not in read.columns or TIME_OF_DAY not in profile.counts:
        return []
    moments = read.columns[window.moment]
    before, now = (
        _by_hour(part)
        for part in (profile.counts[TIME_OF_DAY], FeatureCounts.of_rows(moments.days, moments.day, moments.hours()))
    )
    if len(before[0]) < _LEAST_DAYS or len(now[0]) < 2 or max(np.ptp(days) for days, _ in (before, now)) > _LONGEST:
        return []
    usual = _usual(*before)
    weights = [float(usual[days % _WEEK].sum()) for days, _ in (before, now)]
    if not all(weights):
        return []
    size, usual_size = (float(n.sum()) / weight for (_, n), weight in zip((now, before), weights[::-1], strict=True))
    of_training = [one.weight for one in _gaps(*before, now[0], usual) if _lacks(one, before, usual, usual_size)]
    least = max(_LEAST, _TIMES * max(of_training, default=0.0), _SURELY / size)
    found = [one for one in _gaps(*now, before[0], usual) if one.weight > least and _lacks(one, now, usual, size)]
    if _at_other_hours(found, now, usual):
        found = [one for one in found if one.weight >= _HALF]
    weight = sum(one.weight for one in found)
    if not found or weight > weights[1]:  # Where most is missing, days were chosen.
        return []
    named = ", ".join(one.words for one in found[:_SHOWN]) + (" and others" if len(found) > _SHOWN else "")
    part = f"{100 * weight:.0f} % of a day's rows"
    sentence = (
        f"rows: there are none {named} (UTC), when {part} were to come as in training (a part of the data missing?)"
    )
    share = weight / (weight + float(now[1].sum()) / size)
    first = np.datetime64(found[0].begin // _HOURS, "D")
    cause = {"kind": MISSING_ROWS, "share": round(share, 4), "since": str(first)}
    return [Finding(CHECK, SUBJECT, Outcome.WARN, sentence, number=weight, limit=_LEAST, cause=cause)]


def _by_hour(counts: FeatureCounts) -> tuple[Integers, Integers]:
    """The days that have rows, and how many of each hour, [days, 24]; rows without a time have neither, nor have days
    of so few that their clocks may be wrong."""
    n = counts.grouped([(hour,) for hour in range(_HOURS)])
    there = (counts.blocks > 0) & (n.sum(axis=1) > 0)
    days, n = counts.blocks[there], n[there]
    if not len(days):
        return days, n
    rows = n.sum(axis=1)
    usual = float(np.median(rows))
    own = rows >= max(_STRAY * usual, min(_STRAYS, _AT_MOST * usual))
    return days[own], n[own]


def _usual(days: Integers, n: Integers) -> Floats:
    """What the hours of each weekday weigh, [7, 24], beside the rows of a usual day; a weekday of which training had no
    day weighs nothing."""
    found = np.zeros((_WEEK, _HOURS))
    for weekday in range(_WEEK):
        mine = n[days % _WEEK == weekday]
        found[weekday] = np.median(mine, axis=0) if len(mine) else 0.0
    return found / max(float(np.median(n.sum(axis=1))), 1.0)


def _gaps(days: Integers, n: Integers, others: Integers, usual: Floats) -> list[_Gap]:
    """The stretches without rows between the first and the last row; days that the `others` hold are none of them."""
    span = np.arange(int(days[0]), int(days[-1]) + 1)
    rows = np.zeros((len(span), _HOURS), dtype=np.int64)
    rows[days - days[0]] = n
    weight = np.where(np.isin(span, np.setdiff1d(others, days))[:, None], 0.0, usual[span % _WEEK])
    there, start = np.flatnonzero(rows.ravel()), int(days[0]) * _HOURS
    found = []
    for at in np.flatnonzero(np.diff(there) > 1):
        begin, end = int(there[at]) + 1, int(there[at + 1])
        inside = np.arange(-(-begin // _HOURS), end // _HOURS)
        whole = span[inside[weight[inside].sum(axis=1) > _HARDLY]]
        found.append(
            _Gap(start + begin, start + end, float(weight.ravel()[begin:end].sum()), np.asarray(whole, dtype=np.int64))
        )
    return found


def _lacks(gap: _Gap, hours: tuple[Integers, Integers], usual: Floats, size: float) -> bool:
    """Whether the rows of a gap came at no other time: the hours around it, or where half of a day's are missing its
    days, have fewer rows than they were to have, by half of the gap's at least. Those count, too, that came within a
    day after it when none usually do, as of a job that ran after midnight."""
    days, n = hours
    at = np.arange(gap.begin - _AROUND, gap.end + _AROUND)
    if gap.weight >= _HALF:
        inside = np.arange(gap.begin, gap.end)
        touched, place = np.unique(inside // _HOURS, return_inverse=True)
        weights = np.bincount(place, usual[inside // _HOURS % _WEEK, inside % _HOURS])
        at = (touched[weights >= _LEAST, None] * _HOURS + np.arange(_HOURS)).ravel()
    after = np.arange(gap.end, gap.end + _HOURS)
    at = np.union1d(at, after[usual[after // _HOURS % _WEEK, after % _HOURS] == 0])
    day = at // _HOURS
    held = np.isin(day, days)
    came = float(n[np.searchsorted(days, day[held]), at[held] % _HOURS].sum())
    return size * float(usual[day % _WEEK, at % _HOURS].sum()) - came >= _HALF * gap.weight * size


def _at_other_hours(gaps: Sequence[_Gap], hours: tuple[Integers, Integers], usual: Floats) -> bool:
    """Whether the rows of a window came at other hours than training's, its gaps aside: in another time zone, say."""
    days, n = hours
    at = days[:, None] * _HOURS + np.arange(_HOURS)
    kept = ~np.any([(at >= one.begin) & (at < one.end) for one in gaps], axis=0) if gaps else np.ones(n.shape, bool)
    came, wanted = (n * kept).sum(axis=0), (usual[days % _WEEK] * kept).sum(axis=0)
    if not came.sum() or not wanted.sum():
        return False
    apart = float(np.abs(came / came.sum() - wanted / wanted.sum()).sum()) / 2
    return bool(apart > _MOVED + _HALF * (_HOURS / float(came.sum())) ** 0.5)
