"""Single days on which values are missing as on no day of training."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tidegate_serving.admission import Outcome
from tidegate_validation.skew import Columns, report_on_tables

DAY = 86_400


def sales(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Eighty days and the two weeks after them, in which a varying part of the stock is not known."""
    random = np.random.default_rng(seed)
    day = np.repeat(19_000 + np.arange(94), 120)
    part = np.repeat(random.beta(2, 20, 94), 120)
    rows = pd.DataFrame(
        {
            "at": day * DAY + random.integers(0, DAY, len(day)),
            "sold": random.poisson(9, len(day)).astype(float),
            "stock": np.where(random.random(len(day)) < part, np.nan, random.normal(50, 9, len(day))),
        }
    )
    return rows[day < 19_080], rows[day >= 19_080]


@pytest.mark.parametrize("column", ["sold", "stock"])
def test_two_days_without_a_value_are_told(column: str) -> None:
    before, now = sales(1)
    gone = now["at"] // DAY % 7 == 0
    found = report_on_tables(before, now.assign(**{column: now[column].mask(gone)}), Columns(time="at")).feature(column)

    assert (found.check, found.outcome) == ("missing", Outcome.WARN)
    assert found.cause is not None
    assert found.cause["kind"] == "missing values"
    assert 0.08 < found.cause["share"] < 0.15
    assert "on 2 of 14 days other shares of its values are missing than on any day of training (20" in found.sentence


@pytest.mark.parametrize("seed", range(6))
def test_days_on_which_a_varying_part_is_missing_are_calm(seed: int) -> None:
    before, now = sales(seed)

    assert report_on_tables(before, now, Columns(time="at")).outcome is Outcome.PASS


@pytest.mark.parametrize("hours", [7.5, 13.0, 24.0])
def test_a_day_that_is_not_over_yet_is_calm_where_values_come_by_day(hours: float) -> None:
    random = np.random.default_rng(5)
    day = np.repeat(19_000 + np.arange(75), 240)
    second = random.integers(0, DAY, len(day))
    wait = np.where(second < 8 * 3600, np.nan, random.gamma(2, 30, len(day)))
    rows = pd.DataFrame({"at": day * DAY + second, "wait": wait})
    before, now = rows[day < 19_060], rows[(day >= 19_060) & (rows["at"] < 19_074 * DAY + hours * 3600)]

    assert report_on_tables(before, now, Columns(time="at")).outcome is Outcome.PASS


def test_two_days_without_a_stamp_are_told_once_and_of_the_stamp() -> None:
    before, now = sales(1)
    before, now = (
        rows.assign(
            shipped=pd.to_datetime(rows["at"] + np.random.default_rng(3).integers(600, 9000, len(rows)), unit="s")
        )
        for rows in (before, now)
    )
    gone = now["at"] // DAY % 7 == 0
    report = report_on_tables(before, now.assign(shipped=now["shipped"].mask(gone)), Columns(time="at"))

    told = [one for one in report.findings if one.outcome is not Outcome.PASS]
    assert [(one.check, one.subject) for one in told] == [("missing", "shipped")]


def test_days_are_looked_at_where_a_row_has_no_time() -> None:
    before, now = sales(1)
    gone = now.assign(stock=now["stock"].mask(now["at"] // DAY % 7 == 0), at=now["at"].astype("Int64"))
    gone.loc[gone.index[7], "at"] = None
    found = report_on_tables(before, gone, Columns(time="at")).feature("stock")

    assert (found.check, found.outcome) == ("missing", Outcome.WARN)
    assert "on 2 of 14 days" in found.sentence


def orders(seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Seven weeks, and one, of orders with the date on which each is due, as a text, and the desk that took it."""
    random = np.random.default_rng(seed)
    day = np.repeat(20_500 + np.arange(56), 180)
    due = (day + random.integers(1, 15, len(day))).astype("datetime64[D]").astype(str)
    desk = random.choice(["north", "south", "east"], len(day), p=[0.5, 0.3, 0.2])
    rows = pd.DataFrame({"at": day * DAY + random.integers(0, DAY, len(day)), "due": due, "desk": desk})
    return rows[day < 20_549], rows[day >= 20_549]


@pytest.mark.parametrize("seed", range(6))
def test_days_of_dates_that_move_on_are_calm_and_one_day_of_another_category_is_told(seed: int) -> None:
    before, now = orders(seed)
    other = now["desk"].where(now["at"] // DAY != 20_552, "east")
    found = report_on_tables(before, now.assign(desk=other), Columns(time="at"))

    assert found.feature("due").outcome is Outcome.PASS, found.feature("due").sentence
    assert found.feature("desk").outcome in (Outcome.FAIL, Outcome.WARN)
