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


def test_the_most_frequent_of_many_alike_are_so_by_chance() -> None:
    """Two words of fifteen: two hundred phrases of which none is more frequent than others."""
    told = []
    for seed in range(10):
        random = np.random.default_rng(seed)
        rows = pd.DataFrame({"phrase": [" ".join(random.choice(WORDS, 2)) for _ in range(603)]})
        rows["at"] = 18_000 * DAY + np.arange(603) // 9 * DAY
        found = report_on_tables(rows[:540], rows[540:], Columns(time="at")).feature("phrase")
        told += [found.sentence] if found.outcome in (Outcome.FAIL, Outcome.WARN) else []
    assert not told


def test_those_that_are_more_frequent_are_missed() -> None:
    random = np.random.default_rng(1)
    places = np.where(random.random(6700) < 0.3, random.integers(0, 3, 6700), random.integers(3, 225, 6700))
    rows = pd.DataFrame({"phrase": [f"phrase {place}" for place in places]})
    rows["at"] = 18_000 * DAY + np.arange(6700) // 100 * DAY
    now = rows[6000:].assign(phrase=rows["phrase"][6000:].replace("phrase 1", "phrase 2"))
    found = report_on_tables(rows[:6000], now, Columns(time="at")).feature("phrase")
    assert found.outcome is Outcome.FAIL, found.sentence
