"""Ten minutes of everything: attacks by turns, faults of the machine and version swaps, in bounded memory.

The same cycle of attacks and faults is gone through five times, so that the second and the last fifth compare like
with like. MIX_SECONDS=120 makes a shorter run of the same sort, but its memory is not held against the target:
what one attack needed comes back while the next one is under way.
"""

from __future__ import annotations

import contextlib
import os
import random
import shutil
import statistics
import subprocess
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tests.bench.attack import faults
from tests.bench.attack.attacks import ATTACKS
from tests.bench.attack.control_groups import ControlGroup
from tests.bench.attack.models import MODELS, publish_models
from tests.bench.attack.places import ENGINE_CORE, attacker, on_core
from tests.bench.attack.siege import MODEL, Felt, GoodClients
from tests.bench.lifecycle.engines import folder, resident
from tests.bench.rows import Row
from tests.support.engine.process import EngineProcess
from tests.support.models.versions import publish

WHOLE_SECONDS = 600.0
SECONDS = float(os.environ.get("MIX_SECONDS", WHOLE_SECONDS))
CYCLES = 5
MEMORY_LIMIT = 2 << 30
# The first attacks nobody, the second needs a thousand models, and the others go on until their process ends.
NOT_MIXED = ("busy-core", "metrics", "busy-model", "busy-threads")
SWAP_SECONDS, SAMPLE_SECONDS = 15.0, 0.5
MOST_GROWTH_MB = 2.0


@dataclass(slots=True)
class Run:
    """An engine in the middle of it. `sizes` are moments and bytes of its resident memory; `swaps` counts versions."""

    engine: EngineProcess
    models: Path
    disk: Path
    began: float = field(default_factory=time.monotonic)
    sizes: list[tuple[float, int]] = field(default_factory=list)
    swaps: int = 0
    over: threading.Event = field(default_factory=threading.Event)

    @property
    def process(self) -> subprocess.Popen[bytes]:
        assert self.engine.process is not None
        return self.engine.process

    def swap(self) -> None:
        """A new version of the model that good clients ask, every now and then, and the oldest is removed."""
        while not self.over.wait(SWAP_SECONDS):
            self.swaps += 1
            publish(self.models, MODEL, 1 + self.swaps, MODELS[MODEL])
            if self.swaps > 1:
                shutil.rmtree(self.models / MODEL / str(self.swaps - 1))

    def watch(self) -> None:
        """Samples the engine's memory."""
        while not self.over.wait(SAMPLE_SECONDS) and self.process.poll() is None:
            self.sizes.append((time.monotonic() - self.began, resident(self.process.pid)))

    def median_mb(self, first: float, last: float) -> float:
        """Of the resident memory between two shares of the run."""
        within = [size for moment, size in self.sizes if first * SECONDS <= moment < last * SECONDS]
        return statistics.median(within) / 2**20 if within else float("nan")


def measure() -> Sequence[Row]:
    """The whole run."""
    with folder() as place, faults.small_disk() as disk, ControlGroup.of_memory(MEMORY_LIMIT) as group:
        publish_models(place / "models")
        config = {"repository": place / "models", "allow_unverified": True, "poll_seconds": 0.2}
        engine = EngineProcess(place / "engine", log_path=disk / "log", **config)
        with group.starting(), on_core(ENGINE_CORE):
            engine.start()
        run = Run(engine, place / "models", disk)
        with _killed(run):
            return _measure(run)


@contextlib.contextmanager
def _killed(run: Run) -> Iterator[None]:
    try:
        yield
    finally:
        run.process.kill()
        run.process.wait()


def _measure(run: Run) -> Sequence[Row]:
    helpers = [threading.Thread(target=one) for one in (run.swap, run.watch)]
    with GoodClients(run.engine, ("grpc", "rest")) as clients, GoodClients(run.engine, ("health",)) as probe:
        for helper in helpers:
            helper.start()
        try:
            for _ in range(CYCLES):
                _cycle(run)
        finally:
            run.over.set()
            for helper in helpers:
                helper.join()
        return _rows(run, clients.end(), probe.end())


def _cycle(run: Run) -> None:
    """Every attack and every fault once, in an order that is the same each time."""
    pid, step = run.process.pid, SECONDS / CYCLES / (len(ATTACKS) - len(NOT_MIXED) + 3)
    befall: Mapping[str, Callable[[], None]] = {
        "SIGSTOP": lambda: faults.stand_still(pid),
        "no descriptors": lambda: faults.no_descriptors(pid),
        "full disk": lambda: faults.full_disk(run.disk, step / 2),
    }
    steps = [*(name for name in ATTACKS if name not in NOT_MIXED), *befall]
    random.Random(7).shuffle(steps)
    ends = time.monotonic()
    for name in steps:
        if run.process.poll() is not None:
            return
        ends += step
        _empty(run.disk / "log")
        if name in befall:
            befall[name]()
        else:
            _attack(run, name, max(1.0, ends - time.monotonic()))
        run.over.wait(max(0.0, ends - time.monotonic()))


def _attack(run: Run, name: str, seconds: float) -> None:
    addresses = run.engine.addresses["grpc"], run.engine.addresses["rest"]
    with attacker("attacks", name, *addresses, str(seconds)) as process:
        try:
            process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            process.kill()  # its connections break off, which is an attack of its own
            process.communicate()


def _empty(log: Path) -> None:
    """What a retention would do: the disk is small, and only its own fault shall fill it."""
    for file in log.rglob("*.parquet"):
        file.unlink()


def _rows(run: Run, felt: Felt, probed: Felt) -> Sequence[Row]:
    for line in sorted({*felt.said, *probed.said})[:8]:
        print(f"mixed: {line}")
    asked = len(felt.latencies) + felt.refused + felt.wrong
    early, late = run.median_mb(0.3, 0.5), run.median_mb(0.8, 1.0)
    most = max((size for _, size in run.sizes), default=0) / 2**20
    alive = run.process.poll() is None
    grown = f"median memory of the last fifth above the {early:.0f} MB before the middle (most {most:.0f} MB)"
    words = f"{SECONDS:.0f} s in {MEMORY_LIMIT >> 20} MB, {run.swaps} swaps"
    return [
        Row(f"mixed: the engine ended ({words})", int(not alive), "", "0", alive),
        Row(
            f"mixed: good requests lost, of {asked:,} (p99 {felt.p99:.0f} ms)", felt.refused, "", "0", felt.refused == 0
        ),
        Row("mixed: good requests answered wrongly", felt.wrong, "", "0", felt.wrong == 0),
        Row(
            f"mixed: health calls on new connections unanswered, of {len(probed.latencies) + probed.refused:,}",
            probed.refused,
            "",
            "-",
            None,
        ),
        Row(
            f"mixed: {grown}",
            late - early,
            "MB",
            f"at most {MOST_GROWTH_MB:.0f}",
            late - early <= MOST_GROWTH_MB if SECONDS >= WHOLE_SECONDS else None,
        ),
    ]
