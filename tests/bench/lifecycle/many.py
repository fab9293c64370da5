"""Ten thousand loaded tables, one of them changing each second: start-up, memory, what a change costs, and what finding
one costs, beside an engine with ten.

`TIDEGATE_BENCH_SERVABLES` sets how many, 10,000 without it.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tests.bench.lifecycle.engines import cpu_seconds, folder, resident, running, table_version, threads
from tests.bench.rows import Row
from tests.support.control import push_and_wait
from tests.support.engine_process import EngineProcess

MANY = int(os.environ.get("TIDEGATE_BENCH_SERVABLES", "10000"))
FEW = 10
CHANGES = int(os.environ.get("TIDEGATE_BENCH_CHANGES", "20"))
LOOKUPS = 4000
PUSHERS = 4


@dataclass(frozen=True, slots=True)
class Costs:
    """What was seen of one engine: seconds, bytes, threads, and per change and per request seconds."""

    start_seconds: float
    resident_bytes: int
    threads: int
    cpu_per_change: float
    busy_cpu: float
    request_seconds: float


def measure() -> Sequence[Row]:
    """Few, then many."""
    few, many = _costs(FEW), _costs(MANY)
    change = many.cpu_per_change / few.cpu_per_change
    lookup = many.request_seconds / few.request_seconds
    with_many = f"{MANY:,} servables"
    return [
        Row(f"start-up with {with_many}, from exec to ready", many.start_seconds, "s", "-", None),
        Row(f"resident memory with {with_many}", many.resident_bytes / 2**20, "MiB", "-", None),
        Row(f"threads with {with_many}", float(many.threads), "threads", "-", None),
        Row(f"processor time per second with {with_many}, one changing", many.busy_cpu * 1e3, "ms", "-", None),
        Row(f"processor time per change with {with_many}", many.cpu_per_change * 1e3, "ms", "-", None),
        Row(f"processor time per change, {with_many} beside {FEW}", change, "times", "at most 2", change <= 2),
        Row(f"time of a request, {with_many} beside {FEW}", lookup, "times", "at most 1.2", lookup <= 1.2),
    ]


def _costs(servables: int) -> Costs:
    names = [f"table{number:05d}" for number in range(servables)]
    with folder() as place:
        for name in names:
            table_version(place, name, 1)
        config = {"state_directory": place / "state", "start_seconds": 600, "drain_seconds": 120}
        with running(place, **config) as engine:
            _push_all(engine, place, names)
        (place / "engine" / "ready.json").unlink(missing_ok=True)
        began = time.monotonic()
        with running(place, **config) as engine:
            started = time.monotonic() - began
            pid = int(engine.addresses["pid"])
            memory, count = resident(pid), threads(pid)
            request = _asked(engine, names)
            cost, busy = _changed(engine, place, names, pid)
    return Costs(started, memory, count, cost, busy, request)


def _push_all(engine: EngineProcess, place: Path, names: Sequence[str]) -> None:
    def push_some(share: Sequence[str]) -> None:
        with engine.control() as control:
            for name in share:
                push_and_wait(control, place / "models" / name / "1")

    with ThreadPoolExecutor(PUSHERS) as pool:
        list(pool.map(push_some, [names[number::PUSHERS] for number in range(PUSHERS)]))


def _asked(engine: EngineProcess, names: Sequence[str]) -> float:
    """Median seconds of a request, one after the other, spread over all servables."""
    inputs = {"key": np.array([7], dtype=np.int64)}
    order = np.random.default_rng(7).integers(len(names), size=LOOKUPS)
    latencies = []
    with engine.client() as client:
        for number in order:
            began = time.perf_counter()
            answer = client.predict(names[number], inputs)
            latencies.append(time.perf_counter() - began)
            if int(answer.outputs["value"][0]) != answer.version:
                raise RuntimeError(f"{names[number]} answers {answer.outputs} as version {answer.version}")
    return float(np.median(latencies))


def _changed(engine: EngineProcess, place: Path, names: Sequence[str], pid: int) -> tuple[float, float]:
    """Processor seconds per change beyond those of an idle second, and per second with one change in it."""
    pause = threading.Event()
    before = cpu_seconds(pid)
    pause.wait(5.0)
    idle = (cpu_seconds(pid) - before) / 5.0
    paths = [table_version(place, name, 2) for name in names[:CHANGES]]
    with engine.control() as control:
        before, began = cpu_seconds(pid), time.monotonic()
        for number in range(CHANGES):
            push_and_wait(control, paths[number % len(paths)])
            pause.wait(max(0.0, began + number + 1 - time.monotonic()))
        seconds = time.monotonic() - began
        used = cpu_seconds(pid) - before
    return max(used - idle * seconds, 1e-4) / CHANGES, used / seconds
