"""Narrows a failing batch down to one row, and that row to the one column that makes it fail.

`stages` asks when rows of real data break a version, so that the finding can show the smallest input that does.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate_validation.robustness.answer import Answer
from tidegate_validation.robustness.examples import Examples, plain

Ask = Callable[[Examples], Answer]
Fails = Callable[[Answer], bool]


@dataclass(frozen=True, slots=True)
class Culprit:
    """One failing row; `changed` holds the single column that does it, or every column where no single one does."""

    example: Examples
    answer: Answer
    changed: dict[str, Any]


def narrow(batch: Examples, answer: Answer, good: Examples | None, ask: Ask, fails: Fails) -> Culprit | None:
    """The culprit in a batch whose `answer` failed; None where no part fails again on its own.

    `good` is a row that the version answers. Each step asks the version once or twice, and may cost a restart.
    """
    while len(batch) > 1:
        half = len(batch) // 2
        for part in (batch.take(np.arange(half)), batch.take(np.arange(half, len(batch)))):
            found = ask(part)
            if fails(found):
                batch, answer = part, found
                break
        else:
            return None
    row = batch.row(0)
    if good is not None:
        for name, array in batch.arrays.items():
            found = ask(good.replaced(name, array))
            if fails(found):
                return Culprit(good.replaced(name, array), found, {name: plain(array[0])})
    return Culprit(batch, answer, row)
