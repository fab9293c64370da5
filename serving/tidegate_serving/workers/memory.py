"""How much memory a worker's process and the processes that it started hold."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from tidegate_serving.probing.state import resident_bytes

_PROCESSES = Path("/proc")


def held_bytes(pid: int, enough: int) -> int:
    """Bytes that a process holds with its descendants. Only where that seems to be more than `enough` is what several
    of them share counted once, since it takes the kernel long to tell. OSError where there is no such process."""
    own = resident_bytes(pid)
    children = list(_descendants(pid))
    if not children or own + sum(map(_resident, children)) <= enough:
        return own + sum(map(_resident, children))
    return sum(map(_proportional, [pid, *children]))


def _descendants(pid: int) -> Iterator[int]:
    """Those whose parents live; others have gone to the system's first process."""
    for thread in (_PROCESSES / str(pid) / "task").iterdir():
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            for child in map(int, (thread / "children").read_text(encoding="ascii").split()):
                yield child
                with contextlib.suppress(OSError):
                    yield from _descendants(child)


def _resident(pid: int) -> int:
    try:
        return resident_bytes(pid)
    except OSError:  # it has ended meanwhile
        return 0


def _proportional(pid: int) -> int:
    """Resident bytes, those that n processes share as an nth of them each."""
    try:
        lines = (_PROCESSES / str(pid) / "smaps_rollup").read_text(encoding="ascii").splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
