"""Rows beyond training's range that are the window's other rows in another unit, while a season goes on in both."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.validation.skew.causes import like

from tidegate_validation.skew import Columns, report_on_tables
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="at")
DAY = 86_400
ROWS = 250
FAHRENHEIT = {"kind": "factor and offset", "factor": 1.8, "offset": 32.0}


def spring(seed: int, days: int, first_day: int) -> pd.DataFrame:
    """Warmth of three sites, whose days differ and are warmer by and by, and other columns that do not change."""
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
            "years": np.round(random.lognormal(1.6, 0.7, len(day)), 1),
            "shaking": np.round(random.lognormal(0, 0.45, len(day)), 3),
            "creatinine": np.round(random.lognormal(4.4, 0.35, len(day))),
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


@pytest.mark.parametrize("factor", [12.0, 7.0])
def test_rows_that_became_whole_numbers_are_not_ten_times_those_with_one_digit(factor: float) -> None:
    rows = week()
    years = np.round(rows["years"] * factor)
    at_coast = told("years", rows["years"].mask(rows["site"] == "coast", years)) or {}
    assert (at_coast["where"]["value"], at_coast["factor"]) == ("coast", pytest.approx(factor, rel=0.1))
    assert (told("years", rows["years"].mask(some(0.3), years)) or {}).get("factor") in (None, factor)


def test_two_more_digits_at_one_site_are_the_unit_that_fits_by_size() -> None:
    rows = week()
    here = np.round(rows["creatinine"] / 88.42, 2)
    found = told("creatinine", rows["creatinine"].mask(rows["site"] == "coast", here)) or {}
    assert found["factor"] == pytest.approx(1 / 88.42, rel=0.01)


def test_what_comes_with_two_more_digits_is_not_hundredths_for_that() -> None:
    shaking = week()["shaking"]
    assert (told("shaking", shaking.mask(some(0.5), np.round(shaking / 30, 5))) or {}).get("factor") is None


@pytest.mark.parametrize("factor", [9.0, 30.0])
def test_rows_that_lie_higher_by_what_is_no_unit_have_no_such_cause(factor: float) -> None:
    glucose = week()["glucose"]
    assert (told("glucose", glucose.mask(some(0.2), np.round(glucose * factor, 1))) or {}).get("units") is None


def test_other_units_from_a_day_on_are_named_by_the_rows_since_then() -> None:
    """Given to more digits than before, they are no part of all rows."""
    random = np.random.default_rng(1)
    day = np.repeat(np.arange(67), 320)
    height = random.normal(171, 9, len(day))
    weight = np.round(height**2 / 1e4 * np.exp(random.normal(3.2, 0.17, len(day))), 1)
    rows = pd.DataFrame({"at": (19_000 + day) * 86_400 + np.tile(np.arange(320) * 200, 67), "weight": weight})
    pounds = rows["weight"].mask(day >= 62, np.round(weight * 0.45359237, 2))

    found = report_on_tables(rows[day < 60], rows.assign(weight=pounds)[day >= 60], Columns(time="at"))

    cause = found.feature("weight").cause or {}
    assert (cause["kind"], cause["factor"], cause["since"]) == ("constant factor", 0.45359237, "2022-03-11")
