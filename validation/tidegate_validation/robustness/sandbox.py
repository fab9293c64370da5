"""One version in a child process of its own, asked over pipes with a deadline for every call.

The robustness and quality gates open a `Sandbox`, call `predict` and close it; whatever the version does, crash, hang
or leave without a word, comes back as an `Answer`.
"""

from __future__ import annotations

import contextlib
import os
import queue
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Mapping, Sequence
from typing import IO, BinaryIO

from tidegate_serving.contract.errors import TidegateError
from tidegate_serving.contract.probe_frames import Frame, read_frame, write_frame
from tidegate_serving.contract.signature import SERVING_DEFAULT
from tidegate_serving.contract.tensors import Array
from tidegate_validation.robustness.answer import Answer, AnswerKind
from tidegate_validation.robustness.confinement import command_line, confine, environment
from tidegate_validation.robustness.limits import RobustnessLimits

_LOG_BYTES = 4000
_LAST_WORDS = 1.0
_DUMP = 2.0


class Sandbox:
    """A running probe. `start` first; after a fatal answer the process is gone and a new Sandbox is needed."""

    def __init__(self, command: Sequence[str], limits: RobustnessLimits) -> None:
        self._command = list(command)
        self._limits = limits
        self._received: queue.SimpleQueue[Frame | Exception | None] = queue.SimpleQueue()
        self._to_send: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._calls = 0
        self.not_limited: list[str] = []

    def start(self) -> Answer:
        """Starts the process and waits until the version is loaded."""
        self._home = tempfile.TemporaryDirectory(prefix="tidegate-probe-")
        self._log: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115 - closed in close()
        self._process = subprocess.Popen(
            command_line(self._command, self._limits),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            env=environment(),
            cwd=self._home.name,
            start_new_session=True,
        )
        self.not_limited = confine(self._process.pid, self._limits)
        self._threads = [
            threading.Thread(target=work, args=(stream,), daemon=True)
            for work, stream in ((self._receive, self._process.stdout), (self._send, self._process.stdin))
        ]
        for thread in self._threads:
            thread.start()
        answer = self._await("", self._limits.load_seconds)
        if answer.kind is not AnswerKind.OUTPUTS:
            self.close()
        return answer

    def predict(
        self, tensors: Mapping[str, Array], seconds: float | None = None, signature: str = SERVING_DEFAULT
    ) -> Answer:
        """One call; `seconds` is its deadline, the limits' if not given."""
        self._calls += 1
        token = f"{self._calls}"
        self._to_send.put(Frame("predict", token, {"signature": signature}, tensors))
        answer = self._await(token, seconds if seconds is not None else self._limits.call_seconds)
        if answer.fatal:
            self.close()
        return answer

    def close(self) -> None:
        """Ends the process and everything it started. Safe to call twice."""
        self._kill()
        self._to_send.put(None)
        for thread in self._threads:
            thread.join(timeout=_DUMP)
        for stream in (self._process.stdin, self._process.stdout):
            if stream is not None and not any(thread.is_alive() for thread in self._threads):
                with contextlib.suppress(BrokenPipeError):
                    stream.close()
        if not self._log.closed:
            self._log.close()
        self._home.cleanup()

    def _await(self, token: str, seconds: float) -> Answer:
        begun = time.monotonic()
        while True:
            left = begun + seconds - time.monotonic()
            try:
                frame = self._received.get(timeout=max(0.0, min(left, _LAST_WORDS)))
            except queue.Empty:
                if self._process.poll() is not None:
                    return self._after_end()
                if left > 0:
                    continue
                return self._after_deadline(seconds)
            if isinstance(frame, Exception):
                return self._dead(AnswerKind.GARBLED, f"wrote what is no answer ({frame})")
            if frame is None:
                return self._after_end()
            if frame.token == token:
                return _answer(frame, self._tail() if frame.kind == "failed" else "")

    def _after_end(self) -> Answer:
        try:
            status = self._process.wait(timeout=_LAST_WORDS)
        except subprocess.TimeoutExpired:
            return self._dead(AnswerKind.DIED, "closed its output and gave no answer")
        if status < 0:
            return self._dead(AnswerKind.DIED, f"was ended by {signal.Signals(-status).name}")
        return self._dead(AnswerKind.DIED, f"ended with exit status {status} and gave no answer")

    def _after_deadline(self, seconds: float) -> Answer:
        with contextlib.suppress(ProcessLookupError):
            self._process.send_signal(signal.SIGABRT)
        with contextlib.suppress(subprocess.TimeoutExpired):
            self._process.wait(timeout=_DUMP)
        return self._dead(AnswerKind.HUNG, f"gave no answer within {seconds:g} s")

    def _dead(self, kind: AnswerKind, words: str) -> Answer:
        self._kill()
        return Answer(kind, words=words, log=self._tail())

    def _kill(self) -> None:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def _tail(self) -> str:
        size = self._log.seek(0, os.SEEK_END)
        self._log.seek(max(0, size - _LOG_BYTES))
        return self._log.read().decode(errors="replace")

    def _receive(self, stream: BinaryIO) -> None:
        try:
            while (frame := read_frame(stream)) is not None:
                self._received.put(frame)
            self._received.put(None)
        except (TidegateError, ValueError, KeyError, TypeError, OSError) as error:
            self._received.put(error if self._process.poll() is None else None)

    def _send(self, stream: BinaryIO) -> None:
        with contextlib.suppress(OSError, ValueError):
            while (frame := self._to_send.get()) is not None:
                write_frame(stream, frame)


def _answer(frame: Frame, log: str) -> Answer:
    if frame.kind == "failed":
        return Answer(AnswerKind.NOT_LOADED, words=str(frame.head["message"]), code=str(frame.head["code"]), log=log)
    if frame.kind == "error":
        return Answer(AnswerKind.REFUSED, words=str(frame.head["message"]), code=str(frame.head["code"]))
    return Answer(
        AnswerKind.OUTPUTS,
        outputs=frame.tensors,
        seconds=float(frame.head["seconds"]),
        resident_bytes=int(frame.head["resident_bytes"]),
    )
