"""What stands in the way of a source, by servable: a base path that is missing, a folder that cannot be listed.

Sources report and settle problems, status and readiness read them, the journal listens. A problem takes no version
away.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import Protocol

from tidegate_serving.contract.errors import TidegateError

_log = logging.getLogger(__name__)
_WELL = "is well again"


@dataclass(frozen=True, slots=True)
class SourceProblem:
    """One servable's problem; `servable` is empty for one of the whole source. `ending` is how it stands when that is
    over; `since_us` is Unix microseconds."""

    servable: str
    source: str
    error: TidegateError
    ending: str = _WELL
    since_us: int = field(default_factory=lambda: time.time_ns() // 1000)


class Reports(Protocol):
    """Where a source reports what stands in its way; an empty servable means the whole source."""

    def report(self, servable: str, source: str, error: TidegateError) -> None:
        """There is a problem: listeners hear of it once, and again when its text changes."""

    def settle(self, servable: str, source: str) -> None:
        """The problem is over: the source is well again."""


Listener = Callable[[SourceProblem, bool], None]


class SourceProblems:
    """The present problems. Listeners hear `(problem, True)` when one begins or changes, `(problem, False)` at its
    end.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._problems: dict[tuple[str, str], SourceProblem] = {}
        self._listeners: tuple[Listener, ...] = ()

    def subscribe(self, listener: Listener) -> None:
        """Every change from now on."""
        with self._lock:
            self._listeners = (*self._listeners, listener)

    def report(self, servable: str, source: str, error: TidegateError) -> None:
        """There is a problem: listeners hear of it once, and again when its text changes."""
        with self._lock:
            known = self._problems.get((servable, source))
            if known is not None and known.error.message == error.message:
                return
            problem = self._problems[(servable, source)] = SourceProblem(servable, source, error)
        _log.warning("%s", error.message)
        self._tell(problem, True)

    def settle(self, servable: str, source: str, ending: str = _WELL) -> None:
        """The problem is over: the source is well again, or as `ending` says."""
        with self._lock:
            problem = self._problems.pop((servable, source), None)
        if problem is not None:
            _log.info("%s %s", f"{source} of servable {servable!r}" if servable else source, ending)
            self._tell(replace(problem, ending=ending), False)

    def of(self, servable: str) -> SourceProblem | None:
        """The problem of a servable, if there is one."""
        with self._lock:
            return next((problem for problem in self._problems.values() if problem.servable == servable), None)

    def of_sources(self) -> list[SourceProblem]:
        """Those of whole sources."""
        with self._lock:
            return [problem for problem in self._problems.values() if not problem.servable]

    def all(self) -> list[SourceProblem]:
        """All of them, by servable."""
        with self._lock:
            return sorted(self._problems.values(), key=lambda problem: (problem.servable, problem.source))

    def _tell(self, problem: SourceProblem, present: bool) -> None:
        for listener in self._listeners:
            listener(problem, present)


@contextmanager
def reported(
    problems: Reports, servable: str, source: str, unreadable: Callable[[OSError], TidegateError] | None = None
) -> Iterator[None]:
    """Reports what the block raises as a problem of the servable, in place of raising it; settles it otherwise.

    `unreadable` says what an error of the file system means; without it, such an error is raised.
    """
    try:
        yield
    except TidegateError as error:
        problems.report(servable, source, error)
    except OSError as error:
        if unreadable is None:
            raise
        problems.report(servable, source, unreadable(error))
    else:
        problems.settle(servable, source)
