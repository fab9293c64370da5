"""Frozen bins: which bin a value falls into, fixed once from the reference so that counts can be added for ever.

Codes below zero are for what is no ordinary value; codes from OFF_SUPPORT on are for values off the grid.
"""

from __future__ import annotations

import hashlib
import itertools
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.statistics.arrays import Floats, Integers

NULL = -1
NAN = -2
INFINITE = -3
NEGATIVE_INFINITE = -4
EMPTY = -5
MISSING = (NULL, NAN, EMPTY)
INFINITIES = (INFINITE, NEGATIVE_INFINITE)
OFF_SUPPORT = 10_000
"""Added to the bin of a value inside the reference's range that the reference, which has few values, never held."""

TOLERANCE = 2e-7
"""Relative width around a value; training in float64 and serving in float32 meet in the same bin."""


@dataclass(frozen=True, slots=True)
class NumericBins:
    """Ranges between ascending `edges` (code i is [edges[i-1], edges[i])), then one bin per atom, in their order.

    The first and the last two edges are the reference's range and that range widened by its own width on each side.
    """

    edges: tuple[float, ...]
    atoms: tuple[float, ...] = ()

    @property
    def size(self) -> int:
        """Number of bins for ordinary values."""
        return len(self.edges) + 1 + len(self.atoms)

    @property
    def far(self) -> tuple[int, ...]:
        """Codes of values further outside the reference's range than that range is wide."""
        return (0, len(self.edges)) if len(self.edges) >= 4 else ()

    def labels(self) -> list[str]:
        """What each code holds, in words."""
        cuts = [f"{edge:.4g}" for edge in self.edges]
        ranges = [_range_words(low, high) for low, high in itertools.pairwise(self.edges)]
        ends = [f"below {cuts[0]}", *ranges, f"{cuts[-1]} and more"] if cuts else ["any"]
        return ends + [f"exactly {atom:.6g}" for atom in self.atoms]

    def assign(self, values: Floats) -> Integers:
        """Codes of finite values, shape [n]."""
        codes = np.searchsorted(np.asarray(self.edges), values, side="right").astype(np.int64)
        for index, atom in enumerate(self.atoms):
            codes[np.abs(values - atom) <= TOLERANCE * abs(atom)] = len(self.edges) + 1 + index
        return codes

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"type": "numeric", "edges": list(self.edges), "atoms": list(self.atoms)}


@dataclass(frozen=True, slots=True)
class DiscreteBins:
    """One bin per value of a column of few numbers (booleans are 0 and 1); the last bin takes what was never seen."""

    values: tuple[float, ...]

    @property
    def size(self) -> int:
        """Number of bins for ordinary values, the unseen one included."""
        return len(self.values) + 1

    @property
    def unseen(self) -> int:
        """Code of values that the reference never held."""
        return len(self.values)

    def labels(self) -> list[str]:
        """What each code holds, in words."""
        return [f"{value:.6g}" for value in self.values] + ["never seen in training"]

    def assign(self, values: Floats) -> Integers:
        """Codes of finite values, shape [n]."""
        codes = np.full(values.shape, self.unseen, dtype=np.int64)
        for index, known in enumerate(self.values):
            codes[np.abs(values - known) <= TOLERANCE * abs(known)] = index
        return codes

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return {"type": "discrete", "values": list(self.values)}


@dataclass(frozen=True, slots=True)
class CategoryBins:
    """One bin per frequent category, one for the other known ones, one for what was never seen.

    `others` lists known categories beyond `top`. Where there were too many to list, `complete` is false, and `others`
    has those alone whose MD5 hash is a multiple of `every`: among such hashes unseen ones are told, and all others
    count as other. With an `every` of 0 none can be told.
    """

    top: tuple[str, ...]
    others: tuple[str, ...] = ()
    complete: bool = True
    every: int = 0

    @property
    def size(self) -> int:
        """Number of bins for ordinary values, the unseen one included."""
        return len(self.top) + 2

    @property
    def told(self) -> float:
        """The part of all categories of which it can be told whether the reference held them."""
        return 1.0 if self.complete else 1 / self.every if self.every else 0.0

    @property
    def other(self) -> int:
        """Code of the rarer known categories."""
        return len(self.top)

    @property
    def unseen(self) -> int:
        """Code of categories that the reference never held."""
        return len(self.top) + 1

    def tells(self, name: str) -> bool:
        """Whether it can be told of a category if the reference held it."""
        if self.complete or not self.every:
            return self.complete
        # What `hash_of` says in SQL.
        return (
            int.from_bytes(hashlib.md5(name.encode(), usedforsecurity=False).digest()[8:], "little") % self.every == 0
        )

    def labels(self) -> list[str]:
        """What each code holds, in words."""
        return [*self.top, "other", "never seen in training"]

    def codes(self) -> list[tuple[str, int]]:
        """Every listed category with its code."""
        return [(name, code) for code, name in enumerate(self.top)] + [(name, self.other) for name in self.others]

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        listed = {"top": list(self.top), "others": list(self.others)}
        return {"type": "category", **listed, "complete": self.complete, "every": self.every}


def _range_words(low: float, high: float) -> str:
    """Both ends with as many digits as tell them apart; a range so narrow that six do not is one value."""
    for digits in range(4, 7):
        first, last = f"{low:.{digits}g}", f"{high:.{digits}g}"
        if first != last:
            return f"{first} to {last}"
    return f"{low:.6g}"


FrozenBins = NumericBins | DiscreteBins | CategoryBins


def quantile_edges(values: Floats, ranges: int) -> Floats:
    """Inner edges, ascending and distinct, of at most so many ranges that hold about equally many of the values."""
    return np.unique(np.quantile(values, np.linspace(0, 1, ranges + 1)[1:-1]))


def bins_from_dict(data: Mapping[str, Any]) -> FrozenBins:
    """From JSON; InvalidInput for a type of bins that this build does not know."""
    if data["type"] == "numeric":
        return NumericBins(tuple(map(float, data["edges"])), tuple(map(float, data["atoms"])))
    if data["type"] == "discrete":
        return DiscreteBins(tuple(map(float, data["values"])))
    if data["type"] == "category":
        return CategoryBins(
            tuple(data["top"]), tuple(data["others"]), bool(data["complete"]), int(data.get("every", 0))
        )
    raise InvalidInput(
        f"bins of type {data['type']!r} are unknown here: use the Tidegate version that wrote the profile"
    )
