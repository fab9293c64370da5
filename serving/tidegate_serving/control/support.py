"""What somebody needs who is to help with an engine, as files by name: config, journal, metrics, log lines, libraries.

The control port hands it out, `tidegate support-bundle` packs it. Secrets are taken out; there is no model data in it.
"""

from __future__ import annotations

import json
import logging
import os
import platform
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata

from tidegate_serving.config import EngineConfig
from tidegate_serving.config.view import seen, to_toml
from tidegate_serving.journal.entry import to_line
from tidegate_serving.journal.journal import Journal
from tidegate_serving.lifecycle.memory import resident_bytes
from tidegate_serving.log_lines import LineFormatter
from tidegate_serving.redaction import without_secrets

ENTRIES = 5000
LINES = 2000
ENGINE_LOGGER = "tidegate_serving"


class RecentLines(logging.Handler):
    """Remembers the newest lines, formatted."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(LineFormatter())
        self._lines: deque[str] = deque(maxlen=LINES)

    def emit(self, record: logging.LogRecord) -> None:
        """One line more; the oldest goes."""
        self._lines.append(self.format(record))

    def attach(self) -> None:
        """Listens from now on."""
        logging.getLogger(ENGINE_LOGGER).addHandler(self)

    def detach(self) -> None:
        """Listens no more."""
        logging.getLogger(ENGINE_LOGGER).removeHandler(self)

    def text(self) -> str:
        """All of them, oldest first."""
        return "".join(f"{line}\n" for line in tuple(self._lines))


@dataclass(frozen=True, slots=True)
class Support:
    """`config` gives what the engine lives by now, `counters` the data plane's."""

    config: Callable[[], EngineConfig]
    counters: Callable[[], Mapping[str, float]]
    journal: Journal
    lines: RecentLines

    def files(self) -> dict[str, bytes]:
        """Everything, as text in UTF-8."""
        entries = self.journal.read(newest=ENTRIES)
        metrics = "".join(f"{name} {value:g}\n" for name, value in sorted(self.counters().items()))
        return {
            "config.toml": to_toml(seen(self.config())).encode(),
            "journal.jsonl": b"".join(map(to_line, entries)),
            "log.txt": without_secrets(self.lines.text()).encode(),
            "metrics.txt": metrics.encode(),
            "libraries.json": _json(libraries()),
            "system.json": _json(system()),
        }


def libraries() -> dict[str, str]:
    """Versions of what is installed beside the engine, by distribution."""
    return {found.name: found.version for found in sorted(metadata.distributions(), key=lambda one: one.name.lower())}


def system() -> dict[str, object]:
    """The machine and the process, without names of hosts or users."""
    return {
        "python": sys.version,
        "platform": platform.platform(),
        "processors": os.cpu_count(),
        "resident_bytes": resident_bytes(),
        "process_seconds": time.process_time(),
        "at": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
    }


def _json(document: Mapping[str, object]) -> bytes:
    return (json.dumps(document, indent=1) + "\n").encode()
