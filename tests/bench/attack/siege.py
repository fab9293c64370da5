"""One attack on one engine: what good clients feel before and meanwhile, and what becomes of the engine's memory.

Good clients, attackers and the engine are processes of their own, see `places`.
"""

from __future__ import annotations

import contextlib
import json
import statistics
import subprocess
import sys
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, Self
from urllib.request import urlopen

import numpy as np
from tests.bench.attack.attacks import Attack
from tests.bench.attack.control_groups import ControlGroup
from tests.bench.attack.models import model_names, publish_models
from tests.bench.attack.places import ENGINE_CORE, attacker, core_wait, good_client, on_core
from tests.bench.lifecycle.engines import folder, resident
from tests.bench.rows import Row
from tests.bench.servers import ROOT
from tests.support.engine.process import EngineProcess

QUIET_SECONDS = 3.0
AFTER_SECONDS = 10.0
LEAST_SECONDS = 3.0
FLOOR_MS = 20.0
TIMES_OTHERS = 20
MODEL = "small"
BUDGET = "tidegate_request_memory_limit_bytes"
MOST_GROWTH = 6 << 30  # an engine that grows by more is ended, as is one that leaves the machine less than this:
LEAST_LEFT = 3 << 30


class Server(Protocol):
    """Who is attacked: where its endpoints are (`grpc`, `rest`), and its process."""

    @property
    def addresses(self) -> Mapping[str, Any]: ...

    @property
    def process(self) -> subprocess.Popen[bytes] | None: ...


@dataclass(frozen=True, slots=True)
class Router:
    """A fleet's router in front of an engine."""

    addresses: Mapping[str, Any]
    process: subprocess.Popen[bytes] | None


@dataclass(frozen=True, slots=True)
class Felt:
    """What good clients met: latencies in milliseconds, how many were refused or wrongly answered, and the words."""

    latencies: Sequence[float]
    refused: int
    wrong: int
    said: Sequence[str]

    @property
    def p99(self) -> float:
        return float(np.percentile(self.latencies, 99)) if self.latencies else float("inf")

    @property
    def median(self) -> float:
        return statistics.median(self.latencies) if self.latencies else float("inf")


class Memory:
    """Watches the resident size of a process, keeps the largest, and ends the process before it takes the machine."""

    def __init__(self, process: subprocess.Popen[bytes]) -> None:
        self._process = process
        self._stop = threading.Event()
        self.first = self.peak = resident(process.pid)
        self.ended = False
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._thread.start()

    def _watch(self) -> None:
        while not self._stop.wait(0.02) and self._process.poll() is None:
            with contextlib.suppress(OSError, IndexError):
                self.peak = max(self.peak, resident(self._process.pid))
            if self.peak - self.first > MOST_GROWTH or _available() < LEAST_LEFT:
                self.ended = True
                self._process.kill()

    def stop(self) -> None:
        self._stop.set()
        self._thread.join()


def _available() -> int:
    line = next(line for line in Path("/proc/meminfo").read_text().splitlines() if line.startswith("MemAvailable"))
    return int(line.split()[1]) * 1024


class GoodClients:
    """Good clients of some kinds at work; a context manager."""

    def __init__(self, server: Server, kinds: Sequence[str] = ("grpc", "rest", "health")) -> None:
        places = {kind: server.addresses["grpc" if kind == "grpc" else "rest"] for kind in kinds}
        self._processes = [good_client("good_clients", kind, address, MODEL) for kind, address in places.items()]
        for process in self._processes:
            assert process.stdout is not None
            assert process.stdout.readline() == "asking\n"

    def end(self) -> Felt:
        """Ends them; what they met."""
        found = [json.loads(process.communicate("\n", timeout=180)[0]) for process in self._processes]
        return Felt(
            latencies=[1e3 * one for tally in found for one in tally["latencies"]],
            refused=sum(tally["refused"] for tally in found),
            wrong=sum(tally["wrong"] for tally in found),
            said=[one for tally in found for one in tally["said"]],
        )

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for process in self._processes:
            process.kill()
            process.wait()


@contextlib.contextmanager
def engine_with_models(tables: int = 0, **values: object) -> Iterator[EngineProcess]:
    """An engine in its default configuration that serves the models of `models`; killed at the end, as it may hang."""
    with folder() as place, ControlGroup.of_processors(TIMES_OTHERS) as group:
        publish_models(place / "models", tables)
        with on_core(ENGINE_CORE), group.starting():
            engine = EngineProcess(place / "engine", repository=place / "models", allow_unverified=True, **values)
            engine.start()
        assert engine.process is not None
        Path(f"/proc/{engine.process.pid}/oom_score_adj").write_text("1000")
        try:
            yield engine
        finally:
            engine.process.kill()
            engine.process.wait()


