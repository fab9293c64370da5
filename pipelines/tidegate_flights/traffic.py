"""The demo's side of the traffic client: what one run of it shall send, its process, and what it found.

A `ReplayPlan` travels to the process as a JSON file; the process (`replay`) leaves its result as another.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_flights.engine import Addresses
from tidegate_flights.features import SERVABLE
from tidegate_flights.folders import JUNE, Folders
from tidegate_serving.contract.errors import DeadlinePassed, Unavailable
from tidegate_serving.contract.formats import check_format

PLAN_VERSION = "1"
_END_SECONDS = 60.0
_DAY_SECONDS = 120.0


@dataclass(frozen=True)
class ReplayPlan:
    """`rows` is a Parquet file in the order of the events, `expected` an .npz with one array per version beside it.

    `rows_per_second` paces all connections together; `loop` starts over at the end; `corrupt` breaks that many
    expected values, from the first row on, so that the comparison can be seen to bite. The result goes to `result`
    as JSON and the latencies in microseconds beside it as .npy.
    """

    model: str
    grpc: str
    rest: str
    rows: str
    expected: str
    result: str
    request_prefix: str
    rows_per_second: float = 450.0
    connections: int = 4
    loop: bool = True
    corrupt: int = 0

    def write(self, path: Path) -> Path:
        """Writes the plan and returns its path."""
        path.write_text(json.dumps({"format": f"tidegate.replay-plan/{PLAN_VERSION}", **asdict(self)}, indent=1) + "\n")
        return path

    @classmethod
    def read(cls, path: Path) -> ReplayPlan:
        """The plan in a file; Unsupported when it is none."""
        document = json.loads(path.read_text())
        check_format(document, kind="replay-plan", version=PLAN_VERSION, where=str(path))
        document.pop("format")
        return cls(**document)


@dataclass(frozen=True)
class ReplayResult:
    """Counts of requests and problems, and the latency in microseconds of every answer."""

    grpc: int
    rest: int
    rows: int
    failed: int
    wrong: int
    by_version: Mapping[str, int]
    problems: tuple[str, ...]
    latencies: np.ndarray[Any, Any]

    @classmethod
    def read(cls, path: Path) -> ReplayResult:
        """What `replay` wrote."""
        document = json.loads(path.read_text())
        return cls(
            grpc=document["requests"]["grpc"],
            rest=document["requests"]["rest"],
            rows=document["rows"],
            failed=document["failed"],
            wrong=document["wrong"],
            by_version=document["by_version"],
            problems=tuple(document["problems"]),
            latencies=np.load(path.with_suffix(".npy")),
        )


class Traffic:
    """One run of the traffic client."""

    def __init__(self, plan: ReplayPlan, folder: Path) -> None:
        self._plan, self._folder = plan, folder
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Starts the process; it sends at once."""
        self._folder.mkdir(parents=True, exist_ok=True)
        plan = self._plan.write(self._folder / f"{self._plan.request_prefix}.plan.json")
        with self._output.open("wb") as output:
            self._process = subprocess.Popen(
                [sys.executable, "-m", "tidegate_flights.replay", str(plan)],
                stdout=output,
                stderr=subprocess.STDOUT,
            )

    def finish(self) -> ReplayResult:
        """Waits until all rows are sent; only for plans that do not loop."""
        return self._result(_DAY_SECONDS)

    def stop(self) -> ReplayResult:
        """Ends the replay after the requests that are under way."""
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(signal.SIGTERM)
        return self._result(_END_SECONDS)

    def one_round(self, rows: int) -> timedelta:
        """How long it takes at least until a plan of so many rows starts over."""
        return timedelta(seconds=rows / self._plan.rows_per_second)

    def kill(self) -> None:
        """Ends the process without a result, where the demo itself failed."""
        if self._process is not None and self._process.poll() is None:
            self._process.kill()
            self._process.wait()

    @property
    def _output(self) -> Path:
        return self._folder / f"{self._plan.request_prefix}.txt"

    def _result(self, seconds: float) -> ReplayResult:
        if self._process is None:
            raise Unavailable(f"the traffic client {self._plan.request_prefix} was never started")
        try:
            status = self._process.wait(seconds)
        except subprocess.TimeoutExpired as error:
            self.kill()
            raise DeadlinePassed(
                f"the traffic client did not end within {seconds:.0f} s: see {self._output}"
            ) from error
        if status != 0:
            words = self._output.read_text(errors="replace")[-2000:]
            raise Unavailable(f"the traffic client ended with status {status}: {words}")
        return ReplayResult.read(Path(self._plan.result))


@dataclass(frozen=True)
class TrafficMaker:
    """Makes runs of the traffic client against one engine."""

    folders: Folders
    addresses: Addresses

    def june(self, corrupt: int) -> Traffic:
        """June over and over, until it is stopped."""
        return self._make(JUNE, loop=True, corrupt=corrupt)

    def day(self, name: str) -> ReplayResult:
        """The rows of that name, once."""
        traffic = self._make(name, loop=False, corrupt=0)
        traffic.start()
        return traffic.finish()

    def _make(self, name: str, *, loop: bool, corrupt: int) -> Traffic:
        folder = self.folders.traffic
        plan = ReplayPlan(
            model=SERVABLE,
            grpc=self.addresses.grpc,
            rest=self.addresses.rest,
            rows=str(self.folders.rows(name)),
            expected=str(self.folders.expected(name)),
            result=str(folder / f"{name}.json"),
            request_prefix=name,
            loop=loop,
            corrupt=corrupt,
        )
        return Traffic(plan, folder)
