"""Columns of whole Unix seconds or milliseconds beside the event's time: how many hours they come after it.

As numbers they grow from day to day, so that some hours more do not show. An identifier or a counter of such a size
does not stay within a day of the events.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np

from tidegate_validation.statistics.arrays import Floats, to_numpy
from tidegate_validation.statistics.profile import Profile
from tidegate_validation.statistics.relation import Relation
from tidegate_validation.statistics.sql import Family, as_number, family

_SECONDS = 3600.0
_UNITS = ((5e8, 5e9, 1), (5e11, 5e12, 1_000))
"""Seconds, and milliseconds, from 1985 to 2128."""
_WIDEST, _NEAR = 24.0, 24.0 * 31
_ENDS = (0.005, 0.995)
_STAYS = 0.25
_STEADIER = 4.0
"""Times of events spread so many times as far as delays do: else a number that has nothing to do with them would do."""


def epochs_of(relation: Relation, columns: Sequence[str], time: str) -> dict[str, str]:
    """Which of the `columns` are such stamps, all of whose values lie in a unit's range and nearly all within a day of
    each other's delay; each with SQL for how many hours it comes after the event's `time`."""
    units = {name: unit for name in columns if (unit := _unit(relation, name)) is not None}
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
    found = {}
    for name in stamps:
        before = _of_range(profile.features[name].minimum, profile.features[name].maximum)
        if name in now.types and before is not None and _unit(now, name) == before:
            found[name] = _delay(name, time, before, now.types)
    return found


def _unit(relation: Relation, name: str) -> int | None:
    if family(relation.types[name]) is not Family.INTEGER:
        return None
    number = as_number(name, relation.types[name])
    low, high = relation.connection.execute(f"SELECT min({number}), max({number}) FROM {relation.name}").fetchall()[0]
    return _of_range(low, high)


def _of_range(low: float | None, high: float | None) -> int | None:
    if low is None or high is None:
        return None
    return next((unit for least, most, unit in _UNITS if least <= low and high <= most), None)


def _delay(name: str, time: str, unit: int, types: Mapping[str, str]) -> str:
    return f"({as_number(name, types[name])} / {unit} - {as_number(time, types[time])}) / {_SECONDS}"


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
