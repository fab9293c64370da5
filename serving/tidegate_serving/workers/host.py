"""A process that runs workers: one of a version alone, or those of several versions that share it.

`python -m tidegate_serving.worker SOCKET PIPE` has one end of a socket, over which it gets the channel of each worker
that it is to run, a thread for each, and ends once the other end is closed. Its keeper (`workers.kept`) ends it and all
that it started once the engine is gone, whatever they do; once the keeper is gone, of which it has the end of PIPE that
is never written to, the system ends it. A process that holds more memory than its place allows is ended too, and one
that starts a thousand others, in which a call takes longer or a thread is traced. Each is a session of its own: where
Linux groups sessions for its scheduler, a model with very many threads competes with the engine and other workers as
one of them; elsewhere these threads are made to weigh less.

Over the socket a process that is shared is also asked whether Python runs in it: one in which a model keeps all of
Python waiting for too long, and with it its neighbours, is ended. So is one that stays stopped, as by SIGSTOP.
"""

from __future__ import annotations

import contextlib
import errno
import logging
import os
import signal
import socket
import threading
import time
from collections.abc import Callable, Sequence

import tidegate_native as native

from tidegate_serving.workers import lost_gpu
from tidegate_serving.workers.family import MOST_CHILDREN, Family
from tidegate_serving.workers.kept import KeptProcess
from tidegate_serving.workers.memory import held_bytes
from tidegate_serving.workers.place import WorkerPlace
from tidegate_serving.workers.process_files import state
from tidegate_serving.workers.standstill import STANDSTILL_SECONDS, Standstill

_END_SECONDS = 1.0
_BOUNDS_SECONDS = 0.25
_PULSE_SECONDS = 0.5
_log = logging.getLogger(__name__)


class HostEnded(Exception):
    """The process takes no workers any more."""


