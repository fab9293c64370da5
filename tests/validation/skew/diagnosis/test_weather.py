"""A barometer, whose values lie far from zero on a fine grid, and the air, whose days hang together."""

from __future__ import annotations

import datetime
import functools

import numpy as np
import pandas as pd
import pytest

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew import Columns
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="at")
DAY = 86_400
TRAINED = 60
ROWS = 250


@functools.cache
def weather(seed: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    days = TRAINED + 7
    level = np.zeros((days, 2))
    for one in range(1, days):
        level[one] = (0.6, 0.97) * level[one - 1] + random.normal(0, (3.5, 2.5))
    day = np.repeat(np.arange(days), ROWS)
    hour = random.uniform(0, 24, len(day))
    return pd.DataFrame(
        {
            "at": (19_400 + day) * DAY + (hour * 3600).astype(np.int64),
            "pressure": np.round(1013 + level[day, 0] + random.normal(0, 0.4, len(day)), 1),
            "air": np.round(12 + level[day, 1] + 4 * np.sin((hour - 9) / 3.82) + random.normal(0, 1, len(day)), 1),
            "built": [
                datetime.date(2001, 1, 1) + datetime.timedelta(int(one)) for one in random.integers(0, 900, len(day))
            ],
        }
    )


@functools.cache
def training(seed: int) -> Profile:
    rows = weather(seed).head(TRAINED * ROWS)
    return profile_table(as_table(rows, "training"), COLUMNS, [str(name) for name in rows])


def week(seed: int) -> pd.DataFrame:
    return weather(seed).tail(7 * ROWS).reset_index(drop=True)


def told(seed: int, column: str, values: pd.Series) -> Finding:
    found = report_on_table(training(seed), as_table(week(seed).assign(**{column: values}), "the week"), COLUMNS)
    assert found.feature(column).outcome is Outcome.FAIL
    return found.feature(column)


@pytest.mark.parametrize("seed", [0, 5, 8])
def test_a_barometer_in_pascals_is_told_where_other_factors_would_do_as_well(seed: int) -> None:
    found = told(seed, "pressure", (100 * week(seed)["pressure"]).round())

    assert "100 times those of training" in found.sentence


@pytest.mark.parametrize("seed", range(5))
def test_a_cut_is_told_whether_the_week_is_warm_or_cold(seed: int) -> None:
    air = week(seed)["air"]
    high, low = (round(float(air.quantile(one)), 1) for one in (0.8, 0.2))

    assert f"values above {high:g} are cut off to it" in told(seed, "air", air.clip(upper=high)).sentence
    assert f"values below {low:g} are cut off to it" in told(seed, "air", air.clip(lower=low)).sentence


@pytest.mark.parametrize("seed", range(3))
def test_a_default_apart_from_the_values_of_a_week_is_no_cut(seed: int) -> None:
    air = week(seed)["air"]
    few = np.random.default_rng(seed).random(len(air)) < 0.08
    default = round(air.max() + 2.5, 1)

    found = told(seed, "air", air.where(~few, default))

    assert (found.cause or {})["value"] == default


def test_an_offset_of_dates_is_told_in_days() -> None:
    built = week(0)["built"].map(lambda one: one - datetime.timedelta(3652))
    found = told(0, "built", built)
    days = (found.cause or {})["days"]

    assert found.sentence == f"`built`: served values are those of training minus about {float(f'{-days:.3g}'):g} days"
    assert days == pytest.approx(-3652, abs=30)
