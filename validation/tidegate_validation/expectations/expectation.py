"""One expectation in Great Expectations' own terms, and what it asks for in plain words."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

CRITICAL, WARNING, INFO = "critical", "warning", "info"
SEVERITIES = (CRITICAL, WARNING, INFO)
NUMBER_TYPES = ["bool", "boolean", *(f"{sign}int{size}" for sign in ("", "u") for size in (8, 16, 32, 64))]
NUMBER_TYPES += ["Int8", "Int16", "Int32", "Int64", "float16", "float32", "float64", "Float32", "Float64", "object"]


@dataclass(frozen=True, slots=True)
class Expectation:
    """`type` and `kwargs` are Great Expectations' (`expect_column_values_to_not_be_null`, `{"column": ...}`).

    `meta` is free; ours carry `feature` and `statistic` where the column is a statistic of a feature.
    """

    type: str
    kwargs: Mapping[str, Any]
    severity: str = CRITICAL
    meta: Mapping[str, Any] = field(default_factory=dict)

    @property
    def columns(self) -> tuple[str, ...]:
        """Every column that it speaks of."""
        named = [self.kwargs[key] for key in ("column", "column_A", "column_B") if key in self.kwargs]
        for key in ("column_list", "column_set"):
            named += list(self.kwargs.get(key) or [])
        return tuple(str(name) for name in named)

    @property
    def subject(self) -> str:
        """What a finding about it is about: the feature, the columns, or the table."""
        if "statistic" in self.meta:
            return str(self.meta.get("feature", "table"))
        return ", ".join(self.columns) or "table"

    @property
    def words(self) -> str:
        """What it asks for, to follow "expected that it"."""
        say = _WORDS.get(self.type)
        if say is not None:
            return say(self.kwargs)
        others = ", ".join(f"{key} {value!r}" for key, value in self.kwargs.items() if key != "column")
        return f"meets {self.type}{f' ({others})' if others else ''}"


def _percent(kwargs: Mapping[str, Any]) -> str:
    mostly = kwargs.get("mostly", 1.0)
    return "" if mostly == 1.0 else f" in {100 * mostly:.4g} % of its rows"


def _not_null(kwargs: Mapping[str, Any]) -> str:
    allowed = 100 * (1.0 - kwargs.get("mostly", 1.0))
    return f"misses at most {allowed:.3g} % of its values" if allowed > 0 else "misses no value"


def _between(kwargs: Mapping[str, Any]) -> str:
    low, high = kwargs.get("min_value"), kwargs.get("max_value")
    if low is None:
        return f"is at most {_number(high)}{_percent(kwargs)}"
    if high is None:
        return f"is at least {_number(low)}{_percent(kwargs)}"
    return f"lies within {_number(low)} and {_number(high)}{_percent(kwargs)}"


def _in_set(kwargs: Mapping[str, Any]) -> str:
    values = list(kwargs.get("value_set") or [])
    shown = ", ".join(str(value) for value in values[:6])
    return f"is one of {shown if len(values) <= 6 else f'{len(values)} known values'}{_percent(kwargs)}"


def _type(kwargs: Mapping[str, Any]) -> str:
    return "holds text" if kwargs.get("type_") == "str" else f"is of type {kwargs.get('type_')}"


def _type_list(kwargs: Mapping[str, Any]) -> str:
    found = kwargs.get("type_list")
    return "holds numbers" if found == NUMBER_TYPES else f"is of one of the types {found}"


def _number(value: Any) -> str:
    return f"{value:.4g}" if isinstance(value, int | float) and not isinstance(value, bool) else str(value)


_WORDS: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
    "expect_column_to_exist": lambda kwargs: "is there",
    "expect_column_values_to_not_be_null": _not_null,
    "expect_column_values_to_be_between": _between,
    "expect_column_values_to_be_in_set": _in_set,
    "expect_column_values_to_be_of_type": _type,
    "expect_column_values_to_be_in_type_list": _type_list,
}
