"""The journal's files: lines appended and synced, a bounded number of bounded files, and reading what survived.

The journal owns one folder through this; a line that a crash tore is stepped over, and the next one begins afresh.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from tidegate_serving.contract.errors import Unsupported
from tidegate_serving.journal.entry import Entry, from_line, to_line

FILE_NAME = "journal.jsonl"
_log = logging.getLogger(__name__)


class JournalFiles:
    """`journal.jsonl` and its predecessors `journal.1.jsonl` (newest) to `journal.N.jsonl`. One writer."""

    def __init__(self, folder: Path, most_bytes: int, predecessors: int) -> None:
        self._folder = folder
        self._most_bytes = most_bytes
        self._predecessors = predecessors

    @property
    def path(self) -> Path:
        """The file that is written to."""
        return self._folder / FILE_NAME

    def append(self, entries: Sequence[Entry]) -> None:
        """Writes the entries, on disk before it returns. OSError where it cannot; then none counts as written."""
        data = b"".join(map(to_line, entries))
        self._folder.mkdir(parents=True, exist_ok=True)
        size = self.path.stat().st_size if self.path.exists() else 0
        if size and size + len(data) > self._most_bytes:
            self._rotate()
            size = 0
        with self.path.open("r+b" if self.path.exists() else "xb") as file:
            if size and _is_torn(file.fileno(), size):
                data = b"\n" + data
            file.seek(0, os.SEEK_END)
            try:
                file.write(data)
                file.flush()
                os.fsync(file.fileno())
            except OSError:
                os.ftruncate(file.fileno(), size)
                raise

    def read(self) -> Iterator[Entry]:
        """Every entry that can be read, oldest first."""
        for path in [*(self._predecessor(number) for number in range(self._predecessors, 0, -1)), self.path]:
            try:
                lines = path.read_bytes().splitlines()
            except FileNotFoundError:
                continue
            for number, line in enumerate(lines, start=1):
                entry = _entry(line, f"{path}, line {number}")
                if entry is not None:
                    yield entry

    def _rotate(self) -> None:
        self._predecessor(self._predecessors).unlink(missing_ok=True)
        for number in range(self._predecessors - 1, 0, -1):
            if self._predecessor(number).exists():
                self._predecessor(number).replace(self._predecessor(number + 1))
        self.path.replace(self._predecessor(1))

    def _predecessor(self, number: int) -> Path:
        return self._folder / f"journal.{number}.jsonl"


def _is_torn(descriptor: int, size: int) -> bool:
    return os.pread(descriptor, 1, size - 1) != b"\n"


def _entry(line: bytes, where: str) -> Entry | None:
    if not line.strip():
        return None
    try:
        return from_line(line, where)
    except Unsupported as error:
        _log.warning("an entry of the journal is not shown: %s", error)
    except (ValueError, KeyError, TypeError) as error:
        _log.warning("%s is no whole entry and is not shown: %s", where, error)
    return None
