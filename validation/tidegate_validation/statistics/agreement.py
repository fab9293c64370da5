"""How much pairs of columns hold equal values in the same rows, as the profile keeps it."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Agreement:
    """A pair of columns, and the `least` and the `most` that it agrees in blocks, those of few rows taken together."""

    first: str
    second: str
    least: float
    most: float


@dataclass(frozen=True)
class Agreements:
    """What training says of pairs of `columns`, of which at least one has to be among them: those listed, and that all
    others agree in a share of `floor` at most. Of `rare` columns only what is listed is known."""

    columns: frozenset[str] = frozenset()
    floor: float = 1.0
    pairs: tuple[Agreement, ...] = ()
    rare: frozenset[str] = frozenset()

    def of(self, first: str, second: str) -> Agreement | None:
        """What is known of a pair, None where nothing is."""
        if not self.columns & {first, second}:
            return None
        others = None if self.rare & {first, second} else Agreement(first, second, 0.0, self.floor)
        return self._listed.get(frozenset((first, second)), others)

    @functools.cached_property
    def _listed(self) -> dict[frozenset[str], Agreement]:
        return {frozenset((one.first, one.second)): one for one in self.pairs}

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {
            "columns": sorted(self.columns),
            "floor": self.floor,
            "pairs": [asdict(one) for one in self.pairs],
            "rare": sorted(self.rare),
        }

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Agreements:
        """From JSON."""
        pairs = tuple(Agreement(**one) for one in data["pairs"])
        rare = frozenset(map(str, data.get("rare", ())))
        return cls(frozenset(map(str, data["columns"])), float(data["floor"]), pairs, rare)
