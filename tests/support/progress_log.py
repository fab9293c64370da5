"""Listens to the progress of long work, for tests that ask what was told."""

from __future__ import annotations


class ProgressLog:
    """All that was said, in order: begun work, and what it was at; `open` are those that have not ended."""

    def __init__(self) -> None:
        self.open: list[str] = []
        self.said: list[tuple[str, str, float]] = []

    def begin(self, work: str, parts: float | None = None, seconds: float | None = None) -> None:
        self.open.append(work)

    def at(self, doing: str, done: float) -> None:
        self.said.append((self.open[-1], doing, done))

    def end(self) -> None:
        self.open.pop()

    def of(self, work: str) -> list[str]:
        """What one work was at, in order."""
        return [doing for whose, doing, _ in self.said if whose == work]
