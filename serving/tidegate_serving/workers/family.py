"""The processes that a worker's process started."""

from __future__ import annotations

import contextlib
import itertools
from collections.abc import Iterator, Sequence

from tidegate_serving.workers.process_files import newest_task, text_of, threads

MOST_CHILDREN = 1000
"""A worker's process that starts more is ended."""


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
