"""Rows beyond training's range that are the window's other rows in another unit, while a season goes on in both."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.validation.skew.causes import like

from tidegate_validation.skew import Columns
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="at")
DAY = 86_400
ROWS = 250
FAHRENHEIT = {"kind": "factor and offset", "factor": 1.8, "offset": 32.0}


def spring(seed: int, days: int, first_day: int) -> pd.DataFrame:
    """Warmth of three sites, whose days differ and are warmer by and by, and glucose that does not change."""
    random = np.random.default_rng(seed)
    day = np.repeat(np.arange(days) + first_day, ROWS)
    level = np.repeat(random.normal(0, 2.5, days), ROWS) - 9 * np.cos((day - 19_590) / 58)
    site = random.choice(["coast", "hill", "valley"], len(day), p=[0.3, 0.3, 0.4])
    warmth = 8 + level + np.where(site == "hill", -2, 0) + 2 * random.normal(size=len(day))
    return pd.DataFrame(
        {
            "at": day * DAY + random.integers(0, DAY, len(day)),
            "site": site,
            "warmth": np.round(warmth, 1),
            "glucose": np.round(np.exp(1.75 + 0.25 * random.normal(size=len(day))), 1),
        }
    )


@functools.cache
def training() -> Profile:
    rows = spring(1, 60, 19_600)
    return profile_table(as_table(rows, "training"), COLUMNS, [str(name) for name in rows])


def week() -> pd.DataFrame:
    return spring(2, 7, 19_665)


def told(column: str, values: pd.Series) -> Mapping[str, Any] | None:
    rows = week().assign(**{column: values})
    return report_on_table(training(), as_table(rows, "the week"), COLUMNS).feature(column).cause


def some(share: float) -> Any:
    return np.random.default_rng(3).random(7 * ROWS) < share


def test_fahrenheit_at_one_site_is_told_though_the_season_went_on() -> None:
    rows = week()
    warmth = rows["warmth"].mask(rows["site"] == "coast", np.round(rows["warmth"] * 1.8 + 32, 1))
    assert told("warmth", warmth) == like({**FAHRENHEIT, "where": {"column": "site", "value": "coast"}})


def test_a_part_of_the_rows_in_the_unit_of_another_laboratory_is_told() -> None:
    glucose = week()["glucose"]
    assert told("glucose", glucose.mask(some(0.2), np.round(glucose * 18.016))) == like({"factor": 18.016})


@pytest.mark.parametrize("factor", [9.0, 30.0])
def test_rows_that_lie_higher_by_what_is_no_unit_have_no_such_cause(factor: float) -> None:
    glucose = week()["glucose"]
    assert (told("glucose", glucose.mask(some(0.2), np.round(glucose * factor, 1))) or {}).get("units") is None
