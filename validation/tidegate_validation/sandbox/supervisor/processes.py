"""The processes below one process, from /proc: which they are, and the memory, threads and time that each has."""

from __future__ import annotations

import os
from pathlib import Path
from typing import NamedTuple

_PAGE = os.sysconf("SC_PAGE_SIZE")
_TICKS = os.sysconf("SC_CLK_TCK")
_LISTS_CHILDREN = Path(f"/proc/self/task/{os.getpid()}/children").exists()


class Process(NamedTuple):
    """One live process; `threads` counts its own, `resident_bytes` its memory."""

    pid: int
    parent: int
    threads: int
    resident_bytes: int


def descendants(pid: int) -> list[Process]:
    """Every live process below `pid`, parents first; zombies hold nothing and are left out."""
    below: list[Process] = []
    waiting = [pid]
    while waiting:
        born = _children(waiting.pop())
        waiting += born
        below += [found for found in map(_read, born) if found is not None]
    return below


def _children(pid: int) -> list[int]:
    """Numbers of a process's children, zombies too; by the kernel's list of them, or by asking every process."""
    if not _LISTS_CHILDREN:
        return [found.pid for found in map(_read, _all_numbers()) if found is not None and found.parent == pid]
    found: list[int] = []
    try:
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - twenty looks a second, each at every thread
            found += map(int, content(f"/proc/{pid}/task/{thread}/children").split())
    except OSError:
        return found
    return found


def _all_numbers() -> list[int]:
    return [int(process.name) for process in Path("/proc").glob("[0-9]*")]


def content(file: str) -> bytes:
    """All of one of the kernel's files, in a quarter of the time that a `Path` takes for it."""
    with open(file, "rb", buffering=0) as opened:  # noqa: PTH123
        return opened.read()


def inner_number(pid: int) -> int:
    """The process's number in its own namespace; 0 where it is gone."""
    try:
        for line in Path(f"/proc/{pid}/status").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("NSpid:"):
                return int(line.split()[-1])
    except OSError:
        return 0
    return pid


def proportional_bytes(pid: int) -> int:
    """Memory of a process, pages that several hold counted in parts; 0 where it is gone or hidden."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text(encoding="ascii").splitlines()
        return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
    except OSError:
        return 0


def processor_seconds(pid: int) -> float:
    """Processor time of a process and of its children that ended, and the time in which its threads waited for it.

    So a process that wants a processor all the time is known on a busy machine too. 0 where it is gone.
    """
    try:
        fields = Path(f"/proc/{pid}/stat").read_bytes().rsplit(b")", 1)[1].split()
    except OSError:
        return 0.0
    waited = 0
    for task in Path(f"/proc/{pid}/task").glob("*/schedstat"):
        try:
            waited += int(task.read_text(encoding="ascii").split()[1])
        except (OSError, IndexError, ValueError):  # a thread that ended, or a kernel that keeps no count
            continue
    return sum(int(ticks) for ticks in fields[11:15]) / _TICKS + waited / 1e9


def _read(pid: int) -> Process | None:
    try:
        fields = content(f"/proc/{pid}/stat").rsplit(b")", 1)[1].split()
    except OSError:
        return None
    if fields[0] in (b"Z", b"X"):
        return None
    return Process(pid, int(fields[1]), int(fields[17]), int(fields[21]) * _PAGE)
