"""A version that can be asked again and again: a sandbox, started afresh whenever the version killed the last one.

Gates open one session per version; it counts deaths, so that they can stop asking, and keeps the most that was used.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tidegate_serving.contract.signature import SERVING_DEFAULT
from tidegate_serving.contract.tensors import Array
from tidegate_validation.robustness.answer import Answer, AnswerKind
from tidegate_validation.robustness.limits import RobustnessLimits
from tidegate_validation.robustness.sandbox import Sandbox
from tidegate_validation.robustness.watch import Use

PROBE = ("-m", "tidegate_serving.probe")


def probe_command(directory: Path, override: Sequence[str] | None, limits: RobustnessLimits) -> list[str]:
    """The command that loads the version in `directory` and answers frames."""
    pickle = ["--allow-pickle"] if limits.allow_pickle else []
    return [*(override or (sys.executable, *PROBE)), str(directory.resolve()), *pickle]


class Session:
    """Calls to one version. A context manager; `deaths` counts the processes that it took down, `calls` the calls.

    `use` is the most that any of its processes used, with all tries to reach the network; `log_bytes` is what they
    wrote, `late` by how many seconds an answer came after its deadline at most. `not_limited` says what this machine
    could not hold them to, `faults` which starts of the sandbox failed.
    """

    def __init__(self, command: Sequence[str], limits: RobustnessLimits, signature: str = SERVING_DEFAULT) -> None:
        self._command = command
        self._signature = signature
        self._limits = limits
        self._sandbox: Sandbox | None = None
        self.deaths = 0
        self.calls = 0
        self.use = Use()
        self.log_bytes = 0
        self.late = 0.0
        self.not_limited: list[str] = []
        self.faults: list[str] = []

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._sandbox is not None:
            self._sandbox.close()
            self._forget(self._sandbox)

    def load(self, seconds: float | None = None) -> Answer:
        """Loads the version, unless it is; the answer says whether it did."""
        if self._sandbox is not None:
            return Answer(AnswerKind.OUTPUTS)
        sandbox = Sandbox(self._command, self._limits)
        answer = sandbox.start(seconds)
        self.not_limited = sandbox.not_limited
        self.faults += sandbox.faults
        self._sandbox = sandbox
        if answer.kind is not AnswerKind.OUTPUTS:
            self.deaths += 1
            self._forget(sandbox)
        return answer

    def ask(self, tensors: Mapping[str, Array], seconds: float | None = None) -> Answer:
        """One call, in a fresh process if the last one is gone; NOT_LOADED where it does not load any more."""
        return self._call(lambda sandbox: sandbox.predict(tensors, seconds, self._signature))

    def ask_at_once(
        self,
        tensors: Mapping[str, Array],
        calls: Sequence[tuple[int, int]],
        threads: int,
        seconds: float | None = None,
    ) -> Answer:
        """Many calls from several threads; see `Sandbox.predict_at_once`."""
        return self._call(
            lambda sandbox: sandbox.predict_at_once(tensors, calls, threads, seconds, signature=self._signature)
        )

    def stop(self, seconds: float) -> Answer | None:
        """Has the version unloaded and its process end by itself; None where none is running."""
        sandbox = self._sandbox
        if sandbox is None:
            return None
        answer = sandbox.stop(seconds)
        self._forget(sandbox)
        return answer

    def log_bytes_now(self) -> int:
        """How much it wrote to its log so far, in all its processes."""
        return self.log_bytes + (self._sandbox.log_bytes if self._sandbox is not None else 0)

    def processes(self) -> int:
        """How many processes the version has now, itself included."""
        return self._sandbox.processes() if self._sandbox is not None else 0

    def _call(self, call: Callable[[Sandbox], Answer]) -> Answer:
        if self._sandbox is None:
            loaded = self.load()
            if self._sandbox is None:
                return loaded
        self.calls += 1
        sandbox = self._sandbox
        answer = call(sandbox)
        if answer.fatal:
            self.deaths += 1
            self._forget(sandbox)
        return answer

    def _forget(self, sandbox: Sandbox) -> None:
        self.use = self.use.with_more(sandbox.use)
        self.log_bytes += sandbox.log_bytes
        self.late = max(self.late, sandbox.late)
        self._sandbox = None
