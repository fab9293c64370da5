"""The versions that lie under one base path: its children whose names are numbers."""

from __future__ import annotations

import logging
import os
from pathlib import Path

from tidegate_serving.contract.servable import is_version

_log = logging.getLogger(__name__)


class VersionFolder:
    """One base path; two directories of the same number are logged once, not at each look."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._warned: frozenset[str] = frozenset()

    def versions(self) -> dict[int, Path]:
        """Directories and links by number; `001` is version 1, and of two with one number the shorter name counts.

        A link counts even where its target is missing, which may be so for a while only. Raises OSError.
        """
        with os.scandir(self.path) as entries:
            names = [
                entry.name for entry in entries if is_version(entry.name) and (entry.is_symlink() or entry.is_dir())
            ]
        found: dict[int, str] = {}
        hidden: set[str] = set()
        for name in sorted(names, key=lambda name: (len(name), name)):
            if found.setdefault(int(name), name) != name:
                hidden.add(name)
        self._warn(frozenset(hidden), found)
        return {number: self.path / name for number, name in found.items()}

    def _warn(self, hidden: frozenset[str], found: dict[int, str]) -> None:
        for name in sorted(hidden - self._warned):
            served = self.path / found[int(name)]
            _log.warning("%s and %s are the same version: the first is served, remove the other", served, name)
        self._warned = hidden
