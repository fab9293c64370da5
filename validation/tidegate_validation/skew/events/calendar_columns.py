"""Columns of numbers that are read off the event's time, such as its month or weekday: no window has training's months.

What is compared is how far they are from what the event's time says. Times of day are told by `clocks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.compare import Comparison
from tidegate_validation.skew.diagnosis.beyond import NEW_VALUE
from tidegate_validation.skew.diagnosis.cause import OFFSET, Cause
from tidegate_validation.skew.diagnosis.clock import CLOCK
from tidegate_validation.skew.diagnosis.frozen import ONE_VALUE
from tidegate_validation.skew.diagnosis.rivals import DEFAULT
from tidegate_validation.skew.finding import explain
from tidegate_validation.skew.rule import Aspect
from tidegate_validation.statistics.arrays import Floats, Integers, Mask, to_numpy
from tidegate_validation.statistics.blocks import SECONDS
from tidegate_validation.statistics.profile import FeatureProfile, Profile
from tidegate_validation.statistics.relation import Relation
from tidegate_validation.statistics.sql import Family, as_number, family, quote

_HOURS = sorted(range(-12, 15), key=abs)
_HOUR = 3600.0
_ALL = 0.995
_IN_ONE_ZONE = 0.8
"""Summer time moves the dates of the one hour before midnight alone."""
_STRAY = 0.05
"""A part of the rows with other dates than usual: summer time is told where no more of them have others still."""
_WEEK = 7
_FROM = (0, -1)
"""Parts are counted from one or from zero."""
_LEAST_DAYS = 5
_LOOKED_AT = 5_000
_NEARBY = 0.35
"""In a place half a day away, nearly half of the rows have UTC's date."""
_YEARS = (1900.0, 2200.0)
_PARTS = {
    "month": ("month", 0, 12),
    "day of the month": ("day", 0, 31),
    "weekday": ("isodow", 0, 7),
    "day of the year": ("dayofyear", 0, 366),
    "week": ("week", 0, 53),
    "quarter": ("quarter", 0, 4),
    "year": ("year", *_YEARS),
}
"""DuckDB's function for each part of a date, and the least and the largest number of it."""
_SEEN = (Outcome.FAIL, Outcome.WARN)
_OF_VALUES = tuple(one.value for one in Aspect if one not in (Aspect.MISSING, Aspect.INFINITE))
_OF_ONE_DISTANCE = (ONE_VALUE, NEW_VALUE, DEFAULT)
_LONG = ("month", "week", "quarter", "year")
"""Parts of which training may hold a single one: a column of one number is such a part where it is called so."""


@dataclass(frozen=True, slots=True)
class CalendarColumn:
    """A column that is the `part` of the event's date in a place so many `hours` east of UTC, counted from anywhere."""

    column: str
    part: str
    hours: int

    def name(self, time: str) -> str:
        """What the column of distances from the event's date is called."""
        return f"{self.column} against {self.part} of {time} at {self.hours:+d} h"

    def distance(self, time: str, types: Mapping[str, str], later: int = 0) -> str:
        """SQL for how far the column is from the event's date, at local times so many hours `later`."""
        seconds = f"{as_number(time, types[time])} + {(self.hours + later) * _HOUR}"
        moment = f"make_timestamp(TRY_CAST(floor({seconds}) AS BIGINT) * 1000000)"
        gap = f"{as_number(self.column, types[self.column])} - {_PARTS[self.part][0]}({moment})"
        return f"({gap}) - {_WEEK} * floor(({gap}) / {_WEEK})" if self.part == "weekday" else gap


