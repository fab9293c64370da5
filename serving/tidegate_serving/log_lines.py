"""How log lines are written: what follows the first line of a record is set in, and no character steers a terminal, so
that words of a client or of a model pass for no record of their own. Whoever reads them and stops, such as a collector
that hangs, keeps nobody waiting.
"""

from __future__ import annotations

import logging
import os
import select
import threading
from collections import deque

_STANDARD_ERROR = 2
_MOST_BYTES = 1 << 20  # of lines that wait to be written
_PATIENCE_SECONDS = 0.25  # for a line to be written, before nobody waits for the next ones


class LineFormatter(logging.Formatter):
    """Time, level, logger and message; further lines are set in by four blanks."""

    def __init__(self) -> None:
        super().__init__("%(asctime)s %(levelname)s %(name)s %(message)s")

    def format(self, record: logging.LogRecord) -> str:
        """One record, with its traceback where it has one."""
        return "\n    ".join(map(_printable, super().format(record).split("\n")))


class StreamHandler(logging.Handler):
    """Writes to a file descriptor from a thread of its own. Whoever logs waits until the line is written, but only a
    moment, and not at all while nothing is taken; beyond a bound lines are left out, and their number is told. What a
    full disk leaves of one stays a line of its own."""

    def __init__(self, descriptor: int) -> None:
        super().__init__()
        self._descriptor = descriptor
        self.setFormatter(LineFormatter())
        self._begin()
        os.register_at_fork(after_in_child=self._begin)

    def _begin(self) -> None:
        """Nothing is written yet; in a process that was forked, whose parent writes what waits."""
        self._changed = threading.Condition()
        self._lines = deque[bytes]()
        self._bytes = self._left_out = self._written = 0
        self._stalled = self._torn = False
        self._thread: threading.Thread | None = None

    def emit(self, record: logging.LogRecord) -> None:
        """Has one record written, or leaves it out where too much waits."""
        try:
            line = f"{self.format(record)}\n".encode("utf-8", "backslashreplace")
        except Exception:  # as handlers do: the record's arguments are at fault
            return self.handleError(record)
        with self._changed:
            if self._lines and self._bytes + len(line) > _MOST_BYTES:
                self._left_out += 1
                return None
            self._put(line)
            if self._thread is None:
                thread = threading.Thread(target=self._write_all, name="tidegate-log-lines", daemon=True)
                thread.start()
                self._thread = thread
            if not self._stalled:
                self._stalled = not self._await_written()
        return None

    def flush(self) -> None:
        """Waits a moment until all is written."""
        with self._changed:
            self._await_written()

    def _put(self, line: bytes) -> None:
        self._lines.append(line)
        self._bytes += len(line)
        self._changed.notify_all()

    def _await_written(self) -> bool:
        last = self._written + len(self._lines)
        return self._changed.wait_for(lambda: self._written >= last, _PATIENCE_SECONDS)

    def _write_all(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._lines)
                line = self._lines[0]
            self._write(line)
            with self._changed:
                self._lines.popleft()
                self._bytes -= len(line)
                self._written += 1
                self._stalled = self._stalled and bool(self._lines)
                self._changed.notify_all()
                if self._left_out and not self._lines:
                    self._tell_left_out()

    def _tell_left_out(self) -> None:
        words = "%d lines are left out here: whoever reads this stream took none for too long"
        record = logging.LogRecord(__name__, logging.WARNING, "", 0, words, (self._left_out,), None)
        self._left_out = 0
        self._put(f"{self.format(record)}\n".encode())

    def _write(self, line: bytes) -> None:
        left = b"\n" + line if self._torn else line
        while left:
            try:
                left = left[os.write(self._descriptor, left) :]
                self._torn = 0 < len(left) < len(line)
            except BlockingIOError:  # whoever shares the stream has made it so
                select.select((), (self._descriptor,), ())
            except OSError:  # nobody reads it any more, or its disk is full: there is nowhere to say so
                return


def log_to_stderr(level: int = logging.INFO) -> None:
    """Has everything from this level on written to the error stream, for a program that is a server."""
    logging.basicConfig(level=level, handlers=[StreamHandler(_STANDARD_ERROR)])


def _printable(line: str) -> str:
    if line.isprintable():
        return line
    return "".join(one if one.isprintable() else repr(one)[1:-1] for one in line)
