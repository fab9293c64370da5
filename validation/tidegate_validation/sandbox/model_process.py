"""One model version in a sandboxed process of its own, asked over pipes with a deadline for every call.

Whatever the version does, crash, hang or end without a word, the caller gets an `Answer`.
"""

from __future__ import annotations

import contextlib
import math
import queue
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import BinaryIO

from tidegate_serving.contract.errors import TidegateError
from tidegate_serving.contract.formats import MALFORMED
from tidegate_serving.contract.probe_frames import Frame, read_frame, write_frame
from tidegate_serving.contract.signature import SERVING_DEFAULT
from tidegate_serving.contract.tensors import Array
from tidegate_validation.sandbox.answer import Answer, AnswerKind, ProcessState
from tidegate_validation.sandbox.environment import USUAL, Place
from tidegate_validation.sandbox.limits import SandboxLimits
from tidegate_validation.sandbox.process import SandboxedProcess, ending

_PROBE = (sys.executable, "-m", "tidegate_serving.probe")
_LOG_BYTES = 4000
_POLL = 1.0
_LAST_WORDS = 0.5
_DUMP = 0.7
_CONCURRENT_SECONDS = 1.0
_INTERLEAVING_SECONDS = 5.0
"""What the probe's own switching of threads may add to calls at once, on a busy machine."""
_ANSWERED = ("loaded", "outputs", "stopped")


