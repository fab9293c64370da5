"""Dates that run with the event, such as that of the next visit: training shows how many days after it they are.

The dates themselves are others in every window. A date of birth does not run with the event, nor do defaults in some
rows, such as 1970-01-01 or 9999-12-31: they have the same number in all windows.
"""

from __future__ import annotations

import itertools
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.compare import Comparison
from tidegate_validation.skew.diagnosis.beyond import NEW_VALUE
from tidegate_validation.skew.diagnosis.cause import Cause
from tidegate_validation.skew.diagnosis.dates import swapped_back
from tidegate_validation.skew.finding import explain
from tidegate_validation.skew.rule import Aspect
from tidegate_validation.statistics.arrays import Floats, to_numpy
from tidegate_validation.statistics.blocks import SECONDS
from tidegate_validation.statistics.profile import FeatureProfile, Profile
from tidegate_validation.statistics.relation import Relation
from tidegate_validation.statistics.sql import Family, as_number, quote

if TYPE_CHECKING:
    import pyarrow as pa

CHECK = "dates"
_TIME_OF_DAY = f"epoch({{}}) % {SECONDS}"
_MOST_DAYS = 1e5
"""Numbers of days hardly reach it; Unix seconds lie far beyond."""
_DEFAULT = "(year({0}) < 1902 OR year({0}) >= 2099 OR year({0}) = 1970 AND dayofyear({0}) = 1)"
"""What dates that stand for none look like,"""
_FAR = 40 * 365
"""where they lie so many days from the event,"""
_FIXED = 10_957
"""and from which day after 1970-01-01 on they are counted: no common distance from an event is like theirs."""
_DEFAULT_DAYS = (-24_837, 0, 47_116)
"""The same in days after 1970-01-01: earlier than the first, that day itself, and from the last on."""
_BESIDE_MIDNIGHT = (f"= {SECONDS - 3600}", "= 3600")
_NEARLY_ALL = 0.98
_MIDDLE = (0.05, 0.95)
_NARROWER = 0.7
_LEAST_DAYS = 10
_SURELY = 5.0
_HALF = 0.5
_FEWEST = 3
_ONE_SIDED = 0.995
_LAST = 0.98
_HOUR = 3600.0
_PLACES = range(-12, 15)
"""Hours east of UTC."""
_AS_USUAL = 0.03
_NEAR = 0.25
"""A part of training's days within which dates reach up to the event."""
_TOLD = (Outcome.FAIL, Outcome.WARN)


def is_date(sql_type: str) -> bool:
    """Whether a DuckDB type is a date without a time of day."""
    return sql_type.upper() == "DATE"


def stamps_of_dates(relation: Relation, stamps: Sequence[str]) -> list[str]:
    """Those of the time stamps that are dates alone, at midnight (UTC) in every row, as data frames keep dates."""
    if not stamps:
        return []
    wanted = ", ".join(f"bool_and({_TIME_OF_DAY.format(quote(name))} = 0)" for name in stamps)
    found = relation.connection.execute(f"SELECT {wanted} FROM {relation.name}").fetchall()[0]
    return [name for name, alone in zip(stamps, found, strict=True) if alone]


def with_dates(relation: Relation, stamps: Collection[str]) -> Relation:
    """The relation, in which these time stamps are dates: those of the nearest midnight, from which summer time keeps
    an hour."""
    if not stamps:
        return relation
    kept = {name: f"CAST({quote(name)} + INTERVAL 1 HOUR AS DATE)" for name in stamps}
    return relation.parsed(f"{relation.name}_dated", kept)


def known_dates(profile: Profile, stamps: Sequence[str]) -> list[str]:
    """Those of the time stamps of a table that a profile knows as dates, or by their days after the event."""
    return [name for name in stamps if name in profile.features and _counts_days(profile.features[name])]


def _counts_days(feature: FeatureProfile) -> bool:
    if feature.type != "BIGINT" or feature.minimum is None or feature.maximum is None:
        return feature.type == "DATE"
    return max(abs(feature.minimum), abs(feature.maximum)) < _MOST_DAYS


def told_of_times_of_day(now: Relation, dates: Sequence[str], floor: float) -> list[Finding]:
    """A FAIL for each of the `dates` that has a time of day in more than a share `floor` of the rows; a WARN where
    that is one hour beside midnight in nearly all of them, as local midnights are UTC's in summer time."""
    found = []
    for name in dates:
        time = _TIME_OF_DAY.format(quote(name))
        counted = ", ".join(f"count(*) FILTER (WHERE {time} {one})" for one in ("<> 0", *_BESIDE_MIDNIGHT))
        rows, given, *beside = now.connection.execute(f"SELECT count(*), {counted} FROM {now.name}").fetchall()[0]
        share = given / max(rows, 1)
        if share > floor:
            summer = max(beside) >= _NEARLY_ALL * given
            why = "summer time?" if summer else "another time zone?"
            words = f"{100 * share:.1f} % of the rows have a time of day, where training had dates alone ({why})"
            cause = {"kind": "time zone", "share": round(share, 4)}
            outcome = Outcome.WARN if summer else Outcome.FAIL
            found.append(Finding(CHECK, name, outcome, f"`{name}`: {words}", number=share, limit=floor, cause=cause))
    return found


