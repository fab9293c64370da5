"""Time stamps beside the event's: how long after the event they come, which a wrong time zone moves by as much.

Their time of day alone hardly shows a part of an hour, and nothing where events come around the clock.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.columns.together import CHECK as TOGETHER
from tidegate_validation.skew.compare import Comparison
from tidegate_validation.skew.diagnosis.clock import CLOCK, DAY_HOURS
from tidegate_validation.skew.measures.numbers import compared_bins
from tidegate_validation.skew.measures.onset import date_of
from tidegate_validation.skew.rule import Aspect
from tidegate_validation.statistics.arrays import Floats, to_numpy
from tidegate_validation.statistics.bins import DiscreteBins, NumericBins
from tidegate_validation.statistics.blocks import SECONDS
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile, Profile
from tidegate_validation.statistics.relation import Relation
from tidegate_validation.statistics.sql import as_number, quote

if TYPE_CHECKING:
    import pyarrow as pa

_MIDDLE = " after "
_SECONDS = 3600.0
_WIDEST = 24.0
_QUARTER = 0.25
_ZONES = 14.0
_LEAST_ZONE = 0.5
_NEAR = 0.2
_ENOUGH_ROWS = 20
_FEW_DAYS = 7
_ONE_ZONE = 1.0
_FIXED_HOURS = 2
_LEVELS = np.linspace(0.1, 0.9, 17)
_TOLD = (Outcome.FAIL, Outcome.WARN)
_ITS_OWN = ("schema", Aspect.MISSING.value)
"""Checks of the delay that the stamp itself fails too."""


def delay_name(stamp: str, time: str) -> str:
    """The column of a stamp's delays."""
    return f"{stamp}{_MIDDLE}{time}"


def is_stamp(sql_type: str) -> bool:
    """Whether a DuckDB type is a time stamp: a date has no time of day."""
    return sql_type.upper().startswith("TIMESTAMP")


def hour_of(stamp: str) -> str:
    """SQL for the time of day of a column of time stamps, in hours."""
    seconds = f"floor(epoch({quote(stamp)}))"
    return f"({seconds} - {SECONDS} * floor({seconds} / {SECONDS})) / {_SECONDS}"


def delay_of(stamp: str, time: str, types: Mapping[str, str]) -> str:
    """SQL for how many hours a stamp comes after the event's `time`, null where either is missing."""
    return f"(epoch({quote(stamp)}) - {as_number(time, types[time])}) / {_SECONDS}"


def telling_delays(relation: Relation, stamps: Sequence[str], time: str, running: Collection[str]) -> dict[str, str]:
    """SQL for the delays of the stamps that run with the event or nearly always come within a day of each other's
    delay, by name; others, such as a date of birth, have delays that grow with the date of the event."""
    delays = {delay_name(stamp, time): delay_of(stamp, time, relation.types) for stamp in stamps}
    if not delays:
        return {}
    table, found = relation.sample(delays), {}
    for name, sql in delays.items():
        hours = _hours(table[name])
        hours = hours[np.isfinite(hours)]
        stamp = name.removesuffix(f"{_MIDDLE}{time}")
        if stamp in running or (len(hours) and np.ptp(np.quantile(hours, (0.01, 0.99))) <= _WIDEST):
            found[name] = sql
    return found


def _hours(column: pa.ChunkedArray) -> Floats:
    return to_numpy(column).astype(np.float64)


def delays_of(profile: Profile, time: str | None) -> dict[str, str]:
    """The stamp of each column of delays that a profile has."""
    named = {delay_name(name, time): name for name in profile.features} if time is not None else {}
    return {delay: stamp for delay, stamp in named.items() if delay in profile.features}


