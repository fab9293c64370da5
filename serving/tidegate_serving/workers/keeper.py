"""Starts a worker's process, and ends all that this started with it, in whatever session that is: a program of its own.

    python -I -S -c ... ENGINE PASSED OUTPUT PROGRAM ARGUMENT...

ENGINE is a socket whose other end the engine has (`workers.kept`); PASSED is what the program gets too. Its last
argument is the end of a pipe of which this process alone has the other one: by that it hears of this one's end. Of what
it writes to its output and its error stream OUTPUT bytes a second are passed on to this one's, all where that is 0.

    to the engine    PID                       the program's
                     silent NAME BYTES LINES   so much of what it wrote to a stream was left out: it was too much
                     busy THREADS              so many of its threads computed at once: they weigh less from now on
                     traced                    it is ended since this process, its parent, was to trace a thread of it
                                               (`ptrace`)
                     ended STATUS              nothing of it is left; a status below 0 is the signal that ended it
    from it          its end: all is to be ended

Processes whose parents have ended become this one's children. Threads that compute are looked at here and not in the
engine, where whoever looks may have to wait for Python's lock while they take the processors from who has it. It
imports next to nothing, since each worker's process has one.
"""

from __future__ import annotations

import _thread
import contextlib
import ctypes
import os
import select
import signal
import time
from collections.abc import Callable

from tidegate_serving.workers.busy_threads import BusyThreads
from tidegate_serving.workers.family import MOST_CHILDREN, Family
from tidegate_serving.workers.short_turns import take_short_turns

_ADOPT_ORPHANS = 36  # PR_SET_CHILD_SUBREAPER of prctl(2)
_ANY_THREAD = 0x40000000  # __WALL of wait(2): threads that are traced, too
_CHILDREN = "/proc/thread-self/children"
_MOST_READ = 1 << 12
_STREAMS = {1: "output", 2: "errors"}
_OUTPUT_READ = 1 << 16
_BETWEEN_READS = 0.004
_SAVED_UP, _TO_GO_ON = 16, 4  # seconds' worth
_OUTPUT_SECONDS = 1.0
_PATIENCE_MS = 250  # with whoever reads this process's streams
_LOOK_SECONDS, _LOOK_AGAIN_SECONDS = 0.25, 0.1


class Output:
    """Passes on what is written to one stream, in whole lines, as long as it is not too much and somebody takes it:
    what was not written for a while may come later, at once. Whoever writes very much more is slowed down."""

    def __init__(self, stream: int, a_second: int, tell: Callable[[str], None]) -> None:
        self.stream = stream
        self._a_second = a_second
        self._tell = tell
        self._source, self.end = os.pipe()
        self._may, self._told = float(_SAVED_UP * a_second), time.monotonic()
        self._in_line = False
        self._left_out: list[int] = []
        self._writable = select.poll()
        self._writable.register(stream, select.POLLOUT)
        self._over = _thread.allocate_lock()

    def start(self) -> None:
        """From now on, in a thread; nobody else has the pipe's end any more that the program writes to."""
        self._over.acquire()
        _thread.start_new_thread(self._pass_on, ())

    def await_end(self) -> None:
        """Waits until all that was written is passed on, unless that takes too long."""
        self._over.acquire(timeout=_OUTPUT_SECONDS)

    def _pass_on(self) -> None:
        while piece := os.read(self._source, _OUTPUT_READ):
            self._take(piece)
            time.sleep(_BETWEEN_READS)
        self._say_left_out()
        self._over.release()

    def _take(self, piece: bytes) -> None:
        now = time.monotonic()
        self._may = min(self._may + (now - self._told) * self._a_second, _SAVED_UP * self._a_second)
        self._told = now
        if self._left_out:
            goes_on = self._may >= _TO_GO_ON * self._a_second and self._writable.poll(0)
            end = piece.find(b"\n") + 1 if goes_on else 0
            self._leave_out(piece[:end] if end else piece)
            if not end:
                return
            self._say_left_out()
            piece = piece[end:]
        most = int(self._may)
        passed = len(piece) if len(piece) <= most else piece.rfind(b"\n", 0, most) + 1
        self._write(piece[:passed])
        if passed < len(piece):
            self._leave_out(piece[passed:])

    def _leave_out(self, piece: bytes) -> None:
        if self._in_line and self._writable.poll(0):
            self._write(b"\n")
        bytes_before, lines_before = self._left_out or (0, 0)
        self._left_out = [bytes_before + len(piece), lines_before + piece.count(b"\n")]

    def _say_left_out(self) -> None:
        if self._left_out:
            self._tell(f"silent {_STREAMS[self.stream]} {self._left_out[0]} {self._left_out[1]}")
            self._left_out = []

    def _write(self, piece: bytes) -> None:
        self._may -= len(piece)
        while piece:
            if not self._writable.poll(_PATIENCE_MS):
                return self._leave_out(piece)
            try:
                # So much does not wait where there is room at all.
                written = os.write(self.stream, piece[: select.PIPE_BUF])
            except BlockingIOError:  # others have filled the room
                continue
            except OSError:  # nobody reads it any more
                return None
            self._in_line = piece[written - 1 : written] != b"\n"
            piece = piece[written:]
        return None


class Keeper:
    """Of one program, from its start to its end."""

    def __init__(self, engine: int, passed: int, output: int, program: list[str]) -> None:
        self._engine = engine
        self._changed = _changes()
        watched, self._alive = os.pipe()
        os.set_inheritable(watched, True)
        os.set_inheritable(engine, False)
        self._outputs = [Output(stream, output, self._tell) for stream in _STREAMS] if output else []
        ends = [(os.POSIX_SPAWN_DUP2, one.end, one.stream) for one in self._outputs]
        command = [*program, str(watched)]
        self._program = os.posix_spawn(program[0], command, os.environ, setsid=True, file_actions=ends)
        self._status: int | None = None
        self._traces = False
        for descriptor in (watched, passed, *(one.end for one in self._outputs)):
            os.close(descriptor)

    def keep(self) -> None:
        """Until nothing of the program is left."""
        self._tell(str(self._program))
        for one in self._outputs:
            one.start()
        _thread.start_new_thread(self._weigh, ())
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
        for one in self._outputs:
            one.await_end()
        self._tell(f"ended {self._status}")

    def _weigh(self) -> None:
        """Has threads weigh less that compute beside too many others, as long as this process lives."""
        take_short_turns()  # among so many threads it would be the last to look
        busy, family = BusyThreads(), Family(os.getpid(), MOST_CHILDREN)
        while True:
            time.sleep(_LOOK_AGAIN_SECONDS if busy.seem_many else _LOOK_SECONDS)
            with contextlib.suppress(OSError):  # it has ended just now
                if many := busy.look(family.look, len(os.sched_getaffinity(self._program))):
                    self._tell(f"busy {many}")

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


def main(engine: str, passed: str, output: str, *program: str) -> None:
    """Keeps one program. Signals to all processes mean the engine, which ends this one."""
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    if ctypes.CDLL(None, use_errno=True).prctl(_ADOPT_ORPHANS, 1, 0, 0, 0):
        raise OSError(ctypes.get_errno(), "prctl: orphans cannot be adopted")
    Keeper(int(engine), int(passed), int(output), list(program)).keep()
