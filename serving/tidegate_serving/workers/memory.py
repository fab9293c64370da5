"""The processes that a worker's process started, and how much memory they hold with it."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Sequence

from tidegate_serving.probing.state import resident_bytes
from tidegate_serving.workers.process_files import text_of, threads


def held_bytes(pids: Sequence[int], enough: int) -> int:
    """Bytes that a process and its descendants hold. Only where that seems to be more than `enough` is what several of
    them share counted once, since it takes the kernel long to tell."""
    together = sum(map(_resident, pids))
    if len(pids) == 1 or together <= enough:
        return together
    return sum(map(_proportional, pids))


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


def _resident(pid: int) -> int:
    try:
        return resident_bytes(pid)
    except OSError:  # it has ended meanwhile
        return 0


def _proportional(pid: int) -> int:
    """Resident bytes, those that n processes share as an nth of them each."""
    try:
        lines = text_of(pid, "smaps_rollup").splitlines()
    except OSError:
        return 0
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("Pss:"))
