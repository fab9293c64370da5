"""The traffic client, a process of its own: replays rows over gRPC and REST by turns and compares every answer.

Started by the demo with the path of a `ReplayPlan`; runs until its rows are sent or SIGTERM comes.
"""

from __future__ import annotations

import itertools
import json
import signal
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_flights.endpoints import Columns, Endpoint, GrpcEndpoint, RestEndpoint
from tidegate_flights.features import CATEGORIES, EVENT_TIME, NUMBERS
from tidegate_flights.tally import Expected, Tally
from tidegate_flights.traffic import ReplayPlan

MOST_ROWS = 8
_BROKEN_BY = 0.01


class Schedule:
    """Deals out the rows: each call gives the next request, and when to send it, to whichever connection asks.

    Once `stop` is set it ends, but not before each row had its turn; what is left of the first round is due at once.
    """

    def __init__(self, rows: int, plan: ReplayPlan, stop: threading.Event) -> None:
        self._requests = _requests(rows, plan.loop)
        self._rows, self._stop = rows, stop
        self._rows_per_second = plan.rows_per_second
        self._lock = threading.Lock()
        self._sent_rows = 0
        self._started = time.monotonic()

    def next(self) -> tuple[int, slice, float] | None:
        """Number of the request, its rows, and the seconds to wait; None at the end."""
        with self._lock:
            told = self._stop.is_set()
            found = None if told and self._sent_rows >= self._rows else next(self._requests, None)
            if found is None:
                return None
            due = self._started + self._sent_rows / self._rows_per_second
            self._sent_rows += found[1].stop - found[1].start
        return (*found, 0.0 if told else due - time.monotonic())


class Replay:
    """Sends the plan's rows over its connections, round after round where it shall loop, until `stop` is set."""

    def __init__(self, plan: ReplayPlan, columns: Columns, tally: Tally, stop: threading.Event) -> None:
        self._plan, self._columns, self._tally, self._stop = plan, columns, tally, stop
        self._schedule = Schedule(len(next(iter(columns.values()))), plan, stop)

    def run(self) -> None:
        """Returns when every connection has its last answer."""
        threads = [threading.Thread(target=self._connection, args=(n,)) for n in range(self._plan.connections)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    def _connection(self, first: int) -> None:
        endpoints: dict[str, Endpoint] = {
            "grpc": GrpcEndpoint(self._plan.grpc, self._plan.model),
            "rest": RestEndpoint(self._plan.rest, self._plan.model),
        }
        turns = itertools.islice(itertools.cycle(endpoints), first, None)
        try:
            while (turn := self._schedule.next()) is not None:
                number, rows, pause = turn
                self._stop.wait(max(pause, 0.0))
                endpoint = next(turns)
                self._ask(endpoint, endpoints[endpoint], rows, f"{self._plan.request_prefix}-{number}")
        finally:
            for open_endpoint in endpoints.values():
                open_endpoint.close()

    def _ask(self, name: str, endpoint: Endpoint, rows: slice, request_id: str) -> None:
        part = {column: values[rows] for column, values in self._columns.items()}
        begun = time.monotonic_ns()
        try:
            answer = endpoint.predict(part, request_id)
        except Exception as error:  # whatever went wrong, this request failed and the replay goes on
            self._tally.failed(name, error)
            return
        self._tally.answered(name, rows, answer, (time.monotonic_ns() - begun) // 1000)


def main() -> int:
    """Command line: `python -m tidegate_flights.replay PLAN.json`; exit status 0 once it has its result."""
    plan = ReplayPlan.read(Path(sys.argv[1]))
    stop = threading.Event()
    signal.signal(signal.SIGTERM, lambda *_: stop.set())
    tally = Tally(read_expected(Path(plan.expected), plan.corrupt))
    Replay(plan, read_columns(Path(plan.rows)), tally, stop).run()
    result = Path(plan.result)
    np.save(result.with_suffix(".npy"), tally.latencies)
    result.write_text(json.dumps({"format": "tidegate.replay/1", **tally.to_dict()}, indent=1) + "\n")
    return 0


def read_columns(path: Path) -> dict[str, np.ndarray[Any, Any]]:
    """The inputs of every version, by name: float32, int64, and strings as objects."""
    import pyarrow.parquet as pq

    table = pq.read_table(path, columns=[*NUMBERS, *CATEGORIES, EVENT_TIME])
    return {name: table[name].to_numpy() for name in table.column_names}


def read_expected(path: Path, corrupt: int) -> Expected:
    """Probabilities by version; the first `corrupt` of each are made wrong."""
    with np.load(path) as file:
        expected = {int(version): file[version] for version in file.files}
    for values in expected.values():
        values[:corrupt] += _BROKEN_BY
    return expected


def _requests(rows: int, loop: bool) -> Iterator[tuple[int, slice]]:
    sizes = np.random.default_rng(0)
    number = 0
    while True:
        start = 0
        while start < rows:
            stop = min(start + int(sizes.integers(1, MOST_ROWS, endpoint=True)), rows)
            yield number, slice(start, stop)
            number, start = number + 1, stop
        if not loop:
            return


if __name__ == "__main__":
    sys.exit(main())
