"""Holds the engine's own counts of logged rows against what DuckDB finds in the log's files.

The demo waits here until everything is written, then the summary compares the numbers.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from tidegate_serving.contract.errors import DeadlinePassed
from tidegate_serving.contract.log_record import ROLE, Role
from tidegate_serving.control_client import ControlClient

_WAIT_SECONDS = 60.0
_POLL_SECONDS = 0.2


@dataclass(frozen=True)
class LogCounters:
    """What the engine counted since it started, in rows whose answers went to clients."""

    eligible: int
    written: int
    dropped: int

    @property
    def settled(self) -> bool:
        """Whether every row is either on disk or counted as dropped."""
        return self.written + self.dropped == self.eligible

    @classmethod
    def read(cls, control: str) -> LogCounters:
        """From the engine's status."""
        with ControlClient(control) as client:
            counters = client.status().counters
        return cls(*(_sum(counters, f"tidegate_log_{kind}_rows_total") for kind in ("eligible", "written", "dropped")))


def wait_until_settled(control: str) -> LogCounters:
    """The counters once the log has caught up with the traffic. DeadlinePassed where it does not."""
    return _wait(control, lambda found: found.settled)


def wait_for_rows(control: str, rows: int) -> LogCounters:
    """The counters once so many rows are in the log. DeadlinePassed where no traffic comes."""
    return _wait(control, lambda found: found.written >= rows)


def _wait(control: str, enough: Callable[[LogCounters], bool]) -> LogCounters:
    deadline = time.monotonic() + _WAIT_SECONDS
    while not enough(found := LogCounters.read(control)):
        if time.monotonic() > deadline:
            raise DeadlinePassed(f"the inference log stands at {found} after {_WAIT_SECONDS:.0f} s: look at its engine")
        time.sleep(_POLL_SECONDS)
    return found


def count_primary_rows(log_root: Path) -> int:
    """Rows in the log's files that answer a client."""
    from tidegate_serving.inference_log.reader import connect

    with connect(log_root) as connection:
        found = connection.execute(f"SELECT count(*) FROM log WHERE {ROLE} = ?", [Role.PRIMARY.value]).fetchone()
    return int(found[0])


def _sum(counters: Mapping[str, float], name: str) -> int:
    """Over all samples of a counter whose labels do not say that they are about shadowed answers."""
    shadow = f'role="{Role.SHADOW.value}"'
    return int(
        sum(value for sample, value in counters.items() if sample.split("{")[0] == name and shadow not in sample)
    )