class Host:
    """One such process, which ends with the last of its workers. For any number of threads.

    `patience` says for how many seconds neighbours may have to wait while no Python runs; None for a process of one
    version alone. It takes workers before `start`, so that one that ends as soon as it starts is told by the first.
    """

    def __init__(self, place: WorkerPlace, patience: Callable[[], float] | None = None) -> None:
        self.place = place
        self._patience = patience
        self._lock = threading.Lock()
        self._workers: dict[native.WorkerLine, Callable[[str], object] | None] = {}
        self._closing = False
        self._held = 0
        self._crowded = False
        self._overdue: native.WorkerLine | None = None
        self._stood_still = False
        self._answered = time.monotonic()  # when Python was seen to run in it
        self._status: int | None = None
        self._ended = threading.Event()
        self._control, self._theirs = socket.socketpair()

    def start(self) -> None:
        """Starts the process. OSError where that cannot be."""
        place, patience = self.place, self._patience
        try:
            program = [place.interpreter, "-P", "-m", "tidegate_serving.worker", str(self._theirs.fileno())]
            self._process = KeptProcess(program, self._theirs.fileno(), place.output_bytes)
        except BaseException:
            self._control.close()
            raise
        finally:
            self._theirs.close()
        if place.processors:
            with contextlib.suppress(ProcessLookupError):  # it has ended already
                os.sched_setaffinity(self._process.pid, place.processors)
        self._look_after(patience)

    def _look_after(self, patience: Callable[[], float] | None) -> None:
        """Starts its threads. OSError where the system lacks some; then the process has ended."""
        watch = threading.Thread(target=self._watch, name="tidegate-worker-watch", daemon=True)
        try:
            watch.start()
            threading.Thread(target=self._keep_bounds, name="tidegate-worker-bounds", daemon=True).start()
            if patience is not None:
                pulse = threading.Thread(target=self._feel_pulse, args=[patience], name="tidegate-worker-pulse")
                pulse.daemon = True
                pulse.start()
        except RuntimeError as error:
            self.kill()
            if watch.ident is None:
                self._watch()
            self._ended.wait()
            self._control.close()
            raise OSError(errno.EAGAIN, str(error)) from error

    @property
    def pid(self) -> int:
        """Of the process."""
        return self._process.pid

    @property
    def workers(self) -> int:
        """How many it runs."""
        with self._lock:
            return len(self._workers)

    @property
    def is_open(self) -> bool:
        """Whether it takes workers."""
        return not self._closing

    @property
    def outgrew(self) -> bool:
        """Whether it was ended since it held more memory than its place allows, or started too many processes."""
        return self._held > 0 or self._crowded

    @property
    def lost_gpu(self) -> bool:
        """Whether it ended since a GPU answered it no more."""
        return self._status == lost_gpu.STATUS

    def was_ended_for(self, line: native.WorkerLine) -> bool:
        """Whether it was ended since a call of this worker took too long."""
        return self._overdue is line

    def open(self) -> native.WorkerLine:
        """The line to one more worker. HostEnded where there can be none."""
        line = native.WorkerLine()
        with socket.socket(fileno=line.take_other_end()) as theirs, self._lock:
            try:
                if self._closing:
                    raise HostEnded(f"process {self.pid} is ending")
                socket.send_fds(self._control, [b"+"], [theirs.fileno()])
            except (OSError, HostEnded) as error:
                self._closing = True  # whoever looks for a process must not find this one again and again
                raise HostEnded(str(error)) from error
            self._workers[line] = None
        return line

    def holds_up_neighbours(self, since: float) -> bool:
        """Whether no Python has run in it since then, a `time.monotonic()`, and several workers are there, who get as
        long as `patience` says."""
        with self._lock:
            shared = self._patience is not None and not self._closing and len(self._workers) > 1
        return shared and self._answered < since

    def call_at_end(self, line: native.WorkerLine, call: Callable[[str], object]) -> None:
        """Has a worker told how the process ended, once it has, at once where that is past."""
        with self._lock:
            lives = line in self._workers and not self._closing
            if lives:
                self._workers[line] = call
        if not lives:
            call(self.ending())

    def leave(self, line: native.WorkerLine) -> None:
        """A worker needs the process no more; the last one ends it, by force where it takes more than a second."""
        with self._lock:
            if line not in self._workers:
                return
            del self._workers[line]
            if self._workers:
                return
            self._closing = True
            self._control.close()
        if not self._ended.wait(_END_SECONDS):
            self.kill()
            self._ended.wait()

    def kill(self) -> None:
        """Ends it by force; whoever waits for a worker's answer gets WorkerDied."""
        self._process.end()

    def ending(self) -> str:
        """How the process ended, in words."""
        if not self._ended.wait(_END_SECONDS) and self._lives():
            return "it closed its connection"
        self._ended.wait()
        if self._held:
            held, most = self._held / 2**20, self.place.memory_bytes / 2**20
            return f"it held {held:,.0f} MB of memory, and worker_memory_bytes allows {most:,.0f} MB"
        if self._crowded:
            return f"it started more than {MOST_CHILDREN:,} processes"
        if self._overdue is not None:
            return f"a call in it took longer than the {self.place.call_seconds:g} s that call_seconds allows"
        if self._stood_still:
            return f"it was stopped by a signal and did not go on for {STANDSTILL_SECONDS:.0f} s"
        if self._process.traced:
            return "a thread of it was traced by its keeper (ptrace), which is no debugger"
        if self._status is None:
            return "the process that kept it was ended by force"
        if self.lost_gpu:
            return lost_gpu.WORDS
        if self._status < 0:
            return f"it was ended by {_name(-self._status)}"
        return f"it ended with status {self._status}"

    def _lives(self) -> bool:
        """Whether there is more to wait for than the end of what it started."""
        try:
            return state(self.pid) not in ("X", "Z")
        except OSError:
            return False

    def _keep_bounds(self) -> None:
        """Ends the process once it holds too much, has started too many others, stands still, or a call in it takes too
        long."""
        standstill, family = Standstill(), Family(self._process.keeper_pid, MOST_CHILDREN + 2)
        while not self._ended.wait(_BOUNDS_SECONDS):
            with contextlib.suppress(OSError):  # it has ended just now
                found = family.look()
                self._crowded = self._crowded or len(found) > MOST_CHILDREN + 1
                self._held = self._held or self._too_much(found)
                self._stood_still = self._stood_still or standstill.lasts([self.pid, self._process.keeper_pid])
            self._overdue = self._overdue or self._too_long()
            if self._crowded or self._held or self._stood_still or self._overdue is not None:
                self.kill()

    def _too_much(self, family: Sequence[int]) -> int:
        """What it holds with those that it started, if that is more than its place allows; else 0."""
        most = self.place.memory_bytes
        return held if most and (held := held_bytes(family, most)) > most else 0

    def _too_long(self) -> native.WorkerLine | None:
        """The worker whose call has taken longer than its place allows, the longest first. A load is no call."""
        most = self.place.call_seconds
        if not most:
            return None
        with self._lock:
            calls = {line: line.unanswered_seconds() or 0.0 for line, end in self._workers.items() if end is not None}
        longest = max(calls, key=calls.__getitem__, default=None)
        return longest if longest is not None and calls[longest] > most else None

    def _feel_pulse(self, patience: Callable[[], float]) -> None:
        """Ends the process once it has said nothing for too long although it has several workers."""
        heard, asked = self._answered, False
        while not self._ended.wait(_PULSE_SECONDS):
            with self._lock:
                if self._closing:
                    return
                try:
                    answered = not asked or self._has_answered()
                    if answered:
                        self._control.send(b"?")
                except OSError:  # it has ended just now
                    return
                asked, crowded = True, len(self._workers) > 1
            now = time.monotonic()
            if answered:
                self._answered = now
            if answered or not crowded:
                heard = now
            elif now - heard >= patience():
                _log.warning(
                    "process %d, which versions share, is ended: a model kept all of Python waiting for %.1f s",
                    self.pid,
                    now - heard,
                )
                self.kill()
                return

    def _has_answered(self) -> bool:
        try:
            return bool(self._control.recv(1, socket.MSG_DONTWAIT))
        except BlockingIOError:
            return False

    def _watch(self) -> None:
        """Tells its workers once the process has ended, and all that it started."""
        self._status = self._process.wait()
        self._ended.set()
        with self._lock:
            self._closing = True
            workers = dict(self._workers)
        for line in workers:
            line.hang_up()
        for call in workers.values():
            if call is not None:
                call(self.ending())


def started(place: WorkerPlace, patience: Callable[[], float] | None = None) -> tuple[Host, native.WorkerLine]:
    """A new process with its first worker. OSError where none can be started."""
    host = Host(place, patience)
    line = host.open()
    host.start()
    return host, line


def _name(number: int) -> str:
    try:
        return signal.Signals(number).name
    except ValueError:
        return f"signal {number}"
