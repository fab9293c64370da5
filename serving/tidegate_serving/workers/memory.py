"""How much memory a worker's process holds with those that it started."""

from __future__ import annotations

import contextlib
import os
import stat
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from tidegate_serving.probing.state import resident_bytes
from tidegate_serving.workers.buffers import in_pipes, in_sockets
from tidegate_serving.workers.process_files import open_files, text_of

_BLOCK = 512  # of which `st_blocks` counts


def held_bytes(pids: Sequence[int], enough: int) -> int:
    """Bytes that a process and its descendants hold, with files in memory, pipes and sockets that they have open. Only
    where that seems to be more than `enough` is what several of them share, or have both open and mapped, counted once,
    since it takes the kernel long to tell."""
    together, (files, buffers) = sum(map(_resident, pids)), open_bytes(pids)
    if together + files + buffers <= enough or (len(pids) == 1 and not files):
        return together + files + buffers
    found = list(map(_proportional, pids))
    return buffers + sum(own for own, _ in found) + max(files, sum(mapped for _, mapped in found))


def open_bytes(pids: Sequence[int]) -> tuple[int, int]:
    """Of what processes have open: the bytes of files in memory, of `memfd_create`, and in /dev/shm, under a name or
    none; and those that wait in pipes and in Unix sockets."""
    files: dict[tuple[int, int], int] = {}
    pipes: dict[int, str] = {}
    sockets: set[int] = set()
    for pid in pids:
        for path, file in open_files(pid):
            if file.st_dev in _in_memory():
                files[file.st_dev, file.st_ino] = file.st_blocks * _BLOCK
            elif stat.S_ISFIFO(file.st_mode):
                pipes[file.st_ino] = path
            elif stat.S_ISSOCK(file.st_mode):
                sockets.add(file.st_ino)
    return sum(files.values()), in_pipes(pipes) + in_sockets(sockets)


@cache
def _in_memory() -> frozenset[int]:
    """The devices of such files."""
    file = os.memfd_create("tidegate-device")
    try:
        devices = {os.fstat(file).st_dev}
    finally:
        os.close(file)
    with contextlib.suppress(FileNotFoundError):
        devices.add(Path("/dev/shm").stat().st_dev)
    return frozenset(devices)


def _resident(pid: int) -> int:
    try:
        return resident_bytes(pid)
    except OSError:  # it has ended meanwhile
        return 0


def _proportional(pid: int) -> tuple[int, int]:
    """Resident bytes, those that n processes share as an nth of them each: without files in memory, and of these."""
    try:
        lines = [line.split() for line in text_of(pid, "smaps_rollup").splitlines()[1:]]
    except OSError:  # it has ended meanwhile, or lets nobody look
        return _resident(pid), 0
    sizes = {line[0]: int(line[1]) * 1024 for line in lines}
    mapped = sizes.get("Pss_Shmem:", 0)
    return sizes["Pss:"] - mapped, mapped
