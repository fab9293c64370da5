"""The processes that a worker's process started, and how much memory they hold with it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence
from pathlib import Path

from tidegate_serving.probing.state import resident_bytes

_PROCESSES = Path("/proc")


def held_bytes(pids: Sequence[int], enough: int) -> int:
    """Bytes that a process and its descendants hold. Only where that seems to be more than `enough` is what several of
    them share counted once, since it takes the kernel long to tell."""
    together = sum(map(_resident, pids))
    if len(pids) == 1 or together <= enough:
        return together
    return sum(map(_proportional, pids))


def descendants(pid: int) -> Iterator[int]:
    """Those whose parents live; others have gone to the system's first process. OSError where there is no `pid`."""
    threads = list((_PROCESSES / str(pid) / "task").iterdir())
    while threads:
        with contextlib.suppress(OSError):  # the thread has ended meanwhile
            for child in (threads.pop() / "children").read_text(encoding="ascii").split():
                yield int(child)
                with contextlib.suppress(OSError):
                    threads.extend((_PROCESSES / child / "task").iterdir())


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
