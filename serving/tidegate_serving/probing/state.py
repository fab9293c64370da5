"""The state of the probe's process, and what a model has changed in it: memory, files, threads, children, signals.

Every answer of the probe carries it, because a version that serves shares its process with others.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Mapping
from pathlib import Path

_PAGE = os.sysconf("SC_PAGE_SIZE")
_STREAMS = ("standard input", "standard output", "standard error")
_SIGNALS = {2: "SIGINT", 15: "SIGTERM"}


class OwnState:
    """How the process was at first; `look` says what it holds now and what is different."""

    def __init__(self) -> None:
        self._streams = [_identity(number) for number in range(3)]
        self._directory = Path.cwd()
        self._recursion = sys.getrecursionlimit()
        self._status = _status()

    def look(self) -> dict[str, object]:
        """For an answer's `state`: `open_files`, `threads`, `zombies` (children that ended and that nobody waited for),
        and `changed` in words.
        """
        return {
            "open_files": len(list(Path("/proc/self/fd").iterdir())),
            "threads": len(list(Path("/proc/self/task").iterdir())),
            "zombies": _zombies(),
            "changed": self._changed(),
        }

    def _changed(self) -> list[str]:
        found = [
            f"closed or replaced {name}"
            for number, name in enumerate(_STREAMS)
            if _identity(number) != self._streams[number]
        ]
        status = _status()
        for number, name in _SIGNALS.items():
            if any(_bit(status[field], number) != _bit(self._status[field], number) for field in ("SigCgt", "SigIgn")):
                found.append(f"changed what {name} does")
        if sys.getrecursionlimit() < self._recursion:
            found.append(f"lowered how deep Python may call to {sys.getrecursionlimit()}")
        if not gc.isenabled():
            found.append("stopped Python's collection of garbage")
        if status["Umask"] != self._status["Umask"]:
            found.append("changed the mode of new files")
        try:
            moved = Path.cwd() != self._directory
        except OSError:
            moved = True
        return [*found, "changed the working directory"] if moved else found


def resident_bytes(pid: int | None = None) -> int:
    """Bytes of memory that a process holds, this one where none is named. OSError where there is no such process."""
    return int(Path(f"/proc/{pid or 'self'}/statm").read_text(encoding="ascii").split()[1]) * _PAGE


def seconds_ready() -> dict[int, float]:
    """How long each thread of this process was ready to run and did not, by the scheduler's count; empty where the
    kernel keeps none.
    """
    found: dict[int, float] = {}
    for task in Path("/proc/self/task").iterdir():
        try:
            found[int(task.name)] = int((task / "schedstat").read_text(encoding="ascii").split()[1]) / 1e9
        except (OSError, IndexError, ValueError):
            continue
    return found


def seconds_held_up(before: Mapping[int, float], after: Mapping[int, float], thread: int) -> float:
    """By how much other work held a call up, from `seconds_ready` before and after it, made by `thread`.

    A call may wait for threads that work for it, a pool's say, while these are ready and do not run: the one that was
    held up longest counts too.
    """
    waited = {one: seconds - before.get(one, 0.0) for one, seconds in after.items()}
    return waited.pop(thread, 0.0) + max(waited.values(), default=0.0)


def _zombies() -> int:
    return sum(_ended(child) for task in Path("/proc/self/task").iterdir() for child in _born(task))


def _born(task: Path) -> list[str]:
    try:
        return (task / "children").read_text(encoding="ascii").split()
    except OSError:  # a thread that ended, or a kernel that keeps no list
        return []


def _ended(child: str) -> bool:
    try:
        return Path(f"/proc/{child}/stat").read_bytes().rsplit(b")", 1)[1].split()[0] == b"Z"
    except OSError:
        return False


def _identity(number: int) -> tuple[int, int] | None:
    try:
        state = os.fstat(number)
    except OSError:
        return None
    return state.st_dev, state.st_ino


def _status() -> dict[str, str]:
    lines = Path("/proc/self/status").read_text(encoding="utf-8", errors="replace").splitlines()
    return {name: value.strip() for name, _, value in (line.partition(":") for line in lines)}


def _bit(mask: str, number: int) -> bool:
    return bool(int(mask, 16) >> (number - 1) & 1)
