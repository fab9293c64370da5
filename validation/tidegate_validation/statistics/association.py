"""One pair of columns that goes together, as the profile keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any

_STRONG = 0.02
_EACH_BLOCK = 2.5


@dataclass(frozen=True, slots=True)
class Association:
    """A pair that goes together, in `cells`, and how much: on average of `blocks` blocks of about `rows` rows.

    `odds` is how much more likely rows are in `cells` than their margins say, as a logarithm: a block's own margins and
    that give what to expect of it; 0 in older profiles. `spread` is by how much blocks differ from that, as far
    as it lasts for days. Pairs of older profiles, whose numbers were not `ranked` within their blocks, tell nothing.
    """

    first: str
    second: str
    cells: tuple[int, ...]
    strength: float
    spread: float
    blocks: int
    rows: float
    odds: float = 0.0
    ranked: bool = False

    @property
    def telling(self) -> bool:
        """Whether it is strong, and in each block, so that it is missed where it is not seen.

        Of a weaker one, margins that change leave nothing sure; it may still say which column of a telling one broke.
        """
        by_rows = 0.25 / self.rows
        between = max(0.0, self.spread**2 - by_rows) ** 0.5
        return self.strength >= _STRONG and self.strength > _EACH_BLOCK * between

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Association:
        """From JSON."""
        return cls(**{**data, "cells": tuple(data["cells"])})
