"""What Linux's files say of processes, read in few steps: beside hundreds of threads that compute, each takes long."""

from __future__ import annotations

import contextlib
import os

_PROCESSES = "/proc"
_MOST_READ = 1 << 16


def threads(pid: int) -> list[str]:
    """The numbers of a process's threads; none where it has ended."""
    try:
        with os.scandir(f"{_PROCESSES}/{pid}/task") as entries:
            return [entry.name for entry in entries]
    except OSError:
        return []


def thread_count(pid: int) -> int:
    """How many threads a process has, in one step; 0 where it has ended."""
    try:
        return os.stat(f"{_PROCESSES}/{pid}/task").st_nlink - 2  # noqa: PTH116  (a path would be made for each)
    except OSError:
        return 0


def open_files(pid: int) -> list[tuple[str, os.stat_result]]:
    """What a process has open, each with a path to it; nothing where it has ended or lets nobody look."""
    found = []
    try:
        with os.scandir(f"{_PROCESSES}/{pid}/fd") as entries:
            for entry in entries:
                with contextlib.suppress(FileNotFoundError):  # it was closed meanwhile
                    found.append((entry.path, entry.stat()))
    except OSError:
        return []
    return found


def state(pid: int) -> str:
    """The letter for what a process does, such as T for one that was stopped. OSError where it has gone."""
    return text_of(pid, "stat").rpartition(")")[2].split()[0]


def running_threads() -> int | None:
    """How many threads run or wait to run, on the whole machine; None where the system does not tell."""
    return int(_load()[3].partition("/")[0]) or None


def newest_task() -> int | None:
    """The number of the process or thread that was started last; None where the system does not tell."""
    return int(_load()[4]) or None


def _load() -> list[str]:
    return _read(f"{_PROCESSES}/loadavg").split()


def text_of(pid: int, name: str) -> str:
    """What a process's file says, at most 64 kB of it. OSError where it has gone."""
    return _read(f"{_PROCESSES}/{pid}/{name}")


def _read(path: str) -> str:
    file = os.open(path, os.O_RDONLY)
    try:
        return os.read(file, _MOST_READ).decode("utf-8", "replace")
    finally:
        os.close(file)
