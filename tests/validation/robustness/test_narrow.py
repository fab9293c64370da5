"""Narrowing a failing batch: the smallest input that shows a failure, in few calls."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidegate_validation.robustness.narrow import narrow
from tidegate_validation.sandbox.answer import Answer, AnswerKind
from tidegate_validation.sandbox.examples import Examples

OUTPUTS = Answer(AnswerKind.OUTPUTS, outputs={"y": np.array([1.0])})
DIED = Answer(AnswerKind.DIED, words="was ended by SIGSEGV")


def rows(**columns: list[float]) -> Examples:
    arrays = {name: np.array(values) for name, values in columns.items()}
    return Examples(arrays, np.arange(len(next(iter(arrays.values())))))


class FragileVersion:
    """A version that dies of some rows, and counts how often it was asked."""

    def __init__(self, dies: object) -> None:
        self.dies = dies
        self.times = 0

    def __call__(self, batch: Examples) -> Answer:
        self.times += 1
        return DIED if self.dies(batch.arrays) else OUTPUTS  # type: ignore[operator]


def narrowed(batch: Examples, dies: object) -> tuple[dict[str, list[float]], dict[str, float], int]:
    version = FragileVersion(dies)
    good = rows(a=[0.0], b=[0.0], c=[0.0])
    culprit = narrow(batch, DIED, good, version, lambda answer: answer.fatal)
    return {name: array.tolist() for name, array in culprit.example.arrays.items()}, culprit.changed, version.times


def test_one_row_and_one_column_are_found() -> None:
    numbers = [float(number) for number in range(1, 65)]
    batch = rows(a=numbers, b=[2 * number for number in numbers], c=[0.0] * 64)
    example, changed, times = narrowed(batch, lambda arrays: (arrays["b"] == 74).any())
    assert example == {"a": [0.0], "b": [74.0], "c": [0.0]}
    assert changed == {"b": 74.0}
    assert times < 30


def test_columns_that_only_fail_together_are_kept_together() -> None:
    batch = rows(a=[1.0, 5.0, 1.0], b=[1.0, 7.0, 1.0], c=[3.0, 3.0, 3.0])
    example, changed, _ = narrowed(batch, lambda arrays: ((arrays["a"] == 5) & (arrays["b"] == 7)).any())
    assert changed == {"a": 5.0, "b": 7.0}
    assert example["c"] == [0.0], "taken back to the good row's value"


def test_rows_that_only_fail_together_are_kept_together() -> None:
    batch = rows(a=[0.0] * 5 + [4.0] + [0.0] * 20 + [9.0] + [0.0] * 3, b=[1.0] * 30, c=[1.0] * 30)
    example, _, times = narrowed(batch, lambda arrays: 4 in arrays["a"] and 9 in arrays["a"])
    assert example["a"] == [4.0, 9.0]
    assert times < 100


@given(st.sets(st.integers(0, 39), min_size=1, max_size=2))
def test_every_row_that_is_kept_is_needed(needed: set[int]) -> None:
    batch = rows(a=[float(number) for number in range(40)])
    culprit = narrow(
        batch, DIED, None, FragileVersion(lambda arrays: needed <= set(arrays["a"])), lambda answer: answer.fatal
    )
    assert sorted(culprit.example.arrays["a"]) == sorted(needed)
