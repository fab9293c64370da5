"""Faults of the machine that befall an engine: it stands still, its disk is full, it may open no file or use no memory.

Each takes its fault back. Bounding memory and making a small disk need root.
"""

from __future__ import annotations

import contextlib
import os
import resource
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Self

from tests.support.eventually import eventually

DISK_BYTES = 64 << 20
STOPPED_SECONDS = 1.5
DESCRIPTOR_SECONDS = 4.0
_GROUPS = Path("/sys/fs/cgroup")


@contextlib.contextmanager
def small_disk() -> Iterator[Path]:
    """A file system of its own, of DISK_BYTES."""
    with tempfile.TemporaryDirectory(prefix="tidegate-disk-") as name:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", name], check=True)
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", "--lazy", name], check=True)


class MemoryGroup:
    """A control group, of either version, whose processes may use `limit` bytes together; they must end before it."""

    def __init__(self, limit: int) -> None:
        self._around, limits = _memory_group()
        self._own = self._around / f"tidegate-bench-{os.getpid()}"
        self._own.mkdir()
        (self._own / limits).write_text(str(limit))

    @contextlib.contextmanager
    def starting(self) -> Iterator[None]:
        """What is started inside belongs to the group."""
        (self._own / "cgroup.procs").write_text(str(os.getpid()))
        try:
            yield
        finally:
            (self._around / "cgroup.procs").write_text(str(os.getpid()))

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        """The engine's workers end a moment after it."""
        eventually(lambda: not (self._own / "cgroup.procs").read_text())
        self._own.rmdir()


def _memory_group() -> tuple[Path, str]:
    """The folder of this process's control group for memory, and the name of the limit's file there."""
    for line in Path("/proc/self/cgroup").read_text().splitlines():
        _, controllers, path = line.split(":", 2)
        if "memory" in controllers.split(","):
            return _GROUPS / "memory" / path.lstrip("/"), "memory.limit_in_bytes"
        if not controllers and (_GROUPS / "cgroup.controllers").exists():
            return _GROUPS / path.lstrip("/"), "memory.max"
    raise RuntimeError("this process is in no control group for memory: mount cgroups")


def stand_still(pid: int, seconds: float = STOPPED_SECONDS) -> None:
    """SIGSTOP, and SIGCONT after a time."""
    os.kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    os.kill(pid, signal.SIGCONT)


def no_descriptors(pid: int, seconds: float = DESCRIPTOR_SECONDS) -> None:
    """The process may open nothing beyond what it has open, for a time."""
    before = resource.prlimit(pid, resource.RLIMIT_NOFILE)
    used = len(list(Path(f"/proc/{pid}/fd").iterdir()))
    resource.prlimit(pid, resource.RLIMIT_NOFILE, (used, before[1]))
    time.sleep(seconds)
    resource.prlimit(pid, resource.RLIMIT_NOFILE, before)


def full_disk(disk: Path, seconds: float) -> None:
    """Nothing more can be written there, for a time."""
    filler = disk / "filler"
    with contextlib.suppress(OSError), filler.open("wb", buffering=0) as file:
        while True:
            file.write(bytes(1 << 16))
    time.sleep(seconds)
    filler.unlink()