@contextlib.contextmanager
def router(engine: EngineProcess, tables: int = 0) -> Iterator[Router]:
    """A router that forwards the models of `models` to this engine, on its core; killed at the end."""
    addresses = engine.addresses["grpc"], engine.addresses["rest"]
    command = [sys.executable, "-m", "tests.bench.router.process", ",".join(model_names(tables)), *addresses]
    with ControlGroup.of_processors(TIMES_OTHERS, "router") as group:
        with on_core(ENGINE_CORE), group.starting():
            process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        Path(f"/proc/{process.pid}/oom_score_adj").write_text("1000")
        with process:
            assert process.stdout is not None
            try:
                yield Router(json.loads(process.stdout.readline()), process)
            finally:
                process.kill()


def budget(server: Server) -> float:
    """The server's memory budget in bytes, as its metrics say; 0 where it has none."""
    with urlopen(f"http://{server.addresses['rest']}/metrics", timeout=30) as page:
        lines = page.read().decode().splitlines()
    return next((float(line.split()[1]) for line in lines if line.startswith(BUDGET)), 0.0)


def quiet(server: Server) -> Felt:
    """What good clients feel when nobody attacks, the best of three times; says how noisy the machine is."""
    assert server.process is not None
    waited, began, felt = core_wait(server.process.pid), time.monotonic(), []
    for _ in range(3):
        with GoodClients(server) as clients:
            time.sleep(QUIET_SECONDS)
            felt.append(clients.end())
    share = (core_wait(server.process.pid) - waited) / (time.monotonic() - began)
    times = ", ".join(f"{one.p99:.1f}" for one in felt)
    print(f"quiet p99 {times} ms; it waited for its core {share:.1%} of the time", flush=True)
    return min(felt, key=lambda one: one.p99)


def besiege(name: str, attack: Attack, *, routed: bool) -> Sequence[Row]:
    """Quiet first, then under attack, then ten seconds later; where it is routed, a router before an engine."""
    with contextlib.ExitStack() as stack:
        engine = stack.enter_context(engine_with_models(attack.tables, **attack.config))
        server: Server = stack.enter_context(router(engine, attack.tables)) if routed else engine
        assert server.process is not None
        before, limit = quiet(server), budget(server)
        memory = Memory(server.process)
        with GoodClients(server) as clients:
            began = time.monotonic()
            found = _attack(name, server, attack.seconds)
            seconds = time.monotonic() - began
            time.sleep(max(0.0, LEAST_SECONDS - seconds))
            felt = clients.end()
        memory.stop()
        time.sleep(0 if memory.ended else AFTER_SECONDS)
        after = memory.peak if memory.ended else resident(server.process.pid)
    return [
        *_felt_rows(name, before, felt, seconds),
        *_memory_rows(name, memory, after, limit),
        *(Row(**row) for row in found),
    ]


def _attack(name: str, server: Server, seconds: float) -> Sequence[Mapping[str, Any]]:
    """The attacker's own rows; none of one that had to be ended half a minute after its time."""
    addresses = server.addresses["grpc"], server.addresses["rest"]
    with attacker("attacks", name, *addresses, str(seconds)) as process:
        try:
            said, _ = process.communicate(timeout=seconds + 90)
        except subprocess.TimeoutExpired:
            process.kill()
            process.communicate()
            print(f"{name}: the attack had to be ended")
            return ()
        rows: Sequence[Mapping[str, Any]] = json.loads(said) if said else ()
        return rows


def _felt_rows(name: str, before: Felt, felt: Felt, seconds: float) -> Sequence[Row]:
    bad, most = felt.refused + felt.wrong, max(3 * before.p99, FLOOR_MS)
    for line in sorted(set(felt.said))[:4]:
        print(f"{name}: {line}")
    longest = max(felt.latencies, default=float("inf"))
    words = f"quiet {before.p99:.1f}; median {felt.median:.1f}, longest {longest:.0f}; {seconds:.0f} s of attack"
    return [
        Row(
            f"{name}: good requests refused, of {len(felt.latencies) + bad:,}", felt.refused, "", "0", felt.refused == 0
        ),
        Row(f"{name}: good requests answered wrongly", felt.wrong, "", "0", felt.wrong == 0),
        Row(f"{name}: p99 of good clients ({words})", felt.p99, "ms", f"at most {most:.0f}", felt.p99 <= most),
    ]


def _memory_rows(name: str, memory: Memory, after: int, limit: float) -> Sequence[Row]:
    grown, left = memory.peak - memory.first, (after - memory.first) / memory.first * 100
    cut = ", ended by the bench" if memory.ended else ""
    rest, words = memory.first / 2**20, f"budget {limit / 2**20:.0f} MB" if limit else "no budget"
    holds = not memory.ended and limit > 0 and grown <= limit * 1.15
    return [
        Row(
            f"{name}: memory beyond its {rest:.0f} MB at rest ({words}{cut})",
            grown / 2**20,
            "MB",
            "budget + 15 %",
            holds,
        ),
        Row(
            f"{name}: memory {AFTER_SECONDS:.0f} s later, beyond rest",
            left,
            "%",
            "at most 10",
            not memory.ended and left <= 10,
        ),
    ]
