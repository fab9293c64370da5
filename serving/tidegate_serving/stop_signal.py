"""Waits for SIGTERM or SIGINT, and for SIGHUP, without ever missing one.

The server uses one on the main thread. Python runs a signal's handler only when the main thread comes by; one that is
about to sleep on a lock may sleep through it. Here the signal's number arrives in a socket, which cannot be missed, and
on its way there passes a thread that needs no Python: it ends the process where a stop hangs.
"""

from __future__ import annotations

import signal
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType, TracebackType
from typing import Any, Self

from tidegate_native import ExitGuard

from tidegate_serving.forked_signals import own_signals

SIGNALS = (signal.SIGTERM, signal.SIGINT)
RELOAD = signal.SIGHUP


class StoppedEarlyError(BaseException):
    """A stop signal arrived before the engine was up."""


class StopSignal:
    """A context manager for the main thread; handlers are as before afterwards."""

    def __init__(self) -> None:
        self.guard = ExitGuard()
        self._reader = socket.socket(fileno=self.guard.passed_on)
        self._writer = socket.socket(fileno=self.guard.signals)
        self._interrupting = False
        self._told = False
        self._handlers: dict[signal.Signals, Any] = {}

    def __enter__(self) -> Self:
        self._wakeup = signal.set_wakeup_fd(self._writer.fileno(), warn_on_full_buffer=False)
        self._handlers = {number: signal.signal(number, self._handle) for number in (*SIGNALS, RELOAD)}
        own_signals(self._handlers, self._restore)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._restore()
        self._reader.close()
        self._writer.close()

    def _restore(self) -> None:
        """Also in a process that a model forked: what it gets is no word to the server to stop."""
        if self._handlers:
            signal.set_wakeup_fd(self._wakeup)
        while self._handlers:
            signal.signal(*self._handlers.popitem())

    @contextmanager
    def interrupting(self) -> Iterator[None]:
        """Within it a signal, also one that has arrived already, raises StoppedEarlyError on the main thread, once."""
        self._interrupting = True
        try:
            if self._told:
                raise StoppedEarlyError
            yield
        finally:
            self._interrupting = False

    def wait(self) -> bool:
        """True once a stop signal has arrived, at once if one has already; False for SIGHUP."""
        while True:
            arrived = set(self._reader.recv(64))
            if arrived & set(SIGNALS):
                return True
            if RELOAD in arrived:
                return False

    def _handle(self, number: int, frame: FrameType | None) -> None:
        if number == RELOAD:
            return
        self._told = True
        if self._interrupting:
            self._interrupting = False
            raise StoppedEarlyError
