"""Columns of Unix seconds or milliseconds beside the event's time, whole or not: how many hours they come after it.

As numbers they grow from day to day, so that some hours more do not show. An identifier or a counter of such a size
does not stay within a day of the events. A few other numbers, such as a 0 where there is no time, are no stamps. Beside
them not even stamps grow that are days or years before the event, as those of the last login, of which some never were.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from tidegate_validation.skew.events.event_dates import run_with
from tidegate_validation.statistics.arrays import Floats, to_numpy
from tidegate_validation.statistics.bins import NAN
from tidegate_validation.statistics.profile import FeatureProfile, Profile
from tidegate_validation.statistics.relation import Relation
from tidegate_validation.statistics.sql import Family, as_number, family

_SECONDS = 3600.0
_DAY = 24 * _SECONDS
_UNITS = ((5e8, 5e9, 1), (5e11, 5e12, 1_000))
"""Seconds, and milliseconds, from 1985 to 2128."""
_NUMBERS = (Family.INTEGER, Family.FLOAT)
_STRAY = 0.05
"""The share of numbers that may be no stamps."""
_WIDEST, _NEAR = 24.0, 24.0 * 31
_ENDS = (0.005, 0.995)
_NEVER = 0.5
"""The most of the numbers that may be 0 or less where stamps lie further from the event."""
_STAYS = 0.25
_STEADIER = 4.0
"""Times of events spread so many times as far as delays do: else a number that has nothing to do with them would do."""


def epochs_of(relation: Relation, columns: Sequence[str], time: str) -> dict[str, str]:
    """Which of the `columns` are such stamps, nearly all of whose values lie in a unit's range and within a day of each
    other's delay; each with SQL for how many hours it comes after the event's `time`, null where it is none."""
    units = _units(relation, columns)
    if not units:
        return {}
    found = {name: _delay(name, time, unit, relation.types) for name, unit in units.items()}
    sample = relation.sample({**found, f"{time} alone": f"{as_number(time, relation.types[time])} / {_SECONDS}"})
    moments = to_numpy(sample[f"{time} alone"]).astype(np.float64)
    low, high = _ends(moments)
    told = {}
    for name, sql in found.items():
        first, last = _ends(to_numpy(sample[name]))
        near = max(abs(first), abs(last)) <= _NEAR
        narrow = last - first <= min(_WIDEST, (high - low) / _STEADIER)
        if near and narrow and _stays(moments, to_numpy(sample[name]), _STAYS * (last - first)):
            told[name] = sql
    return told


def known_epochs(profile: Profile, stamps: Collection[str], now: Relation, time: str) -> dict[str, str]:
    """Those of a profile that a table has in the same unit, with SQL as in `epochs_of`; `stamps` have delays after the
    event in the profile."""
    known = {name: unit for name in stamps if (unit := _of_profile(profile.features[name])) is not None}
    now_in = _units(now, [name for name in known if name in now.types])
    return {name: _delay(name, time, unit, now.types) for name, unit in known.items() if now_in.get(name) == unit}


def without_strays(relation: Relation, epochs: Collection[str]) -> dict[str, str]:
    """SQL for those of the columns, which hold such stamps, that also hold other numbers: without these, as NaN. Beside
    them no column grows with time."""
    if not epochs:
        return {}
    numbers = {name: as_number(name, relation.types[name]) for name in epochs}
    counted = [f"count(*) FILTER (WHERE isfinite({sql}) AND NOT {_is_stamp(sql)})" for sql in numbers.values()]
    rows = relation.connection.execute(f"SELECT {', '.join(counted)} FROM {relation.name}").fetchall()[0]
    return {name: _without(sql) for (name, sql), n in zip(numbers.items(), rows, strict=True) if n}


def without_never(relation: Relation, columns: Sequence[str], time: str) -> dict[str, str]:
    """SQL for those of the columns that hold stamps which run with the event's `time`, within a day of each other's
    delay or not, and else 0 or less where there is none: without these, as NaN."""
    found = _units(relation, columns, _NEVER)
    if not found:
        return {}
    numbers = {name: as_number(name, relation.types[name]) for name in found}
    counted = [f"count(*) FILTER (WHERE isfinite({sql}) AND {one})" for sql in numbers.values() for one in _others(sql)]
    rows = relation.connection.execute(f"SELECT {', '.join(counted)} FROM {relation.name}").fetchall()[0]
    likely = [name for name, never, other in zip(found, rows[::2], rows[1::2], strict=True) if never and not other]
    if not likely:
        return {}
    days = {name: f"CASE WHEN {numbers[name]} > 0 THEN {numbers[name]} / {found[name] * _DAY} END" for name in likely}
    sample = relation.sample({**days, f"{time} alone": f"{as_number(time, relation.types[time])} / {_DAY}"})
    event = to_numpy(sample[f"{time} alone"]).astype(np.float64)
    told = [name for name in likely if run_with(to_numpy(sample[name]).astype(np.float64), event)]
    return {name: _or_nan(numbers[name], f"{numbers[name]} > 0") for name in told}


def known_without_strays(profile: Profile, stamps: Collection[str], now: Relation) -> dict[str, str]:
    """SQL as in `without_strays` for those columns of a table that are without in the profile, with `stamps` as in
    `known_epochs`; as in `without_never` for others."""
    numbers = {name: as_number(name, kind) for name, kind in now.types.items() if family(kind) in _NUMBERS}
    epochs = [name for name in numbers if name in profile.features and _of_profile(profile.features[name]) is not None]
    strays = [name for name in epochs if profile.counts[name].of((NAN,)).any()]
    return {
        name: _without(numbers[name]) if name in stamps else _or_nan(numbers[name], f"{numbers[name]} > 0")
        for name in strays
    }


def _without(number: str) -> str:
    return _or_nan(number, _is_stamp(number))


def _or_nan(number: str, condition: str) -> str:
    return f"CASE WHEN {condition} THEN {number} WHEN {number} IS NOT NULL THEN CAST('NaN' AS DOUBLE) END"


def _others(number: str) -> tuple[str, str]:
    """Conditions for numbers where there is no time, and for what else is no stamp."""
    return f"{number} <= 0", f"{number} > 0 AND NOT {_is_stamp(number)}"


def _is_stamp(number: str) -> str:
    return f"({' OR '.join(f'{number} BETWEEN {low!r} AND {high!r}' for low, high, _ in _UNITS)})"


def _units(relation: Relation, columns: Sequence[str], stray: float = _STRAY) -> dict[str, int]:
    """The unit of each of the columns that has one, in all of its numbers but a share `stray`."""
    numbers = {
        name: as_number(name, relation.types[name]) for name in columns if family(relation.types[name]) in _NUMBERS
    }
    if not numbers:
        return {}
    conditions = ["isfinite({0})", *(f"{{0}} BETWEEN {low!r} AND {high!r}" for low, high, _ in _UNITS)]
    counted = [f"count(*) FILTER (WHERE {one.format(sql)})" for sql in numbers.values() for one in conditions]
    rows = relation.connection.execute(f"SELECT {', '.join(counted)} FROM {relation.name}").fetchall()[0]
    found = dict[str, int]()
    for place, name in enumerate(numbers):
        finite, *inside = rows[place * len(conditions) : (place + 1) * len(conditions)]
        units = [unit for (*_, unit), n in zip(_UNITS, inside, strict=True) if n and n >= (1 - stray) * finite]
        if units:
            found[name] = units[0]
    return found


def _of_profile(feature: FeatureProfile) -> int | None:
    if not feature.quantiles:
        return None
    low, high = np.interp((_STRAY, 1 - _STRAY), feature.levels, feature.quantiles)
    return next((unit for least, most, unit in _UNITS if least <= low and high <= most), None)


def _delay(name: str, time: str, unit: int, types: Mapping[str, str]) -> str:
    number = as_number(name, types[name])
    low, high = next((low, high) for low, high, one in _UNITS if one == unit)
    inside = f"CASE WHEN {number} BETWEEN {low!r} AND {high!r} THEN {number} END"
    return f"({inside} / {unit} - {as_number(time, types[time])}) / {_SECONDS}"


def _stays(moments: Floats, hours: Floats, most: float) -> bool:
    """Whether the last third of the rows comes about as long after its events as the first: a counter runs ahead."""
    hours = hours.astype(np.float64)
    there = np.isfinite(moments) & np.isfinite(hours)
    parts = np.array_split(hours[there][np.argsort(moments[there], kind="stable")], 3)
    return bool(abs(np.median(parts[-1]) - np.median(parts[0])) <= most)


def _ends(hours: Floats) -> tuple[float, float]:
    hours = hours.astype(np.float64)
    hours = hours[np.isfinite(hours)]
    if not len(hours):
        return -np.inf, np.inf
    low, high = np.quantile(hours, _ENDS)
    return float(low), float(high)
