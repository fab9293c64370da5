"""What somebody needs who is to help with an engine, as files by name: config, journal, metrics, log lines, libraries.

The control port hands it out, `tidegate support-bundle` packs it. Secrets are taken out; there is no model data in it.
"""

from __future__ import annotations

import json
import os
import platform
import re
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from importlib import metadata

from tidegate_serving.config import EngineConfig
from tidegate_serving.config.view import ConfigValue, effective, to_toml
from tidegate_serving.journal.entry import to_line
from tidegate_serving.journal.journal import Journal
from tidegate_serving.lifecycle.memory import resident_bytes
from tidegate_serving.running.recent_lines import RecentLines

ENTRIES = 5000
REMOVED = "(removed)"
_SECRET = re.compile(r"password|passwd|secret|token|credential|api_?key|access_?key|private", re.IGNORECASE)
_USER_INFO = re.compile(r"(?<=://)[^/@\s]+@")
_NOT_SAID = re.compile(r"(?i)((?:password|secret|token|api_?key|access_?key)\s*[=:]\s*)\S+")


@dataclass(frozen=True, slots=True)
class Support:
    """`config` gives what the engine lives by now, `counters` the data plane's."""

    config: Callable[[], EngineConfig]
    counters: Callable[[], Mapping[str, float]]
    journal: Journal
    lines: RecentLines

    def files(self) -> dict[str, bytes]:
        """Everything, as text in UTF-8."""
        values = [without_secret(value) for value in effective(self.config())]
        entries = self.journal.read(newest=ENTRIES)
        metrics = "".join(f"{name} {value:g}\n" for name, value in sorted(self.counters().items()))
        return {
            "config.toml": to_toml(values).encode(),
            "journal.jsonl": b"".join(map(to_line, entries)),
            "log.txt": _NOT_SAID.sub(rf"\1{REMOVED}", _USER_INFO.sub("", self.lines.text())).encode(),
            "metrics.txt": metrics.encode(),
            "libraries.json": _json(libraries()),
            "system.json": _json(system()),
        }


def without_secret(value: ConfigValue) -> ConfigValue:
    """The value itself, or what is left of it where its key or its text holds a secret."""
    if value.value is not None and _SECRET.search(value.key):
        return ConfigValue(value.key, REMOVED, value.origin)
    if isinstance(value.value, str):
        return ConfigValue(value.key, _USER_INFO.sub("", value.value), value.origin)
    return value


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
