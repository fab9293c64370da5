"""What long work tells whoever waits for it: what has begun, how far it is, and that it is over.

Steps and gates report to it as they go; the command line draws it, and everybody else hears nothing.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Protocol


class Progress(Protocol):
    """Work may begin inside work that has begun: `at` and `end` are about what began last and has not ended."""

    def begin(self, work: str, parts: float | None = None, seconds: float | None = None) -> None:
        """`work` begins: so many `parts`, and at most so many `seconds`, where these are known."""

    def at(self, doing: str, done: float) -> None:
        """It is at `doing`, a word or two, with `done` of its parts behind it."""

    def end(self) -> None:
        """It is over, well or not."""


class _Silent:
    def begin(self, work: str, parts: float | None = None, seconds: float | None = None) -> None:
        """Tells nobody."""

    def at(self, doing: str, done: float) -> None:
        """Tells nobody."""

    def end(self) -> None:
        """Tells nobody."""


SILENT: Progress = _Silent()
"""For work that nobody watches."""


@contextmanager
def working(progress: Progress, work: str, parts: float | None = None, seconds: float | None = None) -> Iterator[None]:
    """Begins, and ends whatever happens."""
    progress.begin(work, parts, seconds)
    try:
        yield
    finally:
        progress.end()
