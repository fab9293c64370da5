"""A tiny world for tests of releases: a repository, the validator's keys, models of a few lines, a real engine process.

Tests of the steps, the Airflow operators and the command line share it; every model is a Python class, so that
publishing and loading take milliseconds.
"""

from __future__ import annotations

import json
import subprocess
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
from tests.support.eventually import eventually
from tests.support.models.gate import Gate

from tidegate_operators.steps import Publication, promote, publish, push
from tidegate_serving.admission import Outcome, Verdict, load_private_key, make_keys, write_verdict
from tidegate_serving.client import Client
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.repository import verdict_path
from tidegate_serving.contract.servable import State
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_serving.control_client import ControlClient

NAME = "tiny"
EXAMPLE = {"x": 0.5, "kind": "a"}
_PAUSE = 0.01
"""Seconds between two requests of `traffic`."""
SIGNATURE = Signature((TensorSpec("x", "float32"), TensorSpec("kind", "string")), (TensorSpec("p", "float32"),))

HONEST = """
import numpy as np

class Model:
    def predict(self, inputs):
        return {"p": np.clip(inputs["x"], 0.02, 0.98).astype(np.float32)}
"""
BETTER = HONEST.replace("0.02, 0.98", "0.05, 0.95")
NONSENSE = HONEST.replace('np.clip(inputs["x"], 0.02, 0.98)', 'np.where(inputs["x"] > 0.9, np.nan, inputs["x"])')
OFTEN_NAN = NONSENSE.replace("> 0.9", "> 0.52")
RAISES = HONEST.replace(
    "        return", '        if inputs["x"].max() > 0.9: raise ValueError("too large")\n        return'
)
UNLOADABLE = "raise RuntimeError('this file cannot be imported')\n"
CRASHES = HONEST.replace(
    "        return",
    '        if set(inputs["kind"].tolist()) - {b"a", b"b"}: __import__("os")._exit(9)\n        return',
)


def patient(gate: Gate) -> str:
    """A model that waits at the gate with each request; its warm-up does not."""
    wait = f"""        if Model.warm:
            open({str(gate.entered)!r}, "w").close()
            open({str(gate.pipe)!r}, "rb").read()
        Model.warm = True
"""
    return HONEST.replace("class Model:", "class Model:\n    warm = False").replace(
        "        return", f"{wait}        return"
    )


def rows(count: int, seed: int) -> pa.Table:
    """Rows whose label is true with probability `x`."""
    random = np.random.default_rng(seed)
    x = random.random(count).astype(np.float32)
    return pa.table(
        {
            "x": x,
            "kind": [("a", "b")[value] for value in random.integers(0, 2, count)],
            "late": (random.random(count) < x).astype(np.int64),
        }
    )


@dataclass(frozen=True)
class World:
    """Folders and keys; `publish` and `admit` put versions into the repository."""

    root: Path

    @property
    def repository(self) -> Path:
        return self.root / "models"

    @property
    def private_key(self) -> Path:
        return self.root / "keys" / "validator.key"

    @property
    def public_key(self) -> Path:
        return self.root / "keys" / "validator.pub"

    @property
    def log(self) -> Path:
        return self.root / "log"

    @property
    def held_out(self) -> Path:
        return self.root / "held_out.parquet"

    def publish(
        self, version: int, source: str = HONEST, *, name: str = NAME, metadata: Mapping[str, str] | None = None
    ) -> Path:
        """A version with a training profile; returns its directory."""
        folder = self.root / "trained" / name / str(version)
        folder.mkdir(parents=True, exist_ok=True)
        (folder / "model.py").write_text(source)
        publication = Publication(
            files=folder,
            servable=name,
            version=version,
            platform="python",
            signature={"serving_default": SIGNATURE},
            repository=self.repository,
            training=rows(4000, seed=version),
            label="late",
            example=EXAMPLE,
            metadata=metadata or {},
        )
        return publish(publication).directory

    def policy(self, *gates: str) -> Path:
        """The file of a policy with these gates alone, for tests that are not about the others."""
        path = self.root / f"{'-'.join(gates)}.toml"
        path.write_text(f"run = {list(gates)}\nrequired = {list(gates)}\n")
        return path

    def admit(self, directory: Path, *, allowed: bool = True) -> str:
        """Signs a verdict without asking any gate; returns the digest of its file."""
        manifest, digest = read_manifest(directory)
        now = datetime.now(UTC)
        verdict = Verdict(
            id=manifest.id,
            manifest_digest=digest,
            outcome=Outcome.PASS if allowed else Outcome.FAIL,
            allowed=allowed,
            sentence="made for a test",
            gates=(),
            denied_by=() if allowed else ("quality",),
            first=True,
            baseline=None,
            data_digest="0" * 64,
            config_digest="0" * 64,
            tool_version="test",
            issued_at=now.isoformat(),
            expires_at=(now + timedelta(days=1)).isoformat(),
        )
        return write_verdict(verdict, verdict_path(directory), load_private_key(self.private_key))

    def admitted(self, version: int, source: str = HONEST, *, name: str = NAME) -> Path:
        """PublishedVersion, with a verdict that allows it; returns its directory."""
        directory = self.publish(version, source, name=name)
        self.admit(directory)
        return directory


