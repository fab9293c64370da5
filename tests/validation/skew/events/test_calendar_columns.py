"""Columns that are read off the event's time, such as its month, are others in every window and no skew."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest

from tidegate_serving.admission import Outcome
from tidegate_validation.skew import Columns, SkewReport, report_on_tables
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="at")
DAY = 86_400
ROWS = 50
CALENDAR = ("month", "day", "weekday", "yearday", "week", "year")


def trips(first: str, days: int) -> pd.DataFrame:
    """Trips two hours east of UTC, with all parts of their local dates, and how many took part."""
    random = np.random.default_rng(days)
    start = pd.Timestamp(first, tz="UTC").timestamp()
    at = np.sort(start + random.integers(0, days * DAY, days * ROWS))
    local = pd.Series(pd.to_datetime(at + 2 * 3600, unit="s"))
    return pd.DataFrame(
        {
            "at": at,
            "month": local.dt.month,
            "day": local.dt.day,
            "weekday": local.dt.day_of_week,
            "yearday": local.dt.day_of_year - 1,
            "week": local.dt.isocalendar().week.astype("int64"),
            "year": local.dt.year,
            "guests": 1 + random.poisson(2, len(at)),
        }
    )


@functools.cache
def training() -> Profile:
    rows = trips("2022-10-05", 60)
    return profile_table(as_table(rows, "training"), COLUMNS, [str(name) for name in rows])


@functools.cache
def week() -> pd.DataFrame:
    return trips("2022-12-29", 7)


def report(rows: pd.DataFrame) -> SkewReport:
    return report_on_table(training(), as_table(rows, "the week"), COLUMNS)


def test_a_week_of_another_month_and_year_passes() -> None:
    found = report(week())

    assert found.outcome is Outcome.PASS, [one.sentence for one in found.findings]
    assert {one.subject for one in found.findings} == {*CALENDAR, "guests"}


@pytest.mark.parametrize("column", CALENDAR)
def test_a_part_of_the_date_that_is_counted_otherwise_fails(column: str) -> None:
    found = report(week().assign(**{column: week()[column] - 1}))

    assert [one.subject for one in found.findings if one.outcome is Outcome.FAIL] == [column]
    assert f"`{column}`, beside the " in found.feature(column).sentence
    assert found.feature(column).sentence.endswith("served values are those of training minus 1")
    assert found.feature(column).cause == {"kind": "constant offset", "share": 1.0, "offset": -1.0}


def test_rows_are_told_by_no_column_that_nobody_sent() -> None:
    """A part of the producers has another weekday, and sends no guests."""
    broken = np.random.default_rng(1).random(len(week())) < 0.2
    found = report(
        week().assign(guests=week()["guests"].where(~broken), weekday=(week()["weekday"] + broken.astype(np.int64)) % 7)
    )
    share = round(float(broken.mean()), 4)

    assert found.feature("guests").sentence.endswith("of the values are missing, 0.0 % were in training")
    assert found.feature("guests").cause == {"kind": "missing values", "share": share}
    assert found.feature("weekday").sentence.endswith(f"those of training plus 1 for {100 * share:.0f} % of the rows")
    assert found.feature("weekday").cause == {"kind": "constant offset", "share": share, "offset": 1.0}


def test_a_column_of_the_calendar_that_is_gone_or_no_number_is_told() -> None:
    gone = report(week().drop(columns="month")).feature("month")
    text = report(week().assign(month="December")).feature("month")

    assert (gone.outcome, gone.check) == (Outcome.FAIL, "schema")
    assert (text.outcome, text.check) == (Outcome.FAIL, "schema")


def test_a_part_of_the_date_that_training_knew_one_of_is_told_by_its_name() -> None:
    """A month of training has one month, and no other column of one number is held against the date."""
    rows = trips("2022-10-03", 25).assign(quarter=4, grade=10)
    profile = profile_table(as_table(rows, "training"), COLUMNS, [str(name) for name in rows])
    later = week()[week()["month"] == 1].assign(quarter=1, grade=10)

    found = report_on_table(profile, as_table(later, "the week"), COLUMNS)

    assert found.outcome is Outcome.PASS, [one.sentence for one in found.findings]
    assert "beside the quarter of `at`" in found.feature("quarter").sentence
    assert "beside" not in found.feature("grade").sentence


def in_berlin(first: str, days: int, rows: int = 3 * ROWS) -> pd.DataFrame:
    """Events around the clock, with their local weekday, day of the month and date."""
    random = np.random.default_rng(days)
    start = pd.Timestamp(first, tz="UTC").timestamp()
    at = np.sort(start + random.integers(0, days * DAY, days * rows))
    local = pd.Series(pd.to_datetime(at, unit="s", utc=True).tz_convert("Europe/Berlin"))
    parts = {"weekday": local.dt.day_of_week, "day": local.dt.day, "date": local.dt.date, "hour": local.dt.hour}
    return pd.DataFrame({"at": at, **parts})


@pytest.mark.parametrize(("first", "outcome"), [("2022-08-31", Outcome.WARN), ("2022-09-28", Outcome.PASS)])
def test_dates_of_the_hour_that_summer_time_moves_do_not_fail(first: str, outcome: Outcome) -> None:
    """Summer time ends with training, or within it."""
    rows = in_berlin(first, 67)
    cut = rows["at"].min() // DAY * DAY + 60 * DAY
    found = report_on_tables(rows[rows["at"] < cut], rows[rows["at"] >= cut], COLUMNS)

    assert not [one.sentence for one in found.findings if one.outcome is Outcome.FAIL]
    assert {found.feature(name).outcome for name in ("weekday", "day", "date")} == {outcome}
    assert outcome is Outcome.PASS or "earlier than in training (summer time?)" in found.feature("weekday").sentence
    late = rows.assign(
        day=rows["day"] + (rows["hour"] < 2),
        date=rows["date"].where(rows["hour"] != 9, rows["date"] + pd.Timedelta(days=1)),
    )
    moved = report_on_tables(rows[rows["at"] < cut], late[late["at"] >= cut], COLUMNS)
    assert (moved.feature("day").outcome, moved.feature("date").outcome) == (Outcome.FAIL, Outcome.FAIL)


def test_a_few_rows_with_other_weekdays_are_not_told_as_summer_time() -> None:
    rows = in_berlin("2022-08-31", 45, 8 * ROWS)
    cut = rows["at"].min() // DAY * DAY + 35 * DAY
    now = rows[rows["at"] >= cut]
    few = np.arange(len(now)) % 230 == 7
    found = report_on_tables(rows[rows["at"] < cut], now.assign(weekday=(now["weekday"] + 3 * few) % 7), COLUMNS)

    assert found.feature("weekday").cause == {"kind": "constant offset", "share": round(few.mean(), 4), "offset": 3.0}
