"""Numbers beyond what float16 holds: told of where a version keeps them so, and of no other version."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from tests.validation import world
from tests.validation.robustness.examined import LIMITS, examined, held_out
from tests.validation.world import HONEST

from tidegate_serving.admission import Outcome

KEPT = "weight = inputs['weight'].astype(np.float16).astype(np.float64); "
SCORES = {
    "float16": KEPT + "score = np.log(np.clip(weight, 1, 1e9)) - 8",
    "float32": "score = np.log(np.clip(inputs['weight'], 1, 1e9).astype(np.float64)) - 8",
    "clipped": "score = np.log(np.clip(inputs['weight'], 1, 65504).astype(np.float64)) - 8",
    "trees": "score = np.searchsorted(np.arange(0, 90e3, 9e3), inputs['weight']) / 4.0 - 2",
    "a sensor's end": "score = np.minimum(inputs['weight'] / 3e4, 2.0) - 1 + 2 * (inputs['weight'] > 65534.5)",
    "trees at 65,500": "score = np.searchsorted([9e3, 50e3, 65.5e3], inputs['weight']) / 2.0 - 1",
    "not read": "score = np.zeros(len(inputs['weight']))",
}


@pytest.mark.parametrize("kind", SCORES)
def test_numbers_that_are_kept_as_float16_are_told_of(tmp_path: Path, kind: str) -> None:
    """Three rows of 600 lie beyond, too few for any metric."""
    random = np.random.default_rng(1)
    weights = np.concatenate([np.exp(random.normal(8, 0.5, 597)), [70e3, 80e3, 90e3]]).astype(np.float32)
    table = world.with_column(held_out(), "weight", weights)
    source = HONEST.replace("        return", f"        {SCORES[kind]}\n        return")
    found = [one for one in examined(tmp_path, source, table=table, limits=LIMITS) if one.check == "numbers"]
    assert [(one.subject, one.outcome) for one in found] == ([("weight", Outcome.WARN)] if kind == "float16" else [])
    assert all("3 rows of the data lie beyond" in one.sentence for one in found)
