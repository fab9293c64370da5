"""Threads of a worker's process that a model has traced by the engine, its parent (`ptrace`).

Such a thread stands still at its next signal until the engine lets it go on, and once it is dead its process does not
end before the engine has asked for it.
"""

from __future__ import annotations

import os
from pathlib import Path

_ANY_THREAD = 0x40000000  # __WALL of wait(2), which `os` does not have


def reap_traced(pid: int) -> bool:
    """Lets dead threads go, so that a child of this process can end; whether a thread stands still."""
    stands_still = False
    try:
        threads = [int(path.name) for path in Path(f"/proc/{pid}/task").iterdir()]
    except OSError:  # it has ended just now, or this process may open no more files: the next look tells
        return False
    for thread in threads:
        if thread == pid:
            continue
        try:
            reaped, status = os.waitpid(thread, _ANY_THREAD | os.WNOHANG)
        except ChildProcessError:  # nobody traces it
            continue
        stands_still |= reaped == thread and os.WIFSTOPPED(status)
    return stands_still
