"""A column of free text: hardly any value comes twice, which is no difference between two tables."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tidegate_serving.admission import Outcome
from tidegate_validation.skew import Columns, report_on_tables

DAY = 86_400
WORDS = [f"word{place}" for place in range(15)]


@pytest.mark.parametrize("time", ["at", None])
def test_texts_that_come_once_are_blamed_for_nothing(time: str | None) -> None:
    for seed in range(3):
        random = np.random.default_rng(seed)
        texts = [" ".join(random.choice(WORDS, 6)) for _ in range(1200)]
        rows = pd.DataFrame({"note": texts, "size": random.normal(size=1200)})
        if time is not None:
            rows[time] = 18_000 * DAY + np.arange(1200) * 40 * DAY // 1200
        found = report_on_tables(rows[:800], rows[800:], Columns(time=time)).feature("note")
        assert found.outcome not in (Outcome.FAIL, Outcome.WARN), found.sentence
