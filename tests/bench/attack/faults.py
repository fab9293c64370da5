"""Faults of the machine that befall an engine: it stands still, its disk is full, it may open no file or use no memory.

Each takes its fault back. Making a small disk needs root; `control_groups` bounds memory.
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

DISK_BYTES = 64 << 20
STOPPED_SECONDS = 1.5
DESCRIPTOR_SECONDS = 4.0


@contextlib.contextmanager
def small_disk() -> Iterator[Path]:
    """A file system of its own, of DISK_BYTES."""
    with tempfile.TemporaryDirectory(prefix="tidegate-disk-") as name:
        subprocess.run(["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "none", name], check=True)
        try:
            yield Path(name)
        finally:
            subprocess.run(["umount", "--lazy", name], check=True)


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
