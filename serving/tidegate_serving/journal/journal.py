"""The journal of an engine: control actions are kept before they are answered, state changes soon after they happen.

Whoever changes something hands entries in; `tidegate events`, the support bundle and status read them. Without a folder
it lives in memory. A disk that takes nothing loses nothing either as long as the engine runs: entries wait for it.
"""

from __future__ import annotations

import logging
import queue
import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path

from tidegate_serving.contract.servable import StateChange
from tidegate_serving.journal.entry import Entry, Kind, of_change
from tidegate_serving.journal.files import JournalFiles

MOST_BYTES = 8 << 20
PREDECESSORS = 3
IN_MEMORY = 20_000
_AT_ONCE = 1000
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

    def add(self, *entries: Entry) -> None:
        """Keeps entries, on disk before it returns where the disk takes them; otherwise it says so and tries again with
        the next ones."""
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
        with self._lock:
            found = list(self._memory) if self._files is None else [*self._files.read(), *self._unwritten]
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
