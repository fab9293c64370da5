"""Starts a worker's process, and ends all that this started with it, in whatever session that is: a program of its own.

    python -I -S keeper.py ENGINE PASSED PROGRAM ARGUMENT...

ENGINE is a socket whose other end the engine has (`workers.kept`); PASSED is what the program gets too. Its last
argument is the end of a pipe of which this process alone has the other one: by that it hears of this one's end.

    to the engine    PID            the program's
                     traced         it is ended since this process, its parent, was to trace a thread of it (`ptrace`)
                     ended STATUS   nothing of it is left; a status below 0 is the signal that ended it
    from it          its end: all is to be ended

Processes whose parents have ended become this one's children. It imports next to nothing, since each worker's process
has one.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import select
import signal
import sys

_ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
_ANY_THREAD = 0x40000000  # __WALL of wait(2): threads that are traced, too
_CHILDREN = "/proc/thread-self/children"
_MOST_READ = 1 << 12


class Keeper:
    """Of one program, from its start to its end."""

    def __init__(self, engine: int, passed: int, program: list[str]) -> None:
        self._engine = engine
        self._changed = _changes()
        watched, self._alive = os.pipe()
        os.set_inheritable(watched, True)
        os.set_inheritable(engine, False)
        self._program = os.posix_spawn(program[0], [*program, str(watched)], os.environ, setsid=True)
        self._status: int | None = None
        self._traces = False
        os.close(watched)
        os.close(passed)

    def keep(self) -> None:
        """Until nothing of the program is left."""
        self._tell(str(self._program))
        waiting = select.poll()
        for descriptor in (self._engine, self._changed):
            waiting.register(descriptor, select.POLLIN)
        while self._status is None and not self._traces and self._engine not in dict(waiting.poll()):
            os.read(self._changed, _MOST_READ)
            self._reap(os.WNOHANG)
        if self._traces:
            self._tell("traced")
        if self._status is None:
            self._end_group()
        while children := _some_children():
            for child in children:
                os.kill(child, signal.SIGKILL)
            self._reap(0)
        self._tell(f"ended {self._status}")

    def _reap(self, options: int) -> None:
        """Lets children go that have ended. Waits for one, unless it is told not to."""
        look = os.WEXITED | os.WNOWAIT | _ANY_THREAD
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitid(os.P_ALL, 0, look | options)) is not None:
                options = os.WNOHANG
                stopped = found.si_code in (os.CLD_STOPPED, os.CLD_TRAPPED)
                if found.si_pid == self._program and not stopped:
                    self._end_group()
                _, status = os.waitpid(found.si_pid, _ANY_THREAD)
                if stopped:
                    self._traces = True
                elif found.si_pid == self._program:
                    self._status = os.waitstatus_to_exitcode(status)

    def _end_group(self) -> None:
        """In one step, so that none of it gets away, however fast it forks. Its number is nobody else's as long as the
        program's end was not waited for."""
        os.killpg(self._program, signal.SIGKILL)

    def _tell(self, line: str) -> None:
        with contextlib.suppress(OSError):  # the engine is gone
            os.write(self._engine, f"{line}\n".encode())


def _changes() -> int:
    """What can be read from once a child has ended."""
    changed, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake, warn_on_full_buffer=False)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    return changed


def _some_children() -> list[int]:
    """None where there is none; those that have ended count, too."""
    listed = os.open(_CHILDREN, os.O_RDONLY)
    try:
        return [int(number) for number in os.read(listed, _MOST_READ).rpartition(b" ")[0].split()]
    finally:
        os.close(listed)


def main(engine: str, passed: str, *program: str) -> None:
    """Keeps one program. Signals to all processes mean the engine, which ends this one."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if ctypes.CDLL(None, use_errno=True).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl: orphans cannot be adopted")
    Keeper(int(engine), int(passed), list(program)).keep()


if __name__ == "__main__":
    main(*sys.argv[1:])
