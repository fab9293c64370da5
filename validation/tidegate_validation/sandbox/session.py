"""A model version that can be asked again and again: its process is started afresh whenever the last one died.

Gates open one session per version; it counts deaths, so that they can stop asking, and keeps the most that was used.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tidegate_serving.contract.errors import Unsupported
from tidegate_serving.contract.signature import SERVING_DEFAULT
from tidegate_serving.contract.tensors import Array
from tidegate_validation.sandbox.answer import Answer, AnswerKind
from tidegate_validation.sandbox.environment import PLANTED_SECRET, USUAL, Place
from tidegate_validation.sandbox.limits import SandboxLimits
from tidegate_validation.sandbox.model_process import ModelProcess
from tidegate_validation.sandbox.watch import Use

_LOG_BYTES = 1 << 16


class Session:
    """Calls to the version in `directory`, by one `signature`. A context manager; the first call loads the version.

    `probe` is as for `ModelProcess`. `deaths` counts the processes that the version took down, `ended` all that are
    gone, `calls` the calls; `use` is the most that any of its processes used, with all tries to reach the network;
    `log_bytes` is what they wrote, `told_secret` where the planted secret came back, `late` by how many seconds an
    answer came after its deadline at most. `not_limited` says what this machine could not hold them to, `faults` which
    starts of the sandbox itself failed.
    """

    def __init__(
        self,
        directory: Path,
        limits: SandboxLimits,
        signature: str = SERVING_DEFAULT,
        probe: Sequence[str] | None = None,
    ) -> None:
        self.directory = directory
        self._limits = limits
        self.signature = signature
        self._probe = probe
        self._place = USUAL
        self._process: ModelProcess | None = None
        self._answered = False
        self.deaths = 0
        self.ended = 0
        self.calls = 0
        self.use = Use()
        self.log_bytes = 0
        self.told_secret: set[str] = set()
        self.late = 0.0
        self.not_limited: list[str] = []
        self.faults: list[str] = []

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.renew()

    def load(self, seconds: float | None = None) -> Answer:
        """Loads the version, unless it is; the answer says whether it did. Unsupported where it needs a package that is
        not installed here, which is no fault of the version."""
        if self._process is not None:
            return Answer(AnswerKind.OUTPUTS)
        process = ModelProcess(self.directory, self._limits, self._probe, self._place)
        answer = process.start(seconds)
        self.not_limited = process.sandboxed.missing
        self.faults += process.sandboxed.faults
        self._process = process
        if answer.kind is not AnswerKind.OUTPUTS:
            self.deaths += 1
            self._forget(process)
        return self._told(answer)

    def ask(self, tensors: Mapping[str, Array], seconds: float | None = None, signature: str = "") -> Answer:
        """One call, in a fresh process if the last one is gone; NOT_LOADED where it does not load any more. By another
        `signature` than the session's where one is named."""
        return self._call(lambda process: process.predict(tensors, seconds, signature or self.signature))

    def ask_at_once(
        self,
        tensors: Mapping[str, Array],
        calls: Sequence[tuple[int, int]],
        threads: int,
        seconds: float | None = None,
        within: float = math.inf,
    ) -> Answer:
        """Many calls from several threads; see `ModelProcess.predict_at_once`."""
        return self._call(
            lambda process: process.predict_at_once(tensors, calls, threads, seconds, within, self.signature)
        )

    def stop(self, seconds: float) -> Answer | None:
        """Has the version unloaded and its process end by itself; None where none is running."""
        process = self._process
        if process is None:
            return None
        answer = process.stop(seconds)
        self._forget(process)
        return answer

    def renew(self, place: Place = USUAL) -> None:
        """Ends the process, so that the next call has a fresh one, in `place`."""
        self._place = place
        if self._process is not None:
            self._process.close()
            self._forget(self._process)

    def log_bytes_now(self) -> int:
        """How much it wrote to its log so far, in all its processes."""
        return self.log_bytes + (self._process.sandboxed.log_bytes if self._process is not None else 0)

    def processor_seconds(self) -> float:
        """Processor time that the version's processes had or waited for so far; 0 where none is running."""
        return self._process.sandboxed.processor_seconds() if self._process is not None else 0.0

    def processes(self) -> int:
        """How many processes the version has now, itself included."""
        return self._process.sandboxed.processes() if self._process is not None else 0

    def disk_bytes(self) -> int:
        """How many bytes the version's files take now."""
        return self._process.sandboxed.disk_bytes() if self._process is not None else 0

    def _call(self, call: Callable[[ModelProcess], Answer]) -> Answer:
        if self._process is None:
            loaded = self.load()
            if self._process is None:
                return loaded
        self.calls += 1
        process = self._process
        answer = call(process)
        if answer.fatal:
            self.deaths += 1
            self._forget(process)
        self._answered |= answer.kind is AnswerKind.OUTPUTS
        return self._told(answer)

    def _told(self, answer: Answer) -> Answer:
        """The answer; what a version lacks counts as long as it answered nothing."""
        if PLANTED_SECRET in answer.words:
            self.told_secret.add("the words of its errors")
        if answer.lacks and not self._answered:
            raise Unsupported(f"the version in {self.directory} {answer.lacks}")
        return answer

    def _forget(self, process: ModelProcess) -> None:
        self.use = self.use.with_more(process.sandboxed.use)
        self.log_bytes += process.sandboxed.log_bytes
        if PLANTED_SECRET in process.sandboxed.log(_LOG_BYTES):
            self.told_secret.add("its log")
        self.late = max(self.late, process.late)
        self.ended += 1
        self._process = None
