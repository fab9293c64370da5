"""Columns of numbers that are the event's own time of day: how many hours they are before or after it.

Their values alone hardly show an hour more, and nothing where events come around the clock.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tidegate_validation.skew.diagnosis.clock import DAY_HOURS, per_hour
from tidegate_validation.skew.stamps import delay_name
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.profile import Profile
from tidegate_validation.tables import seconds_of

if TYPE_CHECKING:
    import pyarrow as pa

_SECONDS = 3600.0
_WIDEST = 6.0


def clocks_of(table: pa.Table, columns: Sequence[str], time: str) -> dict[str, int]:
    """Which of the `columns` are times of day by their range and go with that of the event's `time`; each with how many
    of its units an hour has."""
    found = {}
    for name in columns:
        values = seconds_of(table[name]) if _is_number(table, name) else np.empty(0)
        values = values[np.isfinite(values)]
        unit = per_hour(float(values.min()), float(values.max())) if len(values) else None
        if unit is not None and _span(_delay(table, name, time, unit)) <= min(_WIDEST, _span(values / unit) / 2):
            found[name] = unit
    return found


def known_clocks(profile: Profile, stamps: Sequence[str], table: pa.Table) -> dict[str, int]:
    """Those of a profile that a table has, as numbers too; `stamps` have delays after the event in the profile."""
    units = {name: per_hour(profile.features[name].minimum, profile.features[name].maximum) for name in stamps}
    return {
        name: unit for name, unit in units.items() if unit and name in table.column_names and _is_number(table, name)
    }


def with_clock_delays(table: pa.Table, clocks: Mapping[str, int], time: str) -> pa.Table:
    """With a column for each of the `clocks`: hours after the event's `time`, from 12 before to 12 after."""
    import pyarrow as pa

    for name, unit in clocks.items():
        hours = _delay(table, name, time, unit)
        table = table.append_column(delay_name(name, time), pa.array(hours, from_pandas=True))
    return table


def _delay(table: pa.Table, name: str, time: str, unit: int) -> Floats:
    hours = seconds_of(table[name]) / unit - seconds_of(table[time]) / _SECONDS
    hours = np.where(np.isfinite(hours), hours, np.nan)
    return np.asarray((hours + DAY_HOURS / 2) % DAY_HOURS - DAY_HOURS / 2)


def _span(hours: Floats) -> float:
    return float(np.ptp(np.nanquantile(hours, (0.01, 0.99))))


def _is_number(table: pa.Table, name: str) -> bool:
    import pyarrow as pa

    kind = table.schema.field(name).type
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind))