def told_of_stamps(
    comparison: Comparison,
    profile: Profile,
    now: Relation,
    delays: Mapping[str, str],
    time: str,
    clocks: Collection[str] = (),
) -> Comparison:
    """The comparison with what was found of delays said of their stamps, and without the delays themselves; `time` is
    the column of event times.

    Of `clocks`, which are times of day as numbers, one hour alone may be summer time, and so may one of a part
    of the rows: no more than a WARN. So may be then what no longer goes with the time of day of events.
    """
    findings = {name: list(found) for name, found in comparison.findings.items() if name not in delays}
    moved, summer = set(), False
    for delay, stamp in delays.items():
        found = comparison.findings.get(delay, ())
        own = findings.get(stamp, [])
        if stamp in clocks and delay in now.types and _is_an_hour_off(profile.features[delay], delay, now):
            own = findings[stamp] = _by_summer_time(own, stamp, time)
            moved.add(stamp)
            summer = True
        told = [one for one in found if one.outcome in _TOLD and one.check not in _ITS_OWN]
        if not told or delay not in now.types:
            continue
        wide = _is_wide(profile.features[delay]) and stamp not in clocks
        if wide and any(one.outcome in _TOLD and one.check not in _ITS_OWN for one in own):
            continue  # Their time of day shows hours more exactly than delays of days do.
        usual = partial(_usual, profile.features[delay], profile.counts[delay])
        move = _move(delay, usual, now, time, around=stamp in clocks)
        if move is not None:
            told = [_of_another_zone(told[0], delay, move, summer=stamp in clocks and abs(move.hours) == 1)]
            own = [one for one in own if one.check in _ITS_OWN]
            moved.add(stamp)
        elif stamp in clocks:
            told = [replace(one, outcome=Outcome.WARN) for one in told]
        findings[stamp] = [*(_in_hours(one, stamp, delay, time) for one in told), *own]
    findings = {name: [one for one in found if not _follows(one, moved)] for name, found in findings.items()}
    if summer:
        findings = {name: [_in_summer_time(one, time) for one in found] for name, found in findings.items()}
    return comparison.told(findings, delays)


def _in_hours(finding: Finding, stamp: str, delay: str, time: str) -> Finding:
    """A finding of a delay, told of its stamp."""
    words = finding.sentence.replace(f"`{delay}`:", f"`{stamp}`, in hours after `{time}`:", 1)
    return replace(finding, subject=stamp, sentence=words)


def _is_an_hour_off(delay: FeatureProfile, name: str, now: Relation) -> bool:
    """Whether most delays of a clock are an hour longer, or shorter, than most of training's."""
    hours = _hours(now.sample({"hours": quote(name)})["hours"])
    usual = np.interp(_LEVELS, delay.levels, delay.quantiles) if delay.quantiles else np.empty(0)
    return abs(_moved(usual, hours[np.isfinite(hours)], around=True) or 0.0) == 1


def _by_summer_time(own: Sequence[Finding], stamp: str, time: str) -> list[Finding]:
    """What is found of a clock's own hours, which are others than training's where events come at fixed times: no more
    than a WARN."""
    failing = [one for one in own if one.outcome is Outcome.FAIL and one.check not in _ITS_OWN]
    if not failing:
        return [*own]
    words = f"`{stamp}`: it holds other hours than in training, and is an hour from them beside `{time}` (summer time?)"
    shown, rule = failing[0].example, failing[0].rule
    warned = Finding(Aspect.DISTRIBUTION.value, stamp, Outcome.WARN, words, example=shown, rule=rule)
    return [warned, *(one for one in own if one.outcome not in _TOLD or one.check in _ITS_OWN)]


def _in_summer_time(finding: Finding, time: str) -> Finding:
    """A finding, no more than a WARN where it says that columns no longer go with the time of day of events alone, and
    do again once that is turned by an hour, or by the two that lie between events at fixed times."""
    cause = (finding.cause or {}) if finding.check == TOGETHER else {}
    partners, turned = cause.get("columns", ()), abs(cause.get("turned", 0))
    if not 0 < turned <= _FIXED_HOURS or (finding.subject != time and {*partners} != {time}):
        return finding
    words = f"{finding.sentence.rpartition(' (')[0]} (summer time?)"
    return replace(finding, outcome=Outcome.WARN, sentence=words, cause=None)


def _is_wide(delay: FeatureProfile) -> bool:
    """Whether delays differ by more than a day."""
    return bool(delay.quantiles) and float(np.ptp(np.interp((0.01, 0.99), delay.levels, delay.quantiles))) > _WIDEST


def _follows(finding: Finding, moved: Collection[str]) -> bool:
    """Whether it says only that a column no longer goes with those that were moved."""
    partners = (finding.cause or {}).get("columns", ()) if finding.check == TOGETHER else ()
    return bool(partners) and set(partners) <= set(moved)


