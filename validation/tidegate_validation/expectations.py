"""stub"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class ExpectationRule:
    """Thresholds of the data expectations."""

    max_rows: int = 50_000
