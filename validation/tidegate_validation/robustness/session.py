"""A version that can be asked again and again: a sandbox, started afresh whenever the version killed the last one.

Gates open one session per version; it counts deaths, so that they can stop asking.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from types import TracebackType

from tidegate_serving.contract.signature import SERVING_DEFAULT
from tidegate_serving.contract.tensors import Array
from tidegate_validation.robustness.answer import Answer, AnswerKind
from tidegate_validation.robustness.limits import RobustnessLimits
from tidegate_validation.robustness.sandbox import Sandbox

PROBE = ("-m", "tidegate_serving.probe")


def probe_command(directory: Path, override: Sequence[str] | None, limits: RobustnessLimits) -> list[str]:
    """The command that loads the version in `directory` and answers frames."""
    pickle = ["--allow-pickle"] if limits.allow_pickle else []
    return [*(override or (sys.executable, *PROBE)), str(directory.resolve()), *pickle]


class Session:
    """Calls to one version. A context manager; `deaths` counts the processes that it took down."""

    def __init__(self, command: Sequence[str], limits: RobustnessLimits, signature: str = SERVING_DEFAULT) -> None:
        self._command = command
        self._signature = signature
        self._limits = limits
        self._sandbox: Sandbox | None = None
        self.deaths = 0
        self.not_limited: list[str] = []

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if self._sandbox is not None:
            self._sandbox.close()
            self._sandbox = None

    def load(self) -> Answer:
        """Loads the version, unless it is; the answer says whether it did."""
        if self._sandbox is not None:
            return Answer(AnswerKind.OUTPUTS)
        sandbox = Sandbox(self._command, self._limits)
        answer = sandbox.start()
        self.not_limited = sandbox.not_limited
        if answer.kind is AnswerKind.OUTPUTS:
            self._sandbox = sandbox
        else:
            self.deaths += 1
        return answer

    def ask(self, tensors: Mapping[str, Array], seconds: float | None = None) -> Answer:
        """One call, in a fresh process if the last one is gone; NOT_LOADED where it does not load any more."""
        if self._sandbox is None:
            loaded = self.load()
            if self._sandbox is None:
                return loaded
        answer = self._sandbox.predict(tensors, seconds, self._signature)
        if answer.fatal:
            self._sandbox = None
            self.deaths += 1
        return answer