@dataclass(frozen=True, slots=True)
class _Move:
    """Delays are longer by so many `hours`, for a `share` of the rows: since a day, None for the whole window."""

    hours: float
    share: float = 1.0
    since: str | None = None


def _usual(delay: FeatureProfile, counts: FeatureCounts, day: float) -> Floats:
    """Training's delays at `_LEVELS`, in hours: of its days around that `day` where these lie closer together, as they
    do where summer time begins or ends in training; empty where training had none."""
    if not delay.quantiles:
        return np.empty(0)
    whole = np.interp(_LEVELS, delay.levels, delay.quantiles)
    n = counts.grouped(compared_bins(delay, counts))
    around = np.argsort(np.abs(counts.blocks - day), kind="stable")[:_FEW_DAYS]
    shares, near = n.sum(axis=0), n[around].sum(axis=0)
    if not near.sum() or not isinstance(delay.bins, NumericBins | DiscreteBins):
        return whole
    middles = np.interp((np.cumsum(shares) - shares / 2) / shares.sum(), delay.levels, delay.quantiles)
    held = np.repeat(middles, near)
    found = np.quantile(held, _LEVELS)
    return found if np.ptp(found) <= min(_ONE_ZONE, np.ptp(whole) - 2 * _QUARTER) else whole


def _move(delay: str, usual: Callable[[float], Floats], now: Relation, time: str, *, around: bool) -> _Move | None:
    """The move that all days have, or all days from one on, beside those of training around each; None where it is no
    such move."""
    table = now.sample({"hours": quote(delay), "moment": as_number(time, now.types[time])})
    hours, moment = _hours(table["hours"]), _hours(table["moment"])
    there = np.isfinite(hours) & np.isfinite(moment)
    hours, days = hours[there], np.floor(moment[there] / SECONDS)
    each = {
        int(day): _moved(usual(day), hours[days == day], around=around)
        for day, rows in zip(*np.unique(days, return_counts=True), strict=True)
        if rows >= _ENOUGH_ROWS
    }
    told = Counter(one for one in each.values() if one is not None)
    if 0.0 not in told or len(told) == 1:
        most, agreed = told.most_common(1)[0] if told else (0.0, 0)
        whole = most if 2 * agreed > len(each) else _moved(usual(float(np.median(days))), hours, around=around)
        return _Move(whole) if whole else None
    first = next(day for day, one in each.items() if one)
    if len(told) > 2 or any((one != 0) != (day >= first) for day, one in each.items() if one is not None):
        return None
    return _Move(float(max(told, key=abs)), float(np.mean(days >= first)), date_of(first))


def _moved(before: Floats, now: Floats, *, around: bool) -> float | None:
    """By how many hours, in quarters, all delays are longer than those `before`, which are at `_LEVELS`, `around` the
    clock or not; None where it is no such number."""
    if not len(now) or not len(before):
        return None
    if around:
        middle = float(np.median(before))
        now = (now - middle + DAY_HOURS / 2) % DAY_HOURS - DAY_HOURS / 2 + middle
    gaps = np.quantile(now, _LEVELS) - before
    hours = _QUARTER * round(float(np.median(gaps)) / _QUARTER)
    near = _NEAR * (abs(hours) or 2 * _QUARTER)
    return hours if float(np.median(np.abs(gaps - hours))) <= near else None


def _of_another_zone(finding: Finding, delay: str, move: _Move, *, summer: bool) -> Finding:
    stamp, _, time = delay.rpartition(_MIDDLE)
    way, far = "later" if move.hours > 0 else "earlier", abs(move.hours)
    size = f"{far:g} h" if far <= _ZONES else f"about {far / DAY_HOURS:.2g} days"
    why = " (time zone or summer time?)" if summer else " (time zone?)" if _LEAST_ZONE <= far <= _ZONES else ""
    since = f", since {move.since}" if move.since else ""
    sentence = f"`{stamp}`: {size} {way} beside `{time}` than in training{why}{since}"
    outcome = Outcome.WARN if summer else finding.outcome
    cause = {"kind": CLOCK, "share": round(move.share, 4), "offset": move.hours}
    return replace(
        finding, outcome=outcome, sentence=sentence, cause={**cause, **({"since": move.since} if move.since else {})}
    )