def running(relation: Relation, names: Sequence[str], time: str) -> list[str]:
    """Which of the `names`, dates or time stamps, run with the event's `time` rather than lying among the same dates
    whenever the event is."""
    if not names:
        return []
    sql = {name: as_number(name, relation.types[name]) for name in [*names, time]}
    table = relation.sample(sql)
    event = _days(table[time])
    return [name for name in names if name != time and run_with(_days(table[name]), event)]


def days_after(date: str, time: str, types: Mapping[str, str]) -> str:
    """SQL for how many days a date lies after that of the event, null where either is missing; defaults that are far
    from it lie where they always do."""
    day, event = f"epoch({quote(date)}) / {SECONDS}", f"floor({as_number(time, types[time])} / {SECONDS})"
    fixed = f"{_DEFAULT.format(quote(date))} AND abs({day} - {event}) > {_FAR}"
    return f"TRY_CAST({day} - CASE WHEN {fixed} THEN {_FIXED} ELSE {event} END AS BIGINT)"


def running_dates(profile: Profile, dates: Collection[str]) -> list[str]:
    """Those of the `dates` of a table that a profile knows by their days after the event."""
    return [name for name in dates if name in profile.features and profile.features[name].family is not Family.TIME]


def told_of_dates(
    comparison: Comparison, profile: Profile, now: Relation, dates: Collection[str], time: str
) -> Comparison:
    """The comparison with findings about days after the event told as such; `now` has the dates themselves."""
    findings = {name: list(found) for name, found in comparison.findings.items()}
    causes = dict(comparison.causes)
    for name in dates:
        found = findings.get(name, [])
        told = any(one.outcome in _TOLD for one in found)
        cause = (_swapped(profile, now, name, time) or _one_date(profile, now, name, time)) if told else None
        cause = cause or (_of_default(causes.get(name)) if told else None)
        if cause is not None:
            causes[name] = cause
            first = replace(found[0], sentence=f"`{name}`: {explain(cause)}", cause=cause.to_dict())
            findings[name] = [first, *(one for one in found[1:] if one.check == Aspect.MISSING)]
        else:
            later = _by_summer_time(profile.features[name], now, name, time) if told else None
            findings[name] = [_in_days(_excused(one, name, later), time) for one in found]
    return replace(comparison, findings=findings, causes=causes)


def _by_summer_time(distance: FeatureProfile, now: Relation, name: str, time: str) -> int | None:
    """By how many hours, from a day of the window on, the events' local dates are those of another time of day than
    they were in training; None where they are no local dates, or others for another reason."""
    date, event = _beside(now, name, time)
    usual = {float(one.value): one.share for one in distance.points.listed}
    if not len(date) or not usual:
        return None
    in_order = np.argsort(event)
    date, event = date[in_order], event[in_order]
    days = _day_of(event)
    firsts = np.unique(days, return_index=True)[1]
    are = {hours: date == _day_of(event + hours * _HOUR) for hours in _PLACES}
    until = {hours: np.concatenate([[0], np.cumsum(one)]) for hours, one in are.items()}
    for hours, later in itertools.product(_PLACES[1:-1], (1, -1)):
        since = until[hours + later]
        told = (until[hours][firsts] + since[-1] - since[firsts]).max() / len(days)
        gaps = (_day_of(event + hours * _HOUR) - days) / SECONDS
        if told >= _ONE_SIDED and np.mean(are[hours]) < _ONE_SIDED and _apart(usual, gaps) <= _AS_USUAL:
            return later
    return None


def _apart(usual: Mapping[float, float], gaps: Floats) -> float:
    """The total variation between training's shares of days after the event and these."""
    values, n = np.unique(gaps, return_counts=True)
    shares = dict(zip(values.tolist(), (n / len(gaps)).tolist(), strict=True))
    return float(sum(abs(usual.get(one, 0.0) - shares.get(one, 0.0)) for one in {*usual, *shares})) / 2


