"""Servers that are measured: `tidegate serve`, and the echo on the same stack, which answers without looking.

Both run on one pinned core and end with the context that started them.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import tidegate_native
from tests.support.engine.process import EngineProcess

ROOT = Path(__file__).parent.parent.parent
NATIVE = ROOT / "serving/native"
GUIDED = ROOT / "build/guided"
"""Where `make wheels` leaves what is compiled twice."""
SERVER_CORE, LOAD_CORE = 0, 1


@dataclass(frozen=True, slots=True)
class Running:
    """Addresses and process id of a server."""

    grpc: str
    rest: str
    pid: int


@contextlib.contextmanager
def tidegate(folder: Path, repository: Path, core: int, *, logging: bool, **more: object) -> Iterator[Running]:
    """`tidegate serve` on what a repository has; `logging` writes every answer into the log, `more` is config."""
    log = {"log_path": folder / "log", "log_sampling_rate": 1.0} if logging else {}
    with pinned(core):
        engine = EngineProcess(folder, repository=repository, allow_unverified=True, **log, **more).start()
    with engine_until_stopped(engine) as process:
        yield Running(engine.addresses["grpc"], engine.addresses["rest"], process)


@contextlib.contextmanager
def engine_until_stopped(engine: EngineProcess) -> Iterator[int]:
    """Process id of a started engine; RuntimeError unless it ends with status 0 afterwards."""
    try:
        yield int(engine.addresses["pid"])
    finally:
        status = engine.stop()
    if status != 0:
        raise RuntimeError(f"the engine ended with status {status}:\n{engine.said()}")


def program(name: str) -> Path:
    """A program of the data plane's crate that is set beside the wheel: guided by a profile where the wheel is."""
    return GUIDED / "programs" / name if guided() else built(name)


def guided() -> bool:
    """Whether the engine that is measured has the guided wheel, as `make bench` has it; else it is `.venv`'s."""
    return Path(tidegate_native.__file__).is_relative_to(GUIDED)


def built(name: str) -> Path:
    """A program of the data plane's crate, built in release."""
    cargo = subprocess.run([ROOT / "tools/toolchain.sh", "cargo"], capture_output=True, text=True, check=True)
    build = [cargo.stdout.strip(), "build", "--release", "--locked", "-q", "-p", "tidegate-plane", "--bin", name]
    subprocess.run(build, cwd=NATIVE, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", NATIVE / "target")) / "release" / name


@contextlib.contextmanager
def echo(core: int, binary: Path) -> Iterator[Running]:
    """The echo server; RuntimeError unless it ends with status 0."""
    command = [str(binary), "--grpc", "127.0.0.1:0", "--rest", "127.0.0.1:0"]
    with pinned(core):
        process = subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        addresses = json.loads(process.stdout.readline())
        yield Running(addresses["grpc"], addresses["rest"], process.pid)
    finally:
        process.stdin.close()
        status = process.wait(timeout=30)
    if status != 0:
        raise RuntimeError(f"the echo ended with status {status}")


@contextlib.contextmanager
def pinned(core: int) -> Iterator[None]:
    """What is started inside inherits the core; this process gets its own cores back."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
