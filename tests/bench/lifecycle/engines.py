"""What the measures of the lifecycle share: engines with a control client, small versions, and what a process costs.

Each measure starts its own engine, in a folder in memory, and ends it.
"""

from __future__ import annotations

import contextlib
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

from tests.support.engine.process import EngineProcess
from tests.support.models.versions import write_manifest

from tidegate_serving.contract.manifest import Manifest, describe_files
from tidegate_serving.contract.repository import version_directory
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec

STOP_SECONDS = 600
FLOATS = Signature((TensorSpec("x", "float32"),), (TensorSpec("y", "float32"),))


@contextlib.contextmanager
def folder() -> Iterator[Path]:
    """A folder in memory where there is one, so that no disk is measured."""
    memory = "/dev/shm" if os.access("/dev/shm", os.W_OK) else None
    with tempfile.TemporaryDirectory(dir=memory, prefix="tidegate-bench-") as name:
        yield Path(name)


@contextlib.contextmanager
def running(place: Path, **values: object) -> Iterator[EngineProcess]:
    """An engine that takes pushes from `place/models`; it ends with status 0 or the measure fails."""
    config = {"roots": [place / "models"], "allow_unverified": True, **values}
    engine = EngineProcess(place / "engine", **config).start()
    try:
        yield engine
    finally:
        engine.terminate()
        status = engine.wait(STOP_SECONDS)
    if status != 0:
        raise RuntimeError(f"the engine ended with status {status}:\n{engine.said()[-8000:]}")


def python_version(place: Path, name: str, version: int, source: str, **files: bytes) -> Path:
    """A version of one class `Model` whose code is `source`; `weights` and other keywords become files."""
    directory = version_directory(place / "models", ServableId(name, version))
    directory.mkdir(parents=True)
    (directory / "model.py").write_text(source)
    for file, data in files.items():
        (directory / file).write_bytes(data)
    metadata = {"python.file": "model.py", "python.class": "Model"}
    return _published(directory, ServableId(name, version), "python", FLOATS, {"x": 1.0}, metadata)


def table_version(place: Path, name: str, version: int) -> Path:
    """A table of one row: key 7 gives the version's number."""
    directory = version_directory(place / "models", ServableId(name, version))
    directory.mkdir(parents=True)
    (directory / "table.csv").write_text(f"key,value\n7,{version}\n")
    signature = Signature((TensorSpec("key", "int64"),), (TensorSpec("value", "int64"),))
    return _published(directory, ServableId(name, version), "table", signature, {"key": 7}, {})


def resident(pid: int) -> int:
    """Resident bytes of a process."""
    return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")


def cpu_seconds(pid: int) -> float:
    """Processor time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def threads(pid: int) -> int:
    """Threads of a process."""
    return sum(1 for _ in Path(f"/proc/{pid}/task").iterdir())


def _published(
    directory: Path,
    id: ServableId,
    platform: str,
    signature: Signature,
    example: dict[str, object],
    metadata: dict[str, str],
) -> Path:
    manifest = Manifest(
        id=id,
        platform=platform,
        signatures={SERVING_DEFAULT: signature},
        files=describe_files(directory),
        created_at="2013-01-01T00:00:00Z",
        example=example,
        metadata=metadata,
    )
    write_manifest(manifest, directory)
    return directory
