"""Versions whose inputs have open axes, such as token ids, on rows of several sizes: robustness, and quality too."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa
from tests.validation.quality import judged
from tests.validation.robustness.examined import examined, failing
from tests.validation.world import LABEL, Draft

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.signature import Signature, TensorSpec

IDS = Signature((TensorSpec("ids", "int64", (-1, -1)),), (TensorSpec("probability", "float32"),))
MEAN = """
import numpy as np

class Model:
    def predict(self, inputs):
        ids = inputs["ids"]
        return {"probability": (ids.mean(axis=1) / 10).astype(np.float32)}
"""
LISTS = [[row % 10] * (5 if row % 7 == 0 else 3) for row in range(1400)]


def test_a_fault_at_a_size_that_few_rows_have_is_found_and_no_other(tmp_path: Path) -> None:
    source = MEAN.replace(
        "        return", "        if ids.shape[1] == 5: raise IndexError('too long')\n        return"
    )
    draft = Draft(source=source, signature=IDS, example={"ids": [1, 2, 3, 4]})
    (one,) = failing(examined(tmp_path, source, table=pa.table({"ids": LISTS[:300]}), draft=draft))
    assert (one.check, one.subject) == ("data", "ids")
    assert "IndexError: too long" in one.sentence


def test_all_sizes_count_for_quality(tmp_path: Path) -> None:
    random = np.random.default_rng(0)
    labels = [int(random.random() < ids[0] / 9) for ids in LISTS]
    found = judged.judged(
        tmp_path, Draft(MEAN, IDS, example={"ids": [1]}), None, pa.table({"ids": LISTS, LABEL: labels})
    )
    assert judged.outcome(found) is Outcome.PASS, [one.sentence for one in found]
    assert "on 1,400 held-out examples" in judged.named(found, "AUC").sentence
