"""The processes that a worker's process started, and how much memory they hold with it."""

from __future__ import annotations

import contextlib
import itertools
import os
import stat
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path

from tidegate_serving.probing.state import resident_bytes
from tidegate_serving.workers.buffers import in_pipes, in_sockets
from tidegate_serving.workers.process_files import newest_task, open_files, text_of, threads

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


def descendants(pid: int) -> Iterator[int]:
    """Those whose parents live; others have gone to whoever adopts them. OSError where there is no `pid`."""
    if not (found := [(pid, thread) for thread in threads(pid)]):
        raise ProcessLookupError(f"there is no process {pid}")
    while found:
        parent, thread = found.pop()
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            for child in map(int, text_of(parent, f"task/{thread}/children").split()):
                yield child
                found.extend((child, one) for one in threads(child))


class Family:
    """A process's descendants, looked for again only once the machine has started another process or thread."""

    def __init__(self, pid: int, most: int) -> None:
        self._pid = pid
        self._most = most
        self._newest: int | None = None
        self._found: Sequence[int] = ()

    def look(self) -> Sequence[int]:
        """At most so many, of which some may have ended. OSError where there is no `pid`."""
        newest = newest_task()
        if newest is None or newest != self._newest:
            self._found = list(itertools.islice(descendants(self._pid), self._most))
            self._newest = newest
        return self._found


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
