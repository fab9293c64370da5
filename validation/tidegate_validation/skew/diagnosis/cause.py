"""A cause: what happened to a column, as a change that can be undone or in words of its kind."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tidegate_validation.skew.diagnosis.units import named_factors, the_other_way

FACTOR = "constant factor"
OFFSET = "constant offset"
AFFINE = "factor and offset"
_DAY = 86_400
_OF_VALUES = ("value", "at", "limit")
_USUAL = 1e-9


@dataclass(frozen=True, slots=True)
class Cause:
    """Served values are `factor` times training's plus `offset`, for a `share` of the rows.

    `precision` is the relative standard error of the factor; `name` says which units may have been mixed up, such as
    `kilometres against miles`. `by_values` says that the values themselves gave it away, not only their distribution.
    Causes of other kinds have `details` instead. `since` is the date from which on it holds, None for the whole window.
    """

    kind: str
    factor: float = 1.0
    offset: float = 0.0
    share: float = 1.0
    precision: float = 0.0
    name: str | None = None
    by_values: bool = False
    details: tuple[tuple[str, Any], ...] = ()
    since: str | None = None

    @property
    def is_conversion(self) -> bool:
        """Whether it is a factor, an offset or both, which can be undone and told from the other side."""
        return self.kind in (FACTOR, OFFSET, AFFINE)

    def dated(self) -> Cause:
        """The same, with Unix seconds among the values that it names as dates, and an offset in days too."""
        told = ((name, _date(value) if name in _OF_VALUES else value) for name, value in self.details)
        days = (("days", round(self.offset / _DAY, 4)),) if self.kind == OFFSET else ()
        return replace(self, details=(*told, *days))

    def to_dict(self) -> dict[str, Any]:
        """As JSON, without what does not apply."""
        document: dict[str, Any] = {"kind": self.kind, "share": round(self.share, 4), **dict(self.details)}
        if self.since:
            document["since"] = self.since
        if not self.is_conversion:
            return document
        if self.kind != OFFSET:
            document.update(factor=self.factor, precision=self.precision)
        if self.kind != FACTOR:
            document["offset"] = self.offset
        if self.name:
            document["units"] = self.name
        return document

    def inverse(self) -> Cause:
        """The same, told from the other side: training's values in terms of the served ones."""
        name = the_other_way(self.name) if self.name else None
        return replace(self, factor=1 / self.factor, offset=-self.offset / self.factor, name=name)


def _date(value: Any) -> Any:
    return f"{np.datetime64(round(value), 's').item():%Y-%m-%d %H:%M}" if isinstance(value, float) else value


def is_usual(cause: Cause) -> bool:
    """Whether people mix up units by just that factor and offset."""
    if cause.kind != FACTOR:
        return cause.name is not None
    return cause.factor == -1.0 or any(
        abs(np.log(cause.factor / one.factor)) < _USUAL for one in named_factors() if cause.factor > 0
    )
