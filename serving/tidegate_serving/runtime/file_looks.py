"""Looks at files again and again on a thread of its own, for parts that follow what is in them."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable

_SECONDS = 1.0
_log = logging.getLogger(__name__)


class FileLooks:
    """Calls `look` every second, from `start` to `stop`; `what` is what the log calls the files."""

    def __init__(self, what: str, look: Callable[[], None]) -> None:
        self._what = what
        self._look = look
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"tidegate-{what.replace(' ', '-')}", daemon=True)

    def start(self) -> None:
        """Begins."""
        self._thread.start()

    def stop(self) -> None:
        """Looks no more; also where it never began."""
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(_SECONDS)

    def _run(self) -> None:
        while not self._stopping.wait(_SECONDS):
            try:
                self._look()
            except Exception:
                _log.exception("files of the %s could not be looked at, the next look tries again", self._what)
