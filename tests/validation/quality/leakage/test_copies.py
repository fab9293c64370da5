"""Copies of an input that tells the label, and instruments that measure the same thing."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate_serving.contract.tensors import Array
from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.leakage.copies import copies
from tidegate_validation.quality.leakage.single_feature import single_feature_powers

ROWS = 3000


def evaluated(labels: Array) -> Evaluation:
    """Labels of two classes."""
    return Evaluation("binary", labels.astype(np.float64), np.arange(ROWS) % 40, ("0", "1"), clustered=False)


@pytest.mark.parametrize("task", ["binary", "regression"])
def test_copies_of_an_input_go_with_it_beyond_the_label(task: str) -> None:
    random = np.random.default_rng(2)
    labels = random.integers(0, 2, ROWS).astype(np.float64) if task == "binary" else random.normal(0, 1, ROWS)
    leak = labels + random.normal(0, 0.1, ROWS)
    inputs: dict[str, Array] = {
        "leak": leak,
        "copy": 3 - 2 * leak + random.normal(0, 0.1, ROWS),
        "measured apart": labels + random.normal(0, 0.1, ROWS),
        "gaps": np.where(random.random(ROWS) < 0.1, np.nan, leak),
        "words": np.where(leak > 0.5, b"yes", b"no").astype(object),
    }
    evaluation = Evaluation(task, labels, np.arange(ROWS) % 40, ("0", "1"), clustered=False)
    told = {"words": 0.97, "gaps": 0.97, "measured apart": 0.98, "copy": 0.98, "leak": 0.99}
    assert copies(evaluation, inputs, told) == ["leak", "copy"]
    exact = {"leak": labels, "copy": 5 - labels, "apart": inputs["measured apart"]}
    assert copies(evaluation, exact, dict.fromkeys(exact, 1.0)) == ["leak", "copy"]
    assert copies(evaluation, inputs, {}) == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["a mean", "beside another input", "scales of each half", "three"])
def test_instruments_that_measure_the_same_thing_are_no_copies(kind: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    truth, other = random.normal(20, 5, ROWS), random.normal(0, 1, ROWS)
    read = [truth + random.normal(0, 0.4, ROWS) for _ in range(3 if kind == "three" else 2)]
    late = {"a mean": 0.0, "beside another input": 0.3, "scales of each half": 0.0, "three": 0.1}[kind] * other
    labels = np.mean(read, axis=0) + late > 21
    columns = {f"read {place}": 1.8 * one + 32 if place else one for place, one in enumerate(read)}
    if kind == "scales of each half":
        columns = {name: np.exp(one / 10) for name, one in columns.items()}
    told = single_feature_powers(evaluated(labels), columns)
    assert min(told.values()) > 0.99
    assert len(copies(evaluated(labels), columns, told)) == 1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["threshold", "noisy", "rounded", "rank"])
def test_one_instrument_in_two_columns_is_a_copy(kind: str, seed: int) -> None:
    random = np.random.default_rng(seed)
    delay = random.exponential(30, ROWS)
    labels = delay + random.normal(0, 1, ROWS) > 25
    second = {
        "threshold": delay / 60,
        "noisy": delay + random.normal(0, 0.5, ROWS),
        "rounded": delay.round(),
        "rank": np.sqrt(delay),
    }[kind]
    columns: dict[str, Array] = {"delay": delay, "again": second}
    told = single_feature_powers(evaluated(labels), columns)
    assert sorted(copies(evaluated(labels), columns, told)) == ["again", "delay"]
