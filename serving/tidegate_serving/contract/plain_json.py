"""Makes whatever a check measured fit for JSON that every reader takes: no NaN, no infinities, no numpy scalars.

Findings pass their numbers, causes and examples through here on the way into a signed document.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any


def plain_number(value: Any) -> float | int | None:
    """The number in Python's own type; None for None, NaN and infinities."""
    if value is None:
        return None
    number = value.item() if hasattr(value, "item") else value
    return number if math.isfinite(number) else None


def plain(value: Any) -> Any:
    """The value in JSON's types: mappings and sequences all the way down, floats that JSON lacks as text, bytes as
    UTF-8 where they are that."""
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if hasattr(value, "tolist"):
        return plain(value.tolist())
    if isinstance(value, bytes):
        return value.decode(errors="backslashreplace")
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if value is None or isinstance(value, str | int | float):
        return value
    return [plain(item) for item in value] if isinstance(value, Sequence | set | frozenset) else str(value)
