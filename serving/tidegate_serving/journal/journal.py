"""The journal of an engine: control actions are on disk before they are answered, state changes soon after they happen.

`tidegate events`, the support bundle and status read it. Without a folder it is kept in memory. While the disk takes
nothing, entries wait in memory for as long as the engine runs.
"""

from __future__ import annotations

import logging
import os
import queue
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, suppress
from itertools import chain
from pathlib import Path
from typing import BinaryIO

from tidegate_serving.contract.errors import Unsupported
from tidegate_serving.contract.servable import StateChange
from tidegate_serving.files import append
from tidegate_serving.journal.entry import Entry, Kind, from_line, of_change, to_line

FILE_NAME = "journal.jsonl"
MOST_BYTES = 8 << 20
PREDECESSORS = 3
IN_MEMORY = 20_000
_AT_ONCE = 1000
Part = tuple[Path, BinaryIO, int]
_log = logging.getLogger(__name__)


class Journal:
    """Entries in order, in `folder` or, for None, in memory only. Safe from any thread."""

    def __init__(self, folder: Path | None, most_bytes: int = MOST_BYTES, predecessors: int = PREDECESSORS) -> None:
        self._files = None if folder is None else JournalFiles(folder, most_bytes, predecessors)
        self._lock = threading.Lock()
        self._memory: deque[Entry] = deque(maxlen=IN_MEMORY)
        self._unwritten: deque[Entry] = deque(maxlen=IN_MEMORY)
        self._changes: queue.SimpleQueue[StateChange | None] = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self._complaint = ""

    def start(self) -> None:
        """Keeps state changes from now on, on a thread of its own."""
        self._thread = threading.Thread(target=self._run, name="tidegate-journal", daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Keeps what it has heard, then ends."""
        self._changes.put(None)
        if self._thread is not None:
            self._thread.join()

    def heard(self, change: StateChange) -> None:
        """A version's public state changed; quick, and never waits for the disk."""
        self._changes.put(change)

    def add(self, *given: Entry) -> None:
        """Keeps entries, on disk before it returns where the disk takes them; otherwise it says so and tries again with
        the next ones."""
        entries = [entry.bounded() for entry in given]
        with self._lock:
            if self._files is None:
                self._memory.extend(entries)
                return
            self._unwritten.extend(entries)
            try:
                self._files.append(tuple(self._unwritten))
            except OSError as error:
                self._complain(f"{self._files.path} takes no entry, {len(self._unwritten)} wait for it: {error}")
            else:
                self._unwritten.clear()
                self._complain("")

    def read(
        self,
        since_us: int = 0,
        wanted: Callable[[Entry], bool] = lambda entry: True,
        newest: int = IN_MEMORY,
    ) -> list[Entry]:
        """Entries from a time on (Unix microseconds), oldest first; of more than `newest` the newest ones."""
        with ExitStack() as opened:
            with self._lock:
                parts = [] if self._files is None else self._files.open(opened)
                kept = list(self._memory if self._files is None else self._unwritten)
            # Taking the files apart takes seconds, in which a push must not wait for its own entry.
            found = chain(_entries(parts), kept)
            chosen = (entry for entry in found if entry.at_us >= since_us and wanted(entry))
            return list(deque(chosen, maxlen=newest))

    def _run(self) -> None:
        stopping = False
        while not stopping:
            batch = [self._changes.get()]
            while len(batch) < _AT_ONCE and not self._changes.empty():
                batch.append(self._changes.get())
            stopping = None in batch
            entries = [of_change(change) for change in batch if change is not None]
            if entries:
                self.add(*entries)

    def _complain(self, text: str) -> None:
        """Warns once, and again when the reason changes."""
        if text and not self._complaint:
            _log.error("%s: free space there, or mend its permissions; serving goes on", text)
            self._unwritten.append(Entry(Kind.ENGINE, "journal", text))
        self._complaint = text


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
            append(file.fileno(), size, data)

    def open(self, until: ExitStack) -> list[Part]:
        """The files as they are now, oldest first, for `_entries`: what is written, renamed or removed later does not
        count."""
        parts: list[Part] = []
        for path in [*(self._predecessor(number) for number in range(self._predecessors, 0, -1)), self.path]:
            with suppress(FileNotFoundError):
                file = until.enter_context(path.open("rb"))
                parts.append((path, file, os.fstat(file.fileno()).st_size))
        return parts

    def _rotate(self) -> None:
        self._predecessor(self._predecessors).unlink(missing_ok=True)
        for number in range(self._predecessors - 1, 0, -1):
            if self._predecessor(number).exists():
                self._predecessor(number).replace(self._predecessor(number + 1))
        self.path.replace(self._predecessor(1))

    def _predecessor(self, number: int) -> Path:
        return self._folder / f"journal.{number}.jsonl"


def _entries(parts: Sequence[Part]) -> Iterator[Entry]:
    """Every entry that can be read, in order."""
    for path, file, size in parts:
        for number, line in enumerate(file.read(size).splitlines(), start=1):
            entry = _entry(line, f"{path}, line {number}")
            if entry is not None:
                yield entry


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
