"""Columns of numbers that are read off the event's time, such as its month or weekday: no window has training's months.

What is compared is how far they are from what the event's time says. Times of day are told by `clocks`.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tidegate_serving.admission import Finding
from tidegate_validation.skew.compare import Comparison
from tidegate_validation.skew.diagnosis.beyond import NEW_VALUE
from tidegate_validation.skew.diagnosis.cause import OFFSET, Cause
from tidegate_validation.skew.diagnosis.frozen import ONE_VALUE
from tidegate_validation.skew.diagnosis.rivals import DEFAULT
from tidegate_validation.skew.finding import explain
from tidegate_validation.statistics.arrays import Floats, Integers, Mask, to_numpy
from tidegate_validation.statistics.blocks import SECONDS
from tidegate_validation.statistics.profile import Profile
from tidegate_validation.statistics.relation import Relation
from tidegate_validation.statistics.sql import Family, as_number, family, quote

_HOURS = sorted(range(-12, 15), key=abs)
_HOUR = 3600.0
_ALL = 0.995
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

    def distance(self, time: str, types: Mapping[str, str]) -> str:
        """SQL for how far the column is from the event's date."""
        seconds = f"{as_number(time, types[time])} + {self.hours * _HOUR}"
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
    place = int(np.argmax(np.sum(list(told.values()), axis=0)))
    return [CalendarColumn(name, part, _HOURS[place]) for (name, part), found in told.items() if found[place] >= _ALL]


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
    comparison: Comparison, profile: Profile, columns: Sequence[CalendarColumn], time: str
) -> Comparison:
    """The comparison with what was found of distances from the event's date told of their columns."""
    names = {one.name(time): one for one in columns}
    findings = {
        names[name].column if name in names else name: [_told(one, profile, names.get(name), time) for one in found]
        for name, found in comparison.findings.items()
    }
    return replace(
        comparison,
        findings=findings,
        numbers={name: one for name, one in comparison.numbers.items() if name not in names},
        causes={name: one for name, one in comparison.causes.items() if name not in names},
        counts={name: one for name, one in comparison.counts.items() if name not in names},
    )


def _told(finding: Finding, profile: Profile, column: CalendarColumn | None, time: str) -> Finding:
    if column is None:
        return finding
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


def _read_off(name: str, values: Floats, usable: Mask, dates: _Dates) -> dict[str, Floats]:
    """The part of the event's date that a column is, with the share of rows for which it is, in a place so many hours
    east as in `_HOURS`; none where it is no part anywhere."""
    usable = usable & np.isfinite(values)
    values = values[usable]
    if len(np.unique(np.floor(dates.seconds[usable] / SECONDS))) < _LEAST_DAYS or (values % 1).any():
        return {}
    low, high = values.min(), values.max()
    for part, (_, least, most) in _PARTS.items():
        if low < least or high > most or (low == high and not _called(name, part)):
            continue
        if _share(part, values, dates.part(part, 0)[usable]) >= _NEARBY:
            shares = np.array([_share(part, values, dates.part(part, hours)[usable]) for hours in _HOURS])
            if shares.max() >= _ALL:
                return {part: shares}
    return {}


def _share(part: str, values: Floats, dates: Integers) -> float:
    gaps = values.astype(np.int64) - dates
    if part == "weekday":
        return float(np.unique(gaps % _WEEK, return_counts=True)[1].max()) / len(gaps)
    return max(float(np.mean(gaps == one)) for one in _FROM)


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
