"""How a user's check is run, as the policy's `[checks.NAME]` says: deadline, how much data, and options of its own."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidegate_serving.contract.errors import InvalidInput


@dataclass(frozen=True, slots=True)
class CheckRule:
    """`seconds` is the deadline; `rows` bounds the held-out examples that it gets, drawn at random, 0 for all.

    `answers` says whether it gets the candidate's and the baseline's answers to these; `options` is handed over as is.
    """

    seconds: float = 60.0
    rows: int = 10_000
    answers: bool = True
    options: Mapping[str, Any] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if self.seconds <= 0 or self.rows < 0:
            raise InvalidInput(f"{self.seconds:g} seconds and {self.rows} rows: give time, and 0 rows or more")
        try:
            json.dumps(self.options)
        except TypeError as error:
            raise InvalidInput(f"options hold what JSON cannot ({error}): use text, numbers and lists") from error
