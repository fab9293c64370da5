"""Where the workers of a version run: with which Python, on which processors, and in how much memory."""

from __future__ import annotations

import os
import sys
from dataclasses import dataclass

from tidegate_serving.contract.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class WorkerPlace:
    """interpreter: a program that runs Python, such as `venv/bin/python`; it needs this release of Tidegate, and what
        the model imports. The engine's own by default.
    processors: the numbers of those that the workers may use; empty for all that the engine may.
    memory_bytes: what a process may hold with those that it started; 0 for no bound.
    call_seconds: how long a call of a model may take; 0 for no bound.
    output_bytes: what a process may print in a second, on average; 0 for no bound.
    """

    interpreter: str = sys.executable
    processors: tuple[int, ...] = ()
    memory_bytes: int = 0
    call_seconds: float = 0.0
    output_bytes: int = 0

    @property
    def is_foreign(self) -> bool:
        """Whether this is another Python than the engine's."""
        return self.interpreter != sys.executable

    def check(self) -> None:
        """InvalidInput for a place that there is not on this machine."""
        if self.is_foreign and not os.access(self.interpreter, os.X_OK):
            raise InvalidInput(
                f"interpreter is {self.interpreter!r}, which is no program here: name the Python of an environment "
                "that has Tidegate, such as /opt/venv/bin/python"
            )
        allowed = os.sched_getaffinity(0)
        if missing := sorted(set(self.processors) - allowed):
            raise InvalidInput(
                f"processors names {missing[0]}, which the engine may not use: take some of "
                f"{', '.join(map(str, sorted(allowed)))}"
            )
