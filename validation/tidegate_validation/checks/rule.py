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

    @classmethod
    def from_dict(cls, name: str, data: Any, where: str) -> CheckRule:
        """From the policy's `[checks.NAME]`; `where` names the file. InvalidInput for what cannot be."""
        place = f"[checks.{name}] of {where}"
        if not isinstance(data, Mapping):
            raise InvalidInput(f"{place} is {data!r}: it must be a table of keys")
        given = dict(data)
        values: dict[str, Any] = {}
        kinds: Mapping[str, tuple[type, ...]] = {
            "seconds": (int, float),
            "rows": (int,),
            "answers": (bool,),
            "options": (dict,),
        }
        for key, value in given.items():
            if key not in kinds:
                raise InvalidInput(f"policy key {key!r} in {place} is unknown: use one of {', '.join(kinds)}")
            if type(value) not in kinds[key]:
                raise InvalidInput(f"policy key {key!r} in {place} is {value!r}: it must be {kinds[key][-1].__name__}")
            values[key] = value
        rule = cls(**values)
        if rule.seconds <= 0 or rule.rows < 0:
            raise InvalidInput(
                f"{place} gives {rule.seconds:g} seconds and {rule.rows} rows: give time, and 0 rows or more"
            )
        try:
            json.dumps(rule.options)
        except TypeError as error:
            raise InvalidInput(
                f"options in {place} hold what JSON cannot ({error}): use text, numbers and lists"
            ) from error
        return rule