def calendar_columns(relation: Relation, columns: Sequence[str], time: str) -> list[CalendarColumn]:
    """Which of the `columns` are read off the event's `time`."""
    numbers = [name for name in columns if _is_number(relation.types[name])]
    if not numbers:
        return []
    sql = {name: as_number(name, relation.types[name]) for name in [*numbers, time]}
    table = relation.sample(sql)
    columns_of = {
        name: to_numpy(table[name]).astype(np.float64)[:: max(1, table.num_rows // _LOOKED_AT)] for name in sql
    }
    event = columns_of[time]
    dates = _Dates(np.where(np.isfinite(event), event, 0.0))
    shares = {name: _read_off(name, columns_of[name], np.isfinite(event), dates) for name in numbers}
    told = {(name, part): found for name, parts in shares.items() for part, found in parts.items()}
    if not told:
        return []
    place = int(np.argmax(np.sum([found.at for found in told.values()], axis=0)))
    return [CalendarColumn(one, part, _HOURS[place]) for (one, part), found in told.items() if found.fits(place)]


def known_calendar_columns(features: Iterable[str], time: str) -> list[CalendarColumn]:
    """Those that a profile with such `features` knows by their distance from the event's date."""
    ends = {CalendarColumn("", part, hours).name(time): (part, hours) for part in _PARTS for hours in _HOURS}
    found = ((name, end) for name in features for end in ends if name.endswith(end))
    return [CalendarColumn(name.removesuffix(end), *ends[end]) for name, end in found]


def distances(columns: Sequence[CalendarColumn], time: str, types: Mapping[str, str]) -> dict[str, str]:
    """SQL by name for the distances of those that a table has; one that holds no numbers stays as it is, so that the
    schema's finding says so."""
    return {
        one.name(time): one.distance(time, types) if _is_number(types[one.column]) else quote(one.column)
        for one in columns
        if one.column in types
    }


def told_of_calendar(
    comparison: Comparison, profile: Profile, now: Relation, columns: Sequence[CalendarColumn], time: str
) -> Comparison:
    """The comparison with what was found of distances from the event's date told of their columns, which `now` has:
    what summer time does to them is no more than a WARN, and nothing where training had both."""
    names = {one.name(time): one for one in columns}
    findings = dict[str, Sequence[Finding]]()
    for name, found in comparison.findings.items():
        column = names.get(name)
        if column is None:
            findings[name] = found
            continue
        excused = _by_summer_time(found, profile.features[name], now, column, time)
        findings[column.column] = [_told(one, profile, column, time) for one in excused]
    return comparison.told(findings, names)


def _by_summer_time(
    found: Sequence[Finding], distance: FeatureProfile, now: Relation, column: CalendarColumn, time: str
) -> Sequence[Finding]:
    """The findings of a column's `distance`, those of its values as one where all other dates than usual are those of
    an hour later, or of an hour earlier."""
    values = [one for one in found if one.outcome in _SEEN and one.check in _OF_VALUES]
    usual = distance.points.listed
    if not values or not usual or column.column not in now.types or not _is_number(now.types[column.column]):
        return found
    value = float(max(usual, key=lambda one: one.share).value)
    off = {later: f"({column.distance(time, now.types, later)}) <> {value}" for later in (0, 1, -1)}
    counted = ", ".join(f"count(*) FILTER (WHERE {off[0]} AND {one})" for one in off.values())
    rows, *left = now.connection.execute(f"SELECT count(*), {counted} FROM {now.name}").fetchall()[0]
    later = min((1, -1), key=lambda one: left[[*off].index(one)])
    if not left[0] or left[[*off].index(later)] > min((1 - _ALL) * rows, _STRAY * left[0]):
        return found
    start, way = f"`{distance.name}`:", "later" if later > 0 else "earlier"
    if sum(one.share for one in usual if float(one.value) != value) > 1 - _ALL:
        words, outcome, cause = f"{start} as in training, in summer time and out of it", Outcome.PASS, None
    else:
        since = (values[0].cause or {}).get("since")
        words = f"{start} that of an hour {way} than in training (summer time?){f', since {since}' if since else ''}"
        outcome = Outcome.WARN
        cause = {
            "kind": CLOCK,
            "share": round(left[0] / rows, 4),
            "offset": later,
            **({"since": since} if since else {}),
        }
    told = Finding(Aspect.DISTRIBUTION.value, distance.name, outcome, words, example=values[0].example, cause=cause)
    return [told, *(one for one in found if one not in values)]


def _told(finding: Finding, profile: Profile, column: CalendarColumn, time: str) -> Finding:
    start, words = f"`{finding.subject}`:", f"`{column.column}`, beside the {column.part} of `{time}`:"
    told, usual = finding.cause or {}, profile.features[finding.subject].points.listed
    if told.get("kind") in _OF_ONE_DISTANCE and usual:
        offset = float(told["value"]) - float(max(usual, key=lambda one: one.share).value)
        return _counted_otherwise(finding, column, offset, words)
    return replace(finding, subject=column.column, sentence=finding.sentence.replace(start, words, 1))


def _counted_otherwise(finding: Finding, column: CalendarColumn, offset: float, words: str) -> Finding:
    """Of a column that is one and the same number further from the event's date than in training, in all rows or in
    the share of them that the finding tells."""
    if column.part == "weekday" and abs(offset) > _WEEK / 2:
        offset -= np.copysign(_WEEK, offset)
    told = finding.cause or {}
    cause = Cause(OFFSET, offset=offset, share=told["share"], since=told.get("since"))
    since = f", since {cause.since}" if cause.since else ""
    return replace(finding, subject=column.column, sentence=f"{words} {explain(cause)}{since}", cause=cause.to_dict())


def _is_number(sql_type: str) -> bool:
    return family(sql_type) in (Family.INTEGER, Family.FLOAT)


@dataclass(frozen=True, slots=True)
class _Dates:
    """Parts of the dates of events, in Unix seconds, in places east of UTC; each is reckoned once."""

    seconds: Floats
    known: dict[tuple[str, int], Integers] = field(default_factory=dict)

    def part(self, part: str, hours: int) -> Integers:
        """Shape [n]."""
        if (part, hours) not in self.known:
            self.known[part, hours] = _part_of(part, self.seconds + hours * _HOUR)
        return self.known[part, hours]


def _called(name: str, part: str) -> bool:
    """Whether a column of one and the same number may be that part of the date: a year is told by its size."""
    return part == "year" or (part in _LONG and part in name.lower())


@dataclass(frozen=True, slots=True)
class _Shares:
    """Shares of rows for which a column is a part of the event's date `at` so many hours east as in `_HOURS`, and there
    or an hour from there, which is summer time."""

    at: Floats
    about: Floats

    def fits(self, place: int) -> bool:
        """Whether a column is that part in this place, summer time aside."""
        return bool(self.about[place] >= _ALL and self.at[place] >= _IN_ONE_ZONE)


def _read_off(name: str, values: Floats, usable: Mask, dates: _Dates) -> dict[str, _Shares]:
    """The part of the event's date that a column is; none where it is no part anywhere."""
    usable = usable & np.isfinite(values)
    values = values[usable]
    if len(np.unique(np.floor(dates.seconds[usable] / SECONDS))) < _LEAST_DAYS or (values % 1).any():
        return {}
    low, high = values.min(), values.max()
    for part, (_, least, most) in _PARTS.items():
        if low < least or high > most or (low == high and not _called(name, part)):
            continue
        if _are(part, values, dates.part(part, 0)[usable]).mean() >= _NEARBY:
            are = {hours: _are(part, values, dates.part(part, hours)[usable]) for hours in _HOURS}
            at = np.array([are[hours].mean() for hours in _HOURS])
            about = [max((are[one] | are[hours]).mean() for one in are if abs(one - hours) <= 1) for hours in _HOURS]
            found = _Shares(at, np.array(about))
            if any(found.fits(place) for place in range(len(_HOURS))):
                return {part: found}
    return {}


def _are(part: str, values: Floats, dates: Integers) -> Mask:
    """Which values are that part of their dates, counted from where most of them are."""
    gaps = values.astype(np.int64) - dates
    if part == "weekday":
        gaps = gaps % _WEEK
        return np.asarray(gaps == np.bincount(gaps).argmax())
    return np.asarray(max((gaps == one for one in _FROM), key=np.mean))


def _part_of(part: str, seconds: Floats) -> Integers:
    """The part of the date of each moment, as DuckDB tells it."""
    days = np.floor(seconds / SECONDS).astype("int64").astype("datetime64[D]")
    months, years = days.astype("datetime64[M]"), days.astype("datetime64[Y]")
    weekday = (days.astype(np.int64) + 3) % _WEEK + 1
    if part == "week":
        thursday = days + (4 - weekday)
        return np.asarray(
            (thursday - thursday.astype("datetime64[Y]").astype("datetime64[D]")).astype(np.int64) // 7 + 1
        )
    found = {
        "month": months.astype(np.int64) % 12 + 1,
        "day of the month": (days - months).astype(np.int64) + 1,
        "weekday": weekday,
        "day of the year": (days - years).astype(np.int64) + 1,
        "quarter": months.astype(np.int64) % 12 // 3 + 1,
        "year": years.astype(np.int64) + 1970,
    }
    return np.asarray(found[part], dtype=np.int64)
