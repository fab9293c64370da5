"""The end of what a process writes to its log, read as it comes, so that a flood neither fills a disk nor blocks it."""

from __future__ import annotations

import threading
from collections import deque
from typing import BinaryIO

_KEPT = 1 << 16
_CHUNK = 1 << 16


class LogTail:
    """Reads a stream to its end in a thread of its own; `written` counts all bytes that came."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream
        self._chunks: deque[bytes] = deque()
        self._kept = 0
        self._lock = threading.Lock()
        self.written = 0
        self._thread = threading.Thread(target=self._read, name="tidegate-log-tail", daemon=True)
        self._thread.start()

    def text(self, most: int) -> str:
        """The last `most` bytes as text."""
        with self._lock:
            data = b"".join(self._chunks)
        return data[-most:].decode(errors="replace")

    def finish(self, seconds: float) -> None:
        """Waits for the stream's end, at most so long."""
        self._thread.join(seconds)

    def _read(self) -> None:
        with self._stream:
            while chunk := self._stream.read1(_CHUNK):  # type: ignore[attr-defined]
                with self._lock:
                    self.written += len(chunk)
                    self._chunks.append(chunk)
                    self._kept += len(chunk)
                    while self._kept - len(self._chunks[0]) > _KEPT:
                        self._kept -= len(self._chunks.popleft())
