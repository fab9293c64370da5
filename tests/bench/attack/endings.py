"""SIGTERM in the middle of anything: how soon an engine ends, what it says, and what becomes of what it had accepted.

Each instant is drawn by chance, from the seed ENDINGS_SEED, and meets an engine of its own: one that starts, that is
busy, that swaps a version, whose model is slow, or whose model never returns, because it waits, computes, or keeps
Python's lock; or waits, and its client has gone.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import random
import subprocess
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np
from tests.bench.attack.models import MODELS
from tests.bench.attack.places import CLIENT_CORE, ENGINE_CORE, on_core
from tests.bench.rows import Row
from tests.support.engine.process import EngineProcess
from tests.support.models.versions import publish

from tidegate_serving.client import Client
from tidegate_serving.contract.errors import DeadlinePassed, TidegateError, Unavailable

INSTANTS, SEED = int(os.environ.get("ENDINGS", "200")), int(os.environ.get("ENDINGS_SEED", "7"))
DRAIN_SECONDS, GRACE_SECONDS, PATIENCE_SECONDS = 2.0, 2.0, 10.0
ACCEPTED_SECONDS = 0.2  # what was sent so long before the signal had been accepted
HANGS = {"waits": -1.0, "forgotten": -1.0, "computes": -2.0, "locks": -3.0}
KINDS = ("busy", "slow", "swap", "start", *HANGS)
ASKED = {
    "busy": {"small": 4},
    "swap": {"small": 4},
    "slow": {"small": 2, "slow": 2},
    **{kind: {"small": 3, "hangs": 2} for kind in HANGS},
}


@dataclass(slots=True)
class Ending:
    """What came of one instant; `problems` are requests that were lost or answered wrongly."""

    kind: str
    seconds: float = 0.0
    status: int | None = None
    problems: list[str] = field(default_factory=list)

    @property
    def said_how(self) -> bool:
        """Whether the status says how it ended; a start may end before anybody listens for signals."""
        if self.kind == "start":
            return self.status in (0, -15)
        return self.status == int(self.kind in HANGS)


@dataclass(slots=True)
class Asker:
    """A client that asks one model until it is refused; `fate` has the moments and codes of its requests.

    `accepted` says that what was sent before the signal has to be answered.
    """

    address: str
    model: str
    value: float
    accepted: bool
    timeout: float
    fate: list[tuple[float, str]] = field(default_factory=list)

    def run(self) -> None:
        with Client(self.address) as client:
            while not self.fate or self.fate[-1][1] == "OK":
                began = time.monotonic()
                try:
                    said = client.predict(self.model, {"x": np.array([self.value], np.float32)}, timeout=self.timeout)
                except TidegateError as error:
                    self.fate.append((began, error.code))
                else:
                    right = said.outputs["y"].tolist() == [2 * self.value]
                    self.fate.append((began, "OK" if right else "wrong"))

    def problems(self, signalled: float) -> list[str]:
        """Requests that were accepted and not answered, and those that ended in another way than they may."""
        found = []
        for began, code in self.fate:
            lost = self.accepted and code != "OK" and began < signalled - ACCEPTED_SECONDS
            if lost or code not in ("OK", Unavailable.code, "" if self.accepted else DeadlinePassed.code):
                found.append(f"{self.model}: {code} for a request sent {signalled - began:+.2f} s before the signal")
        return found


def measure() -> Sequence[Row]:
    """All instants; the kinds come by turns."""
    chance = random.Random(SEED)
    endings = [_end(kind, chance) for kind in itertools.islice(itertools.cycle(KINDS), INSTANTS)]
    longest = {kind: max((one.seconds for one in endings if one.kind == kind), default=0.0) for kind in KINDS}
    print("endings: longest by kind:", {kind: round(seconds, 2) for kind, seconds in longest.items()})
    for line in [f"{one.kind}: {problem}" for one in endings for problem in one.problems][:6]:
        print(f"endings: {line}")
    for one in endings:
        if not one.said_how:
            print(f"endings: {one.kind}: status {one.status} after {one.seconds:.2f} s")
    late = sum(one.seconds > DRAIN_SECONDS + GRACE_SECONDS for one in endings)
    odd = sum(not one.said_how for one in endings)
    bad = sum(len(one.problems) for one in endings)
    words = ", ".join(f"{kind} {seconds:.1f}" for kind, seconds in longest.items())
    return [
        Row(
            f"endings: SIGTERM at {INSTANTS} instants, not over after 4 s (longest: {words})", late, "", "0", late == 0
        ),
        Row("endings: the exit status does not say how it ended", odd, "", "0", odd == 0),
        Row("endings: accepted requests lost, or answered otherwise than they may be", bad, "", "0", bad == 0),
    ]


def _end(kind: str, chance: random.Random) -> Ending:
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as name, on_core(ENGINE_CORE):
        place, ending = Path(name), Ending(kind)
        for model in ("small", "slow", "hangs"):
            publish(place / "models", model, 1, MODELS[model])
        config = {"repository": place / "models", "allow_unverified": True, "poll_seconds": 0.1}
        engine = EngineProcess(place / "engine", drain_seconds=DRAIN_SECONDS, **config)
        with _killed(engine) as process:
            if kind == "start":
                time.sleep(chance.uniform(0, 2))  # any instant of the start will do
                _terminate(engine, process, ending)
                return ending
            with _asked(engine, kind, ending):
                if kind == "swap":
                    publish(place / "models", "small", 2, MODELS["small"])
                time.sleep(chance.uniform(0.3, 1.3))  # any instant of the traffic will do
                _terminate(engine, process, ending)
        return ending


def _returns(kind: str, model: str) -> bool:
    """Whether a request is answered if only it is accepted; beside a call that keeps Python's lock, none is."""
    return model != "hangs" and kind != "locks"


@contextlib.contextmanager
def _killed(engine: EngineProcess) -> Iterator[subprocess.Popen[bytes]]:
    """The process, which is gone at the end."""
    engine.launch()
    assert engine.process is not None
    try:
        yield engine.process
    finally:
        engine.process.kill()
        engine.process.wait()


@contextlib.contextmanager
def _asked(engine: EngineProcess, kind: str, ending: Ending) -> Iterator[None]:
    """Clients at work once the engine is up; what became of their requests goes into the ending."""
    engine.await_ready()
    askers = [
        Asker(
            engine.addresses["grpc"],
            model,
            HANGS[kind] if model == "hangs" else 3.0,
            accepted=_returns(kind, model),
            timeout=0.2 if (kind, model) == ("forgotten", "hangs") else 30,
        )
        for model, count in ASKED[kind].items()
        for _ in range(count)
    ]
    threads = [threading.Thread(target=one.run, daemon=True) for one in askers]
    with on_core(CLIENT_CORE):
        for thread in threads:
            thread.start()
    yield
    signalled = time.monotonic() - ending.seconds
    assert engine.process is not None
    engine.process.kill()
    for thread in threads:
        thread.join(40)
    ending.problems = [problem for one in askers for problem in one.problems(signalled)]


def _terminate(engine: EngineProcess, process: subprocess.Popen[bytes], ending: Ending) -> None:
    began = time.monotonic()
    engine.terminate()
    try:
        ending.status = process.wait(DRAIN_SECONDS + GRACE_SECONDS + PATIENCE_SECONDS)
    except subprocess.TimeoutExpired:
        ending.status = None
    ending.seconds = time.monotonic() - began
