"""Whether somebody wrote to a published version directory while it was verified and loaded: what was loaded may then be
other files than those that were verified, also where they are back in the end."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Self

from tidegate_serving.contract.errors import Tampered
from tidegate_serving.contract.servable import ServableId


@dataclass(frozen=True, slots=True)
class DirectoryState:
    """By path: which file or folder it is, and when it was last written or moved, which nobody but the system says."""

    found: Mapping[str, tuple[int, ...]]

    @classmethod
    def of(cls, directory: Path) -> Self:
        """As it is now; nothing is opened. What is missing has no state."""
        return cls(dict(_states(directory)))

    def check(self, directory: Path, id: ServableId) -> None:
        """Raises Tampered, naming the innermost path, unless all is as it was."""
        now = dict(_states(directory))
        changed = [path for path in {**self.found, **now} if self.found.get(path) != now.get(path)]
        if changed:
            raise Tampered(
                f"{max(changed, key=len)} changed while {id} was verified and loaded: see who writes there, and let "
                "them publish a new version instead"
            )


def _states(directory: Path) -> Iterator[tuple[str, tuple[int, ...]]]:
    for folder, folders, names in os.walk(directory):
        for path in (Path(folder), *(Path(folder, name) for name in (*folders, *names))):
            try:
                status = path.lstat()
            except FileNotFoundError:
                continue
            yield str(path), (status.st_dev, status.st_ino, status.st_size, status.st_mtime_ns, status.st_ctime_ns)
