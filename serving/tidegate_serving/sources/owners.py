"""Each servable name belongs to one source: the first that wants something under it, until it lets go.

Sources claim names here before they speak, so that two of them never fight over one servable.
"""

from __future__ import annotations

import threading
from typing import Protocol

from tidegate_serving.contract.errors import FailedPrecondition


class Claims(Protocol):
    """Where a source takes names and gives them back."""

    def owner(self, name: str) -> str:
        """The owning source, or an empty string."""

    def claim(self, name: str, source: str) -> None:
        """Takes a name, or keeps it. FailedPrecondition where another source has it."""

    def release(self, name: str, source: str) -> None:
        """Gives a name up, where the source has it."""


class Owners:
    """Which source owns which name."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._owners: dict[str, str] = {}

    def owner(self, name: str) -> str:
        """The owning source, or an empty string."""
        return self._owners.get(name, "")

    def claim(self, name: str, source: str) -> None:
        """Takes a name, or keeps it. FailedPrecondition where another source has it."""
        with self._lock:
            owner = self._owners.setdefault(name, source)
        if owner != source:
            raise FailedPrecondition(
                f"servable {name!r} belongs to the {owner}: change it there, or take it out there first"
            )

    def release(self, name: str, source: str) -> None:
        """Gives a name up, where the source has it."""
        with self._lock:
            if self._owners.get(name) == source:
                del self._owners[name]
