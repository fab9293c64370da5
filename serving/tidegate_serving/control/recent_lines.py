"""The last lines that the engine logged, for whoever has to help later.

The engine attaches one to its own loggers while it runs; the support bundle reads it.
"""

from __future__ import annotations

import logging
from collections import deque

LOGGER = "tidegate_serving"
KEPT = 2000


class RecentLines(logging.Handler):
    """Remembers the newest lines, formatted."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s %(message)s"))
        self._lines: deque[str] = deque(maxlen=KEPT)

    def emit(self, record: logging.LogRecord) -> None:
        """One line more; the oldest goes."""
        self._lines.append(self.format(record))

    def attach(self) -> None:
        """Listens from now on."""
        logging.getLogger(LOGGER).addHandler(self)

    def detach(self) -> None:
        """Listens no more."""
        logging.getLogger(LOGGER).removeHandler(self)

    def text(self) -> str:
        """All of them, oldest first."""
        return "".join(f"{line}\n" for line in tuple(self._lines))