def make_world(root: Path) -> World:
    """Keys and held-out rows; the repository is empty."""
    world = World(root)
    make_keys(world.private_key, world.public_key)
    world.repository.mkdir()
    pq.write_table(rows(3000, seed=77), world.held_out)
    return world


@dataclass(frozen=True)
class Endpoints:
    """Where a running engine answers."""

    grpc: str
    rest: str
    control: str
    pid: int


@contextmanager
def engine(world: World, control: str = "127.0.0.1:0") -> Iterator[Endpoints]:
    """`tidegate serve` over the world, on free ports; ended by SIGTERM, which must end it with status 0."""
    ready = world.root / "ready.json"
    ready.unlink(missing_ok=True)
    output = world.root / "engine.txt"
    command = [sys.executable, "-m", "tidegate_pipelines.cli", "serve", "--ready-file", str(ready)]
    for option, value in {
        "--root": world.repository,
        "--trusted-key": world.public_key,
        "--log-path": world.log,
        "--state": world.root / "state",
        "--grpc-address": "127.0.0.1:0",
        "--rest-address": "127.0.0.1:0",
        "--control-address": control,
    }.items():
        command += [option, str(value)]
    with output.open("ab") as stream:
        process = subprocess.Popen(command, stdout=stream, stderr=subprocess.STDOUT)
    try:
        eventually(lambda: ready.is_file() or process.poll() is not None, 180.0)
        assert ready.is_file(), output.read_text()
        found = json.loads(ready.read_text())
        yield Endpoints(found["grpc"], found["rest"], found["control"], found["pid"])
    finally:
        process.terminate()
        try:
            assert process.wait(60) == 0, output.read_text()
        finally:
            process.kill()


def serve_first(endpoints: Endpoints, world: World, name: str) -> Path:
    """Version 1 serves with label `stable`, as after a release; no gate was asked."""
    directory = world.admitted(1, name=name)
    push(directory=directory, control=endpoints.control)
    promote(control=endpoints.control, servable=name, version=1)
    return directory


def available(endpoints: Endpoints, name: str) -> list[int]:
    """Versions that can be asked, in order; none of a servable that the engine does not know."""
    with ControlClient(endpoints.control) as client:
        found = client.status(name).servable(name)
    return [] if found is None else sorted(v.version for v in found.versions if v.state is State.AVAILABLE)


@contextmanager
def traffic(address: str, name: str = NAME) -> Iterator[list[int]]:
    """Asks without a version, over and over, with pauses that leave the processors to what is tried; the versions that
    answered. Any failed answer fails the test."""
    stop = threading.Event()
    versions: list[int] = []
    failures: list[BaseException] = []

    def ask() -> None:
        random = np.random.default_rng(5)
        with Client(address) as client:
            while not stop.wait(_PAUSE):
                x = random.random(1).astype(np.float32)
                try:
                    answer = client.predict(name, {"x": x, "kind": np.array([b"a"], dtype=object)})
                except Exception as error:
                    failures.append(error)
                    return
                versions.append(answer.version)

    thread = threading.Thread(target=ask, name="traffic")
    thread.start()
    try:
        yield versions
    finally:
        stop.set()
        thread.join(30)
    assert failures == []
