"""What one input tells of the label by itself."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.leakage.single_feature import single_feature_power


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
