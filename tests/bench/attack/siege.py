"""One attack on one engine: what good clients feel before and meanwhile, and what becomes of the engine's memory.

`attacks` says what is done to the engine; the engine has core 0, clients and attackers share core 1.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tests.bench.attack.models import publish_models
from tests.bench.lifecycle.engines import folder, resident
from tests.bench.rows import Row
from tests.support.engine_process import EngineProcess

ENGINE_CORE, CLIENT_CORE = 0, 1
QUIET_SECONDS = 5.0
AFTER_SECONDS = 10.0
FLOOR_MS = 20.0
MODEL = "small"
METRIC = "tidegate_memory_budget_bytes"


@dataclass(frozen=True, slots=True)
class Felt:
    """What good clients met: p99 in milliseconds, requests that were refused and that were answered wrongly."""

    p99_ms: float
    answers: int
    refused: Sequence[str]
    wrong: Sequence[str]


class Memory:
    """Watches the resident size of a process and keeps the largest."""

    def __init__(self, pid: int) -> None:
        self._pid = pid
        self._stop = threading.Event()
        self.peak = resident(pid)
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(0.02):
            self.peak = max(self.peak, resident(self._pid))

    def stop(self) -> int:
        """The largest size in bytes."""
        self._stop.set()
        self._thread.join()
        return self.peak


@contextlib.contextmanager
def pinned(core: int) -> Iterator[None]:
    """What is started inside inherits the core."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)


@contextlib.contextmanager
def asking(engine: EngineProcess) -> Iterator[Callable[[], Felt]]:
    """Good clients at work; the function ends them and says what they met."""
    command = [sys.executable, "-m", "tests.bench.attack.good_clients"]
    with pinned(CLIENT_CORE):
        process = subprocess.Popen(
            [*command, engine.addresses["grpc"], engine.addresses["rest"], MODEL],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
    assert process.stdin is not None and process.stdout is not None
    assert process.stdout.readline() == "asking\n"

    def end() -> Felt:
        said, _ = process.communicate("\n", timeout=120)
        found = json.loads(said)
        latencies = [one for tally in found.values() for one in tally[0]]
        return Felt(
            p99_ms=float(np.percentile(latencies, 99)) * 1e3 if latencies else float("inf"),
            answers=len(latencies),
            refused=[one for tally in found.values() for one in tally[1]],
            wrong=[one for tally in found.values() for one in tally[2]],
        )

    try:
        yield end
    finally:
        process.kill()
        process.wait()


@contextlib.contextmanager
def engine_with_models(**values: object) -> Iterator[EngineProcess]:
    """An engine in its default configuration that serves the models of `models`."""
    with folder() as place:
        publish_models(place / "models")
        with pinned(ENGINE_CORE):
            engine = EngineProcess(
                place / "engine", repository=place / "models", allow_unverified=True, **values
            ).start()
        try:
            yield engine
        finally:
            engine.terminate()
            engine.wait(90)


def budget(engine: EngineProcess) -> float:
    """The engine's memory budget in bytes, as its metrics say; 0 where it has none."""
    with engine.control() as control:
        return control.status().counters.get(METRIC, 0.0)


def besiege(name: str, attack: Callable[[EngineProcess], None]) -> Sequence[Row]:
    """Quiet first, then under attack, then ten seconds later."""
    with engine_with_models() as engine:
        pid = int(engine.addresses["pid"])
        limit = budget(engine)
        with asking(engine) as end:
            time.sleep(QUIET_SECONDS)
            quiet = end()
        rest = resident(pid)
        memory = Memory(pid)
        with asking(engine) as end:
            attacked = threading.Thread(target=attack, args=(engine,))
            began = time.monotonic()
            with pinned(CLIENT_CORE):
                attacked.start()
            attacked.join()
            seconds = time.monotonic() - began
            time.sleep(max(0.0, 2.0 - seconds))
            felt = end()
        peak = memory.stop()
        time.sleep(AFTER_SECONDS)
        after = resident(pid)
    return _rows(name, quiet, felt, (rest, peak, after), limit)


def _rows(name: str, quiet: Felt, felt: Felt, sizes: tuple[int, int, int], limit: float) -> Sequence[Row]:
    rest, peak, after = sizes
    bad = len(felt.refused) + len(felt.wrong)
    for line in [*felt.refused, *felt.wrong][:3]:
        print(f"{name}: {line}")
    most = max(3 * quiet.p99_ms, FLOOR_MS)
    grown, left = (peak - rest) / 2**20, (after - rest) / rest * 100
    return [
        Row(f"{name}: good clients refused or wrong, of {felt.answers + bad}", bad, "requests", "0", bad == 0),
        Row(f"{name}: p99 of good clients (quiet {quiet.p99_ms:.1f} ms)", felt.p99_ms, "ms", f"at most {most:.0f}", felt.p99_ms <= most),
        Row(
            f"{name}: memory beyond rest ({rest / 2**20:.0f} MB; budget {limit / 2**20:.0f} MB)",
            grown,
            "MB",
            "at most the budget + 15 %",
            0 < limit and grown * 2**20 <= limit * 1.15,
        ),
        Row(f"{name}: memory ten seconds later, beyond rest", left, "%", "at most 10", left <= 10),
    ]
