"""How far a version's answer to a golden request may lie from the answer that was recorded."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput

_OF_FRACTIONS = 1e-5


@dataclass(frozen=True, slots=True)
class Tolerance:
    """How far an answer may lie from the recorded one: `absolute` in its own unit, `relative` as a share of what was
    recorded, whichever is more; `share` is the share of the requests that may lie further.

    Without a `relative` that is 1e-5 for fractions, and nothing for whole numbers, which may be names of classes.
    """

    absolute: float = 0.0
    relative: float | None = None
    share: float = 0.0

    def __post_init__(self) -> None:
        for name in ("absolute", "relative", "share"):
            value = getattr(self, name)
            if value is not None and not value >= 0:
                raise InvalidInput(f"the tolerance {name} is {value}: it is 0 or more")
        if self.share >= 1:
            raise InvalidInput(f"the tolerance share is {self.share}: below 1, for at 1 every answer may change")

    def kept(self, recorded: Sequence[Any], answered: Sequence[Any]) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether each row is answered as recorded; values are numbers, texts or lists of them."""
        return np.array([self._same(one, other) for one, other in zip(recorded, answered, strict=True)], dtype=bool)

    def _same(self, recorded: Any, answered: Any) -> bool:
        before, now = np.asarray(recorded), np.asarray(answered)
        if before.shape != now.shape:
            return False
        if before.dtype.kind not in "fiub" or now.dtype.kind not in "fiub":
            return bool(before.tolist() == now.tolist())
        fractions = "f" in before.dtype.kind + now.dtype.kind
        relative = self.relative if self.relative is not None else _OF_FRACTIONS if fractions else 0.0
        if not fractions and not self.absolute and not relative:
            return bool((before == now).all())
        before, now = before.astype(np.float64), now.astype(np.float64)
        with np.errstate(invalid="ignore"):
            near = np.abs(before - now) <= np.maximum(self.absolute, relative * np.abs(before))
        return bool((near | (before == now) | (np.isnan(before) & np.isnan(now))).all())
