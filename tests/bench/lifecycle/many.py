"""Ten thousand loaded tables, one of them changing each second: start-up, memory, what a change costs, and what finding
one costs, beside an engine with ten.

`TIDEGATE_BENCH_SERVABLES` sets how many, 10,000 without it.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from tests.bench.lifecycle.engines import cpu_seconds, folder, resident, running, table_version, threads
from tests.bench.rows import Row
from tests.support.engine.control import push, push_and_wait
from tests.support.engine.process import EngineProcess

from tidegate_serving.contract.servable import State

MANY = int(os.environ.get("TIDEGATE_BENCH_SERVABLES", "10000"))
FEW = 10
CHANGES = int(os.environ.get("TIDEGATE_BENCH_CHANGES", "20"))
STREAK = max(128, MANY // 12)  # changes without a pause, so many that what is done once in a while is among them
FIRST_ASKED = min(200, MANY)
LOOKUPS = 4000
STRETCHES = 10
IDLE_SECONDS = 5.0
PUSHERS = 4


@dataclass(frozen=True, slots=True)
class Costs:
    """What was seen of one engine: seconds, bytes, threads, and processor seconds per change and per busy second."""

    start_seconds: float
    resident_bytes: int
    threads: int
    cpu_per_change: float
    busy_cpu: float


@dataclass(frozen=True, slots=True)
class Subject:
    """A running engine and its servables, with how long it took to start."""

    engine: EngineProcess
    place: Path
    names: Sequence[str]
    start_seconds: float


def measure() -> Sequence[Row]:
    """Few beside many."""
    with folder() as small, folder() as large, _subject(small, FEW) as few, _subject(large, MANY) as many:
        few_lookup, many_lookup = _lookups(few, many)
        few_costs, many_costs = _costs(few), _costs(many)
        first, again = _first_requests(many)
    change = many_costs.cpu_per_change / few_costs.cpu_per_change
    lookup = many_lookup / few_lookup
    of = f"{MANY:,} servables"
    return [
        Row(f"start-up with {of}, from exec to ready", many_costs.start_seconds, "s", "-", None),
        Row(f"resident memory with {of}", many_costs.resident_bytes / 2**20, "MiB", "-", None),
        Row(
            f"threads with {of}, unasked",
            float(many_costs.threads),
            "threads",
            "at most 100",
            many_costs.threads <= 100,
        ),
        Row("a servable's first request, which starts its thread", first * 1e6, "us", "-", None),
        Row("its next requests", again * 1e6, "us", "-", None),
        Row(f"processor time per second with {of}, one changing", many_costs.busy_cpu * 1e3, "ms", "-", None),
        Row(f"processor time per change with {of}", many_costs.cpu_per_change * 1e3, "ms", "-", None),
        Row(f"processor time per change, {of} beside {FEW}", change, "times", "at most 2", change <= 2),
        Row(f"time of a request that is a lookup, {of} beside {FEW}", lookup, "times", "at most 1.2", lookup <= 1.2),
    ]


@contextlib.contextmanager
def _subject(place: Path, servables: int) -> Iterator[Subject]:
    """An engine that was told its servables in an earlier life, so that its start is that of a restart."""
    names = [f"table{number:05d}" for number in range(servables)]
    for name in names:
        table_version(place, name, 1)
    config = {"state_directory": place / "state", "start_seconds": 600, "drain_seconds": 120}
    with running(place, **config) as engine:
        _push_all(engine, place, names)
    (place / "engine" / "ready.json").unlink(missing_ok=True)
    began = time.monotonic()
    with running(place, **config) as engine:
        yield Subject(engine, place, names, time.monotonic() - began)


def _push_all(engine: EngineProcess, place: Path, names: Sequence[str]) -> None:
    def push_some(share: Sequence[str]) -> None:
        with engine.control() as control:
            for name in share:
                push(control, place / "models" / name / "1")
            for name in share:
                control.wait_until(name, 1, State.AVAILABLE, 600)

    with ThreadPoolExecutor(PUSHERS) as pool:
        list(pool.map(push_some, [names[number::PUSHERS] for number in range(PUSHERS)]))


def _lookups(few: Subject, many: Subject) -> tuple[float, float]:
    """Median seconds of a request for a servable's signatures, which the data plane answers from the map without any
    model, spread over all servables; stretches of both engines take turns."""
    latencies: dict[int, list[float]] = {0: [], 1: []}
    draw = np.random.default_rng(7)
    with few.engine.client() as one, many.engine.client() as other:
        for _ in range(STRETCHES):
            for number, (client, subject) in enumerate(((one, few), (other, many))):
                for chosen in draw.integers(len(subject.names), size=LOOKUPS // STRETCHES):
                    began = time.perf_counter()
                    client.signatures(subject.names[chosen])
                    latencies[number].append(time.perf_counter() - began)
    return float(np.median(latencies[0])), float(np.median(latencies[1]))


def _costs(subject: Subject) -> Costs:
    """Processor seconds per change beyond those of an idle second, and per second with one change in it: changes one
    second apart, and then a streak of them."""
    pid = int(subject.engine.addresses["pid"])
    memory, count = resident(pid), threads(pid)
    pause = threading.Event()
    before = cpu_seconds(pid)
    pause.wait(IDLE_SECONDS)
    idle = (cpu_seconds(pid) - before) / IDLE_SECONDS
    names = subject.names
    paths = [
        table_version(subject.place, names[number % len(names)], 2 + number // len(names))
        for number in range(CHANGES + STREAK)
    ]
    with subject.engine.control() as control:
        before, began = cpu_seconds(pid), time.monotonic()
        for number, path in enumerate(paths[:CHANGES]):
            push_and_wait(control, path)
            pause.wait(max(0.0, began + number + 1 - time.monotonic()))
        busy = (cpu_seconds(pid) - before) / (time.monotonic() - began)
        for path in paths[CHANGES:]:
            push_and_wait(control, path)
        seconds = time.monotonic() - began
        used = cpu_seconds(pid) - before
    per_change = max(used - idle * seconds, 1e-4) / len(paths)
    return Costs(subject.start_seconds, memory, count, per_change, busy)


def _first_requests(subject: Subject) -> tuple[float, float]:
    """Median seconds of a servable's first request and of its second."""
    latencies: tuple[list[float], list[float]] = [], []
    with subject.engine.client() as client:
        for name in subject.names[-FIRST_ASKED:]:
            for taken in latencies:
                began = time.perf_counter()
                client.predict(name, {"key": np.array([7])})
                taken.append(time.perf_counter() - began)
    return float(np.median(latencies[0])), float(np.median(latencies[1]))