def _excused(finding: Finding, name: str, later: int | None) -> Finding:
    """A finding of values, no more than a WARN where dates are those of an hour later or earlier."""
    if later is None or finding.outcome not in _TOLD or finding.check == Aspect.MISSING:
        return finding
    words = f"`{name}`: those of an hour {'later' if later > 0 else 'earlier'} than in training (summer time?)"
    return replace(finding, outcome=Outcome.WARN, sentence=words, cause=None)


def _in_days(finding: Finding, time: str) -> Finding:
    start = f"`{finding.subject}`:"
    if not finding.sentence.startswith(start):
        return finding
    words = f"`{finding.subject}`, in days after `{time}`:"
    return replace(finding, sentence=finding.sentence.replace(start, words, 1))


def _swapped(profile: Profile, now: Relation, name: str, time: str) -> Cause | None:
    feature, (date, event) = profile.features[name], _beside(now, name, time)
    if feature.minimum is None or feature.maximum is None:
        return None
    day = _day_of(event)
    return swapped_back(date, day + feature.minimum * SECONDS, day + feature.maximum * SECONDS)


def _one_date(profile: Profile, now: Relation, name: str, time: str) -> Cause | None:
    """One and the same date in most of the rows of which the date is further from the event than any of training's."""
    feature = profile.features[name]
    if feature.minimum is None or feature.maximum is None:
        return None
    table = now.sample({"date": as_number(name, now.types[name]), "gap": days_after(name, time, now.types)})
    date, gaps = (to_numpy(table[one]).astype(np.float64) for one in ("date", "gap"))
    date, gaps = date[np.isfinite(gaps)], gaps[np.isfinite(gaps)]
    strange = date[(gaps < feature.minimum) | (gaps > feature.maximum)]
    values, n = np.unique(strange, return_counts=True)
    if len(n) == 0 or n.max() < max(_FEWEST, _HALF * len(strange)):
        return None
    told = (("value", float(values[np.argmax(n)])),)
    return Cause(NEW_VALUE, share=float(n.max() / len(date)), details=told).dated()


def _of_default(cause: Cause | None) -> Cause | None:
    """A cause that tells of a default, which is one and the same date rather than so many days after the event."""
    value = dict(cause.details).get("value") if cause is not None else None
    if cause is None or not isinstance(value, float):
        return None
    days, (first, unix, last) = value + _FIXED, _DEFAULT_DAYS
    if not (days < first or days == unix or days >= last):
        return None
    told = tuple((name, days * SECONDS if name == "value" else one) for name, one in cause.details)
    return replace(cause, details=told).dated()


def _beside(now: Relation, name: str, time: str) -> tuple[Floats, Floats]:
    """Dates that are there, and their events, both in Unix seconds."""
    table = now.sample({"date": as_number(name, now.types[name]), "moment": as_number(time, now.types[time])})
    date, moment = (to_numpy(table[one]).astype(np.float64) for one in ("date", "moment"))
    there = np.isfinite(date) & np.isfinite(moment)
    return date[there], moment[there]


def _day_of(moment: Floats) -> Floats:
    """The first second of each moment's day (UTC)."""
    return np.asarray(np.floor(moment / SECONDS) * SECONDS)


def _days(column: pa.ChunkedArray) -> Floats:
    return np.asarray(to_numpy(column).astype(np.float64) / SECONDS)


def run_with(date: Floats, event: Floats) -> bool:
    """Whether distances from the event spread less than dates do, or dates surely move on with the event's days, or end
    at it; both in days."""
    there = np.isfinite(date) & np.isfinite(event)
    date, event = date[there], event[there]
    if len(date) < _LEAST_DAYS:
        return False
    spread, apart = (float(np.ptp(np.quantile(one, _MIDDLE))) for one in (date, date - event))
    if apart < _NARROWER * spread or _end_at(date, event):
        return True
    days, place = np.unique(np.floor(event), return_inverse=True)
    if len(days) < _LEAST_DAYS:
        return False
    means = np.bincount(place, weights=date) / np.bincount(place)
    middle = days - days.mean()
    slope = float(middle @ means / (middle @ middle))
    left = means - means.mean() - slope * middle
    error = float(np.sqrt(left @ left / (len(days) - 2) / (middle @ middle)))
    return slope > _HALF and slope > _SURELY * error


def _end_at(date: Floats, event: Floats) -> bool:
    """Whether dates lie on one side of the event and reach up to it early and late in training, as those on which a
    customer came do: the last of them is always today's."""
    gaps = date - event
    side = -np.sign(np.median(gaps))
    if not side or np.mean(side * gaps <= 1) < _ONE_SIDED:
        return False
    near = _NEAR * float(np.ptp(event))
    middle = np.median(event)
    ends = (np.quantile(side * gaps[part], _LAST) for part in (event <= middle, event >= middle))
    return all(end > -near for end in ends)
