"""The engine's end of a worker's process: it is started and ended by a keeper, so that nothing that it started outlives
it, whatever became of it or of the engine."""

from __future__ import annotations

import contextlib
import logging
import socket
import subprocess
from collections.abc import Sequence
from pathlib import Path

from tidegate_serving.workers import keeper
from tidegate_serving.workers.standstill import stands_still

_PACKAGES = str(Path(__file__).parents[2])
_KEEPER = f"import sys; sys.path.append({_PACKAGES!r}); from {keeper.__name__} import main; main(*sys.argv[1:])"
_START_SECONDS = 60.0
_MOST_SAID = 1 << 10
_log = logging.getLogger(__name__)


class KeptProcess:
    """A program that gets `passed`, a descriptor, and as its last argument the number of a pipe's end that is readable
    once nobody keeps it any more. Of what it prints so many bytes a second come through, all where that is 0; what is
    left out is logged by `wait`. OSError where it cannot be started. `end` is for any number of threads."""

    def __init__(self, program: Sequence[str], passed: int, output_bytes: int = 0) -> None:
        self._line, theirs = socket.socketpair()
        with theirs:
            numbers = [theirs.fileno(), passed]
            command = [program[0], "-I", "-S", "-c", _KEEPER, *map(str, [*numbers, output_bytes]), *program]
            try:
                self._keeper = subprocess.Popen(
                    command, stdin=subprocess.DEVNULL, pass_fds=numbers, start_new_session=True
                )
            except BaseException:
                self._line.close()
                raise
        self.pid = self._told_pid()
        self.traced = False

    @property
    def keeper_pid(self) -> int:
        """Of the process of which all that belongs to the program are descendants."""
        return self._keeper.pid

    def end(self) -> None:
        """Ends the program by force, and all that it started; does not wait for that."""
        with contextlib.suppress(OSError):  # it has ended
            self._line.shutdown(socket.SHUT_WR)
            if stands_still(self._keeper.pid):
                self._keeper.kill()

    def wait(self) -> int | None:
        """The program's exit code once nothing of it is left, below 0 the signal that ended it; None where its keeper
        was killed. For one thread, once."""
        status = None
        with self._line, self._line.makefile("r", encoding="ascii") as lines:
            for what, *more in map(str.split, lines):
                if what == "traced":
                    self.traced = True
                elif what == "ended":
                    status = int(more[0])
                elif what == "busy":
                    words = "process %d computes in %s threads at once: they weigh less from now on"
                    _log.warning(words, self.pid, *more)
                elif what == "silent":
                    self._log_left_out(*more)
        self._keeper.wait()
        return status

    def _log_left_out(self, stream: str, size: str, lines: str) -> None:
        _log.warning(
            "process %d printed more than worker_output_bytes allows: %d lines of its %s (%d bytes) are left out",
            self.pid,
            int(lines),
            stream,
            int(size),
        )

    def _told_pid(self) -> int:
        self._line.settimeout(_START_SECONDS)
        told = b""
        try:
            told = self._line.recv(_MOST_SAID, socket.MSG_PEEK)
        finally:
            self._line.settimeout(None)
            if not told:
                self._line.close()
                self._keeper.kill()
                self._keeper.wait()
        if not told:
            raise OSError(f"a worker's keeper ended with status {self._keeper.returncode}: see what it wrote to stderr")
        return int(told.split()[0])
