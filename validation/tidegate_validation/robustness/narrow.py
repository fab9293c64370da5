"""Makes a failing batch as small as it gets: few rows, then few columns that differ from a row that is answered.

The finding then shows the smallest input that breaks the version. Rows are narrowed by delta debugging (Zeller and
Hildebrandt 2002); columns one by one first, because a call that does not fail is cheap.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate_validation.sandbox.answer import Answer
from tidegate_validation.sandbox.examples import Examples, plain

Ask = Callable[[Examples], Answer]
Fails = Callable[[Answer], bool]
_MOST_TRIES = 96


@dataclass(frozen=True, slots=True)
class Culprit:
    """Failing rows; `changed` holds the columns of the first that do it, every column where no fewer do."""

    example: Examples
    answer: Answer
    changed: dict[str, Any]


def narrow(batch: Examples, answer: Answer, good: Examples | None, ask: Ask, fails: Fails) -> Culprit:
    """The culprit in a batch whose `answer` failed; `good` is a row that the version answers.

    Asks the version some dozens of times at most; every failing answer may cost a restart.
    """
    rows, answer = _fewer_rows(batch, answer, ask, fails)
    if good is None or len(rows) != 1:
        return Culprit(rows, answer, rows.row(0))
    for name, array in rows.arrays.items():
        found = ask(good.replaced(name, array))
        if fails(found):
            return Culprit(good.replaced(name, array), found, {name: plain(array[0])})
    return _fewer_columns(rows, answer, good, ask, fails)


def _fewer_rows(batch: Examples, answer: Answer, ask: Ask, fails: Fails) -> tuple[Examples, Answer]:
    parts, tries = 2, 0
    while len(batch) > 1 and tries < _MOST_TRIES:
        cut = np.array_split(np.arange(len(batch)), min(parts, len(batch)))
        smaller = None
        for chosen in [*cut, *_complements(cut)]:
            tries += 1
            found = ask(batch.take(chosen))
            if fails(found):
                smaller, answer = chosen, found
                break
            if tries >= _MOST_TRIES:
                break
        if smaller is None:
            if parts >= len(batch):
                break
            parts *= 2
            continue
        parts = 2 if len(smaller) <= -(-len(batch) // parts) else max(2, parts - 1)
        batch = batch.take(smaller)
    return batch, answer


def _complements(cut: list[Any]) -> list[Any]:
    if len(cut) < 3:
        return []
    return [
        np.concatenate([part for place, part in enumerate(cut) if place != left_out]) for left_out in range(len(cut))
    ]


def _fewer_columns(row: Examples, answer: Answer, good: Examples, ask: Ask, fails: Fails) -> Culprit:
    """Takes back to the good row's value, one after another, every column whose own value is not needed to fail."""
    changed = dict.fromkeys(row.arrays)
    for name in list(changed):
        if len(changed) == 1:
            break
        tried = row.replaced(name, good.arrays[name])
        found = ask(tried)
        if fails(found):
            row, answer = tried, found
            del changed[name]
    return Culprit(row, answer, {name: plain(row.arrays[name][0]) for name in changed})
