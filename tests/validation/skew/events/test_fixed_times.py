"""Columns that follow the local time of day of events at a few fixed times."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew import Columns, report_on_tables

DAY = 86_400
TRAINED = 60
SUNDAY = 19_295
"""The last one of October 2022."""


def told(start: int, clock: int, factor: float = 1.0) -> Finding:
    """What is said of the prices of a week from the day `start` on, of events every other hour, which follow a local
    hour that is one less from the day `clock` on."""
    random = np.random.default_rng(3)
    day, step = np.repeat(np.arange(TRAINED + 7), 204), np.tile(np.repeat(np.arange(0, 24, 2), 17), TRAINED + 7)
    day = day + start - TRAINED
    hour = step + 2 - (day >= clock)
    price = np.round(85 + 30 * np.sin((hour - 8) / 6 * np.pi) + random.normal(0, 3, len(day)), 2)
    at = day * DAY + step * 3600 + random.integers(0, 600, len(day))
    rows = pd.DataFrame({"at": at, "price": price, "size": np.round(random.lognormal(3, 0.6, len(day)), 2)})
    week = rows[day >= start]
    week = week.assign(price=week["price"] * factor)
    return report_on_tables(rows[day < start], week, Columns(time="at")).feature("price")


@pytest.mark.parametrize("start", [SUNDAY - 3, SUNDAY])
def test_prices_of_the_local_hour_are_a_warning_once_summer_time_ends(start: int) -> None:
    found = told(start, SUNDAY)
    assert found.outcome is Outcome.WARN, found.sentence
    assert found.sentence.endswith("(summer time?)")


def test_the_same_at_another_time_of_the_year_fails_and_so_does_another_unit() -> None:
    assert told(SUNDAY + 120, SUNDAY + 120).outcome is Outcome.FAIL
    cents = told(SUNDAY, SUNDAY, 100.0)
    assert (cents.outcome, (cents.cause or {}).get("factor")) == (Outcome.FAIL, 100.0), cents.sentence
