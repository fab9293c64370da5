"""One pair of columns that goes together, as the profile keeps it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Association:
    """A pair that goes together, in `cells`, and how much: on average of `blocks` blocks of about `rows` rows.

    `spread` is by how much blocks differ in that.
    """

    first: str
    second: str
    cells: tuple[int, ...]
    strength: float
    spread: float
    blocks: int
    rows: float

    def to_dict(self) -> dict[str, Any]:
        """As JSON."""
        return asdict(self)

    @classmethod
    def from_dict(cls, data: Mapping[str, Any]) -> Association:
        """From JSON."""
        return cls(**{**data, "cells": tuple(data["cells"])})
