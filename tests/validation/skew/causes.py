"""What a cause must say, in comparisons that read well: `cause == like({"kind": "clipped", "at": 40.0})`."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pytest


class like:  # noqa: N801 - it stands where pytest.approx would
    """Equal to any mapping that has these entries; numbers within a thousandth."""

    def __init__(self, wanted: Mapping[str, Any]) -> None:
        self.wanted = wanted

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Mapping) and all(
            other.get(name) == (pytest.approx(value, rel=1e-3) if isinstance(value, float) else value)
            for name, value in self.wanted.items()
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"like({dict(self.wanted)})"
