"""Columns of numbers that are the event's own time of day: how many hours they are before or after it.

Their values alone hardly show an hour more, and nothing where events come around the clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tidegate_validation.skew.diagnosis.clock import DAY_HOURS, per_hour
from tidegate_validation.statistics.arrays import to_numpy
from tidegate_validation.statistics.profile import Profile
from tidegate_validation.statistics.relation import Relation
from tidegate_validation.statistics.sql import Family, as_number, family

if TYPE_CHECKING:
    import pyarrow as pa

_SECONDS = 3600.0
_ENDS = ("min", "max")
_WIDEST = 6.0


def clocks_of(relation: Relation, columns: Sequence[str], time: str) -> dict[str, str]:
    """Which of the `columns` are times of day by their range and go with that of the event's `time`; each with SQL for
    how many hours it is after it, from 12 before to 12 after."""
    numbers = {name: as_number(name, relation.types[name]) for name in columns if _is_number(relation.types[name])}
    ranges = ", ".join(
        f"{edge}(CASE WHEN isfinite({sql}) THEN {sql} END)" for sql in numbers.values() for edge in _ENDS
    )
    if not numbers:
        return {}
    found = relation.connection.execute(f"SELECT {ranges} FROM {relation.name}").fetchall()[0]
    ends = zip(numbers, found[::2], found[1::2], strict=True)
    units = {name: per_hour(low, high) for name, low, high in ends if low is not None}
    around = {name: _delay(name, time, unit, relation.types) for name, unit in units.items() if unit}
    if not around:
        return {}
    sample = relation.sample({**around, **{f"{name} alone": numbers[name] for name in around}})
    return {
        name: sql
        for name, sql in around.items()
        if _span(sample[name]) <= min(_WIDEST, _span(sample[f"{name} alone"]) / (units[name] or 1) / 2)
    }


def known_clocks(profile: Profile, stamps: Sequence[str], now: Relation, time: str) -> dict[str, str]:
    """Those of a profile that a table has, as numbers too, with SQL as in `clocks_of`; `stamps` have delays after the
    event in the profile."""
    units = {name: per_hour(profile.features[name].minimum, profile.features[name].maximum) for name in stamps}
    return {
        name: _delay(name, time, unit, now.types)
        for name, unit in units.items()
        if unit and name in now.types and _is_number(now.types[name])
    }


def _delay(name: str, time: str, unit: int, types: Mapping[str, str]) -> str:
    hours = f"({as_number(name, types[name])} / {unit} - {as_number(time, types[time])} / {_SECONDS} + {DAY_HOURS / 2})"
    within = f"{hours} - {DAY_HOURS} * floor({hours} / {DAY_HOURS}) - {DAY_HOURS / 2}"
    return f"CASE WHEN isfinite({hours}) THEN {within} END"


def _span(column: pa.ChunkedArray) -> float:
    values = to_numpy(column.cast("float64"))
    values = values[np.isfinite(values)]
    return float(np.ptp(np.quantile(values, (0.01, 0.99)))) if len(values) else np.inf


def _is_number(sql_type: str) -> bool:
    return family(sql_type) in (Family.INTEGER, Family.FLOAT)
