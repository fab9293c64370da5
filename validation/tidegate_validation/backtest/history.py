"""The past that is judged: rows that were served with their days, and the versions that served one after another."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.counts import counted
from tidegate_validation.statistics.arrays import Integers
from tidegate_validation.statistics.blocks import SECONDS
from tidegate_validation.statistics.event_times import unix_seconds


@dataclass(frozen=True, slots=True)
class PastRelease:
    """A version's directory, what it is called, and the day (UTC, days since 1970) from which on it served."""

    directory: Path
    name: str
    day: int


@dataclass(frozen=True, slots=True)
class History:
    """Rows in the order of their days: `table` (a pyarrow.Table), `days` shape [n]; the columns of time and label.

    `label` is None where no labels are known; a row without one has null there. `prediction` is the column of what was
    answered, None to ask the versions again.
    """

    table: Any
    days: Integers
    time: str
    label: str | None
    prediction: str | None = None

    @classmethod
    def of(cls, table: Any, time: str, label: str | None = None, prediction: str | None = None) -> History:
        """Sorted by day. InvalidInput for a column that is not there, and for rows without a time."""
        for name in filter(None, (time, label, prediction)):
            if name not in table.column_names:
                raise InvalidInput(
                    f"the logged rows have no column {name!r}: they have {', '.join(table.column_names)}"
                )
        if table.num_rows == 0:
            raise InvalidInput("nothing was logged: give rows of some weeks")
        days = days_of(table, time)
        order = np.argsort(days, kind="stable")
        return cls(table.take(order), days[order], time, label, prediction)

    def between(self, first: int, until: int) -> Any:
        """The rows from a day up to but without another."""
        start, end = np.searchsorted(self.days, [first, until])
        return self.table.slice(int(start), int(end - start))

    def labelled(self, first: int, until: int) -> Any:
        """Those of them that have a label; none where there are no labels."""
        rows = self.between(first, until)
        if self.label is None:
            return rows.slice(0, 0)
        known = rows[self.label].is_valid()
        return rows.filter(known)

    @property
    def first(self) -> int:
        """The first day."""
        return int(self.days[0])

    @property
    def end(self) -> int:
        """The day after the last."""
        return int(self.days[-1]) + 1


Period = tuple[PastRelease, int]
"""A release and the day on which another took its place, or the end of the log."""


def periods(releases: Sequence[PastRelease], end: int) -> list[Period]:
    """Of releases in their order."""
    ends = [min(one.day, end) for one in releases[1:]] + [end]
    return list(zip(releases, ends, strict=True))


def day_text(day: int) -> str:
    """A day as YYYY-MM-DD."""
    return f"{datetime.fromtimestamp(day * SECONDS, UTC):%Y-%m-%d}"


def day_number(day: date) -> int:
    """Days since 1970."""
    return (day - date(1970, 1, 1)).days


def days_of(table: Any, time: str) -> Integers:
    """The day (UTC) of each row by a column of times, written in any way that `with_times` reads. InvalidInput for
    any other, and for rows without a time."""
    seconds = unix_seconds(table, time, "logged rows")
    untold = int(np.isnan(seconds).sum())
    if untold:
        raise InvalidInput(f"{counted(untold, 'row has', 'rows have')} no {time} that can be read: leave such rows out")
    return np.asarray(seconds // SECONDS, dtype=np.int64)
