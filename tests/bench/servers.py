"""The two servers that are measured side by side: `tidegate serve` with a null model, and the echo on the same stack.

Both run on one pinned core and end with the context that started them; `serving` sends the load.
"""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tests.support.engine_process import EngineProcess
from tests.support.versions import write_manifest

from tidegate_serving.contract.manifest import Manifest, describe_files
from tidegate_serving.contract.repository import version_directory
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec

ROOT = Path(__file__).parent.parent.parent
NATIVE = ROOT / "serving/native"
MODEL = "null"
NULL_MODEL = '''"""The null model of the benchmark: y = 0.5 x + 2."""

import numpy as np


class Null:
    def predict(self, inputs):
        return {"y": inputs["x"] * np.float32(0.5) + np.float32(2.0)}
'''


@dataclass(frozen=True, slots=True)
class Running:
    """Addresses and process id of a server."""

    grpc: str
    rest: str
    pid: int


def publish_null_model(repository: Path) -> None:
    """Version 1 of the null model: one input and one output of 4 floats."""
    directory = version_directory(repository, ServableId(MODEL, 1))
    directory.mkdir(parents=True)
    (directory / "model.py").write_text(NULL_MODEL)
    floats = (-1, 4)
    signature = Signature((TensorSpec("x", "float32", floats),), (TensorSpec("y", "float32", floats),))
    manifest = Manifest(
        id=ServableId(MODEL, 1),
        platform="python",
        signatures={SERVING_DEFAULT: signature},
        files=describe_files(directory),
        created_at="2013-01-01T00:00:00Z",
        example={"x": [0.0, 1.0, 2.0, 3.0]},
        metadata={"python.file": "model.py", "python.class": "Null"},
    )
    write_manifest(manifest, directory)


@contextlib.contextmanager
def tidegate(folder: Path, core: int, *, logging: bool) -> Iterator[Running]:
    """`tidegate serve` on the null model; `logging` writes every answer into the inference log."""
    publish_null_model(folder / "models")
    log = {"log_path": folder / "log", "log_sampling_rate": 1.0} if logging else {}
    with pinned(core):
        engine = EngineProcess(folder, repository=folder / "models", allow_unverified=True, **log).start()
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


def built(name: str) -> Path:
    """A program of the data plane's crate, built in release."""
    cargo = subprocess.run([ROOT / "tools/toolchain.sh", "cargo"], capture_output=True, text=True, check=True)
    build = [cargo.stdout.strip(), "build", "--release", "--locked", "-q", "-p", "tidegate-plane", "--bin", name]
    subprocess.run(build, cwd=NATIVE, check=True)
    return Path(os.environ.get("CARGO_TARGET_DIR", NATIVE / "target")) / "release" / name


@contextlib.contextmanager
def echo(core: int) -> Iterator[Running]:
    """The echo server, built in release beside the data plane."""
    binary = built("tidegate-echo")
    command = [str(binary), "--grpc", "127.0.0.1:0", "--rest", "127.0.0.1:0"]
    with pinned(core):
        process = subprocess.Popen(command, stdout=subprocess.PIPE)
    try:
        assert process.stdout is not None
        addresses = json.loads(process.stdout.readline())
        yield Running(addresses["grpc"], addresses["rest"], process.pid)
    finally:
        process.terminate()
        process.wait(timeout=30)


@contextlib.contextmanager
def pinned(core: int) -> Iterator[None]:
    """What is started inside inherits the core; this process gets its own cores back."""
    before = os.sched_getaffinity(0)
    os.sched_setaffinity(0, {core})
    try:
        yield
    finally:
        os.sched_setaffinity(0, before)
