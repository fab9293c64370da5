"""Overrides in force as a metric, so that monitoring sees a version that serves although a gate said no.

The admission watch says which there are whenever that changes; the data plane shows them at `/metrics`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from tidegate_serving.runtime.admission_watch import Overrides

NAME = "tidegate_override_in_force"
_HELP = "1 for each gate whose no is overridden, by version that serves."


class Gauges(Protocol):
    """Where gauges are shown."""

    def set_gauges(self, name: str, help: str, samples: Sequence[tuple[list[tuple[str, str]], float]]) -> None:
        """Replaces a family: help text, and labels and value of each sample."""


class OverrideGauge:
    """Called with the gates that are overridden, by version."""

    def __init__(self, gauges: Gauges) -> None:
        self._gauges = gauges

    def __call__(self, overrides: Overrides) -> None:
        """These and no others are in force."""
        labels = [
            [("model", servable.name), ("version", str(servable.version)), ("gate", gate)]
            for servable, gates in sorted(overrides.items())
            for gate in sorted(set(gates))
        ]
        self._gauges.set_gauges(NAME, _HELP, [(one, 1.0) for one in labels])
