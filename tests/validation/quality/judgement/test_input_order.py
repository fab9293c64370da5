"""Inputs that a candidate reads in another order than the baseline, found by its answers alone."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pytest

from tidegate_validation.quality.data.held_out import HeldOut, ScoredExamples
from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.judgement.input_order import judge_input_order
from tidegate_validation.quality.leakage.investigation import CandidateModel
from tidegate_validation.sandbox.examples import Examples
from tidegate_validation.statistics.arrays import Floats

NAMES = ("width", "age", "height", "count", "year")
WEIGHTS = np.array([3.0, -1.0, 2.0, 0.5, 1.5])
ROWS = 600


def found(read: Callable[[Floats], Floats]) -> list[dict[str, str]]:
    """The inputs that are told as mixed up, where the candidate reads the table's columns so."""
    random = np.random.default_rng(5)
    columns = {name: random.normal(size=ROWS) for name in NAMES[:4]} | {"year": random.integers(1990, 2020, ROWS)}
    table = pa.table({**columns, "kind": ["a", "b"] * (ROWS // 2)})

    def answers(examples: Examples, reading: Callable[[Floats], Floats], error: float) -> Floats:
        rows = np.column_stack([examples.arrays[name] for name in NAMES]).astype(np.float64)
        return np.asarray(reading(rows - [0, 0, 0, 0, 2000]) @ WEIGHTS + error)

    def examples(of: pa.Table) -> Examples:
        arrays = {name: of[name].to_numpy(zero_copy_only=False) for name in (*NAMES, "kind")}
        return Examples(arrays, np.arange(of.num_rows))

    whole = examples(table)
    baseline, candidate = answers(whole, lambda rows: rows, 0.1), answers(whole, read, 0.0)
    evaluation = Evaluation("regression", baseline, np.arange(ROWS) % 40, clustered=False)
    scored = ScoredExamples(HeldOut(table, evaluation, "40 random buckets"), candidate, baseline, NAMES)
    model = CandidateModel(dict.fromkeys((*NAMES, "kind"), True), examples, lambda one: answers(one, read, 0.0))
    return [dict(one.cause["inputs"]) for one in judge_input_order(scored, model) if one.cause is not None]


@pytest.mark.parametrize(
    ("read", "told"),
    [
        (lambda rows: rows[:, [2, 1, 0, 3, 4]], [{"width": "height", "height": "width"}]),
        (
            lambda rows: rows[:, [1, 3, 2, 0, 4]],
            [{"age": "width", "count": "age", "width": "count"}],
        ),
        (lambda rows: rows, []),
        (lambda rows: rows * [2, 1, 1, 1, 1], []),
        (lambda rows: rows[:, [0, 1, 2, 3, 3]], []),
    ],
    ids=["two swapped", "sorted by name", "as before", "another unit", "one read twice"],
)
def test_inputs_in_another_order_are_named(read: Callable[[Floats], Floats], told: list[dict[str, str]]) -> None:
    assert found(read) == told


def test_a_wide_and_slow_version_is_asked_for_few_rows() -> None:
    """As many as the gate asks it for anyway."""
    random, asked = np.random.default_rng(6), list[int]()
    names = [f"x{number}" for number in range(12)]
    table = pa.table({name: random.normal(size=10_000) for name in names})

    def examples(of: pa.Table) -> Examples:
        return Examples({name: of[name].to_numpy() for name in names}, np.arange(of.num_rows))

    def score(one: Examples) -> Floats:
        asked.append(len(one))
        return np.asarray(one.arrays["x1"] - one.arrays["x0"])

    candidate = score(examples(table))
    evaluation = Evaluation("regression", -candidate, np.arange(10_000) % 40, clustered=False)
    scored = ScoredExamples(HeldOut(table, evaluation, "40 random buckets"), candidate, -candidate, tuple(names))
    asked.clear()
    (told,) = judge_input_order(scored, CandidateModel(dict.fromkeys(names, True), examples, score))
    assert told.cause is not None
    assert told.cause["inputs"] == {"x0": "x1", "x1": "x0"}
    assert sum(asked) <= 10_000
