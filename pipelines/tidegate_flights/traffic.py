"""Starts and ends the traffic client's process for the demo, and reads what it found.

In go the engine's addresses and the rows to send; out comes one `ReplayResult` per run.
"""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_flights.replay_plan import ReplayPlan
from tidegate_serving.contract.errors import DeadlinePassed, Unavailable

_END_SECONDS = 60.0
_DAY_SECONDS = 120.0


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