class ModelProcess:
    """A running probe. `start` first; after a fatal answer the process is gone and a new one is needed.

    `probe` is a command that loads the version whose directory is its next argument, and speaks the frames of
    `tidegate_serving.contract.probe_frames`; `tidegate_serving.probe` if not given. `sandboxed` is the process that it
    runs in, which knows what was used and what could not be limited.
    """

    def __init__(
        self, directory: Path, limits: SandboxLimits, probe: Sequence[str] | None = None, place: Place = USUAL
    ) -> None:
        self._limits = limits
        pickle = ["--allow-pickle"] if limits.allow_pickle else []
        clock = [] if place.clock_by is None else ["--clock-by", str(place.clock_by)]
        command = [*(probe or _PROBE), str(directory.resolve()), *pickle, *clock]
        self.sandboxed = SandboxedProcess(command, limits, directory, place=place)
        self._received: queue.SimpleQueue[Frame | Exception | None] = queue.SimpleQueue()
        self._to_send: queue.SimpleQueue[Frame | None] = queue.SimpleQueue()
        self._threads: list[threading.Thread] = []
        self._calls = 0
        self._deadline = 0.0
        self.late = 0.0
        """By how many seconds the latest answer of all came after its deadline."""

    def start(self, seconds: float | None = None) -> Answer:
        """Starts the process and waits until the version is loaded. Unavailable where the sandbox itself cannot."""
        self.sandboxed.start()
        self._threads = [
            threading.Thread(target=work, args=(stream,), daemon=True)
            for work, stream in ((self._receive, self.sandboxed.stdout), (self._send, self.sandboxed.stdin))
        ]
        for thread in self._threads:
            thread.start()
        most = seconds if seconds is not None else self._limits.load_seconds
        answer = self._await("", most)
        if answer.kind is not AnswerKind.OUTPUTS:
            self.close()
        self.late = max(self.late, time.monotonic() - self._deadline)
        return answer

    def predict(
        self, tensors: Mapping[str, Array], seconds: float | None = None, signature: str = SERVING_DEFAULT
    ) -> Answer:
        """One call; `seconds` is its deadline, the limits' if not given."""
        return self._call("predict", {"signature": signature}, tensors, seconds)

    def predict_at_once(
        self,
        tensors: Mapping[str, Array],
        calls: Sequence[tuple[int, int]],
        threads: int,
        seconds: float | None = None,
        within: float = math.inf,
        signature: str = SERVING_DEFAULT,
    ) -> Answer:
        """Calls with the given ranges of rows, again and again from several threads at once.

        The outputs hold, for every round, the rows of all calls in order: shape [rounds * rows, ...]. `seconds` is each
        call's own deadline; threads may have to take turns, so that the next call of any may take so long for each of
        them. `within` is the deadline of all calls together.
        """
        each = seconds if seconds is not None else self._limits.call_seconds
        head = {"signature": signature, "calls": calls, "threads": threads, "seconds": _CONCURRENT_SECONDS}
        return self._call("concurrent", head, tensors, threads * each + _INTERLEAVING_SECONDS, within)

    def stop(self, seconds: float) -> Answer:
        """Has the version unloaded and the process end by itself; OUTPUTS without outputs where that went well."""
        begun = time.monotonic()
        answer = self._call("stop", {}, {}, seconds)
        if answer.kind is AnswerKind.OUTPUTS:
            status = self.sandboxed.wait(max(0.0, seconds - answer.seconds))
            if status is None:
                answer = self._after_deadline(f"was unloaded but did not end within {seconds:g} s")
            elif status != 0:
                answer = self._dead(AnswerKind.DIED, ending(status, " after it was unloaded"))
            else:
                left = self.sandboxed.left_behind(max(0.0, seconds - (time.monotonic() - begun)))
                answer = replace(answer, left=tuple(left))
        self.close()
        self.late = max(self.late, time.monotonic() - begun - seconds)
        return answer

    def close(self) -> None:
        """Ends the process and everything it started. Safe to call twice."""
        self.sandboxed.kill()
        self._to_send.put(None)
        for thread in self._threads:
            thread.join(timeout=_LAST_WORDS)

    def _call(
        self,
        kind: str,
        head: Mapping[str, object],
        tensors: Mapping[str, Array],
        seconds: float | None,
        within: float = math.inf,
    ) -> Answer:
        self._calls += 1
        token = f"{self._calls}"
        most = seconds if seconds is not None else self._limits.call_seconds
        self._to_send.put(Frame(kind, token, head, tensors))
        answer = self._await(token, most, within)
        if answer.fatal:
            self.close()
        self.late = max(self.late, time.monotonic() - self._deadline)
        return answer

    def _await(self, token: str, seconds: float, within: float = math.inf) -> Answer:
        """The answer to one frame; `seconds` begin again whenever there is progress, `within` does not."""
        last = time.monotonic() + within
        self._deadline = min(time.monotonic() + seconds, last)
        while True:
            left = self._deadline - time.monotonic()
            try:
                frame = self._received.get(timeout=max(0.0, min(left, _POLL)))
            except queue.Empty:
                if not self.sandboxed.running:
                    return self._after_end()
                if left > 0:
                    continue
                return self._after_deadline(f"gave no answer within {min(seconds, within):g} s")
            if isinstance(frame, Exception):
                words = "wrote what is no answer, as one does that replaces functions of Python or of a library"
                return self._dead(AnswerKind.GARBLED, f"{words} ({frame})")
            if frame is None:
                return self._after_end()
            if frame.token == token and frame.kind == "progress":
                self._deadline = min(time.monotonic() + seconds, last)
            elif frame.token == token:
                try:
                    return _answer(frame, self.sandboxed.log(_LOG_BYTES) if frame.kind == "failed" else "")
                except MALFORMED as error:
                    words = f"wrote a frame whose head is no answer's ({type(error).__name__}: {error})"
                    return self._dead(AnswerKind.GARBLED, words)

    def _after_end(self) -> Answer:
        status = self.sandboxed.wait(_LAST_WORDS)
        if self.sandboxed.breach is not None:
            return self._dead(AnswerKind.DIED, self.sandboxed.breach)
        if status is None:
            return self._dead(AnswerKind.DIED, "closed its output and gave no answer")
        return self._dead(AnswerKind.DIED, ending(status, " and gave no answer"))

    def _after_deadline(self, words: str) -> Answer:
        self.sandboxed.dump()
        self.sandboxed.wait(_DUMP)
        breach = self.sandboxed.breach
        return self._dead(AnswerKind.HUNG, f"{words}, and {breach}" if breach else words)

    def _dead(self, kind: AnswerKind, words: str) -> Answer:
        self.sandboxed.kill()
        return Answer(kind, words=words, log=self.sandboxed.log(_LOG_BYTES))

    def _receive(self, stream: BinaryIO) -> None:
        with stream:
            try:
                while (frame := read_frame(stream)) is not None:
                    self._received.put(frame)
                self._received.put(None)
            except (TidegateError, OSError) as error:
                self._received.put(error if self.sandboxed.running else None)

    def _send(self, stream: BinaryIO) -> None:
        with contextlib.suppress(OSError, ValueError), stream:
            while (frame := self._to_send.get()) is not None:
                write_frame(stream, frame)


def _answer(frame: Frame, log: str) -> Answer:
    """What a frame says. One of MALFORMED for a head that lacks something or holds what cannot be."""
    lacks = str(frame.head.get("lacks", ""))
    if frame.kind == "failed":
        return Answer(AnswerKind.NOT_LOADED, words=str(frame.head["message"]), log=log, lacks=lacks)
    if frame.kind == "error":
        raised = tuple(str(name) for name in frame.head.get("raised", ()))
        return Answer(AnswerKind.REFUSED, words=str(frame.head["message"]), raised=raised, lacks=lacks)
    seconds = float(frame.head.get("seconds", 0.0))
    if frame.kind not in _ANSWERED or not 0.0 <= seconds < math.inf:
        raise ValueError(f"kind {frame.kind!r}, {seconds:g} s")
    return Answer(
        AnswerKind.OUTPUTS,
        outputs=frame.tensors,
        seconds=seconds,
        resident_bytes=int(frame.head.get("resident_bytes", 0)),
        state=ProcessState.from_head(frame.head.get("state", {})),
    )
