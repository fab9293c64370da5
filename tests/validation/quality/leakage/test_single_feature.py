"""What one input tells of the label by itself."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate_serving.contract.tensors import Array
from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.leakage.single_feature import copies, single_feature_power

ROWS = 3000


@pytest.mark.parametrize("kind", ["number", "hump", "category", "noise"])
def test_what_one_input_tells_alone(kind: str) -> None:
    random = np.random.default_rng(4)
    labels = (random.random(6000) < 0.4).astype(np.float64)
    columns = {
        "number": labels + random.normal(0, 0.3, 6000),
        "hump": np.where(labels == 1, random.uniform(-1, 1, 6000), random.choice([-2.0, 2.0], 6000)),
        "category": np.where(labels == 1, "yes", "no").astype(object),
        "noise": random.normal(0, 1, 6000),
    }
    alone = single_feature_power(Evaluation("binary", labels, np.arange(6000) % 40), columns[kind])
    assert (alone > 0.95) is (kind != "noise")
    assert alone >= 0.5


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
