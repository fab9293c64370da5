"""Rows that repeat each other, where training has few days: how many do so differs from day to day."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tidegate_validation.skew import Columns, SkewReport, report_on_tables

DAY = 86_400
ROWS = 200


def days(seed: int, count: int, first: int, rate: float, spread: float) -> pd.DataFrame:
    """Days of rows of which some are sent twice, more on some days than on others."""
    random = np.random.default_rng(seed)
    parts: list[pd.DataFrame] = []
    for day in range(first, first + count):
        rows = pd.DataFrame(
            {
                "a": np.round(random.normal(size=ROWS), 3),
                "b": random.integers(0, 9, ROWS),
                "time": day * DAY + random.integers(0, DAY, ROWS),
            }
        )
        again = random.random(ROWS) < rate * np.exp(spread * random.normal())
        parts += [rows, rows[again]]
    return pd.concat(parts, ignore_index=True)


def blames_rows(before: pd.DataFrame, now: pd.DataFrame) -> bool:
    report: SkewReport = report_on_tables(before, now, Columns(time="time"))
    return any(one.subject == "rows" for one in report.findings)


def test_days_that_repeat_more_and_less_are_hardly_ever_blamed() -> None:
    alarms = [
        blames_rows(days(seed, 12, 18_000, 0.06, 0.8), days(1000 + seed, 3, 18_012, 0.06, 0.8)) for seed in range(30)
    ]
    assert sum(alarms) <= 2


@pytest.mark.parametrize(("training_days", "rate"), [(12, 0.02), (12, 0.0), (1, 0.02), (1, 0.0), (2, 0.01)])
def test_rows_that_came_twice_are_found_beside_few_days(training_days: int, rate: float) -> None:
    before = days(5, training_days, 18_000, rate, 0.2)
    now = days(6, 3, 18_012, 0.0, 0.0)
    assert not blames_rows(before, now)
    assert blames_rows(before, pd.concat([now, now[::5]], ignore_index=True))
