"""What waits while a reload goes on, so that all that it changes of one servable becomes one change.

Steering fills it between a reload's begin and its end, and makes everything of it so that still waits then.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(slots=True)
class Hold:
    """`labels` wait for the versions that come with them; `leaving` are servables that a source has let go of, which
    wait for whoever takes them over."""

    labels: dict[str, Mapping[str, int]] = field(default_factory=dict)
    leaving: set[str] = field(default_factory=set)

    @property
    def names(self) -> list[str]:
        """Servables of which something waits."""
        return sorted(self.leaving | self.labels.keys())

    def forget(self, name: str) -> None:
        """Nothing of it waits any more."""
        self.labels.pop(name, None)
        self.leaving.discard(name)
