"""Columns that write the month, week or quarter of the event: other texts in every window, and no skew."""

from __future__ import annotations

import functools
from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest
from tests.validation.skew.causes import like

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew import Columns
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="at")
DAY, ROWS, HOURS = 86_400, 60, 5
STARTS = ("2022-10-05", "2022-03-10", "2023-12-18", "2022-05-20")
WRITTEN = {
    "week": "%G-W%V",
    "month": "%Y-%m",
    "name": "%B",
    "short": "%b %Y",
    "period": "%m/%Y",
    "year": "%Y",
}


def trips(first: str, days: int) -> pd.DataFrame:
    """Trips in a place five hours west of UTC, each with the parts of its local date in words."""
    random = np.random.default_rng([days, int(first.replace("-", ""))])
    start = int(pd.Timestamp(first, tz="UTC").timestamp())
    at = np.sort(start + random.integers(0, days * DAY, days * ROWS))
    local = pd.Series(pd.to_datetime(at - HOURS * 3600, unit="s"))
    texts = {name: local.dt.strftime(form) for name, form in WRITTEN.items()}
    return pd.DataFrame(
        {
            "at": at,
            **texts,
            "quarter": local.dt.year.astype(str) + "Q" + local.dt.quarter.astype(str),
            "number": local.dt.year * 100 + local.dt.month,
            "season": random.choice(["May", "June", "peak"], len(at)),
            "guests": 1 + random.poisson(2, len(at)),
        }
    )


NAMES = (*WRITTEN, "quarter", "number")


@functools.cache
def training(first: str, days: int) -> Profile:
    rows = trips(first, days)
    return profile_table(as_table(rows, "training"), COLUMNS, [str(name) for name in rows])


def week(first: str, days: int, later: int = 0) -> pd.DataFrame:
    return trips(str((pd.Timestamp(first) + pd.Timedelta(days=days + later)).date()), 7)


def told(rows: pd.DataFrame, first: str, days: int) -> list[Finding]:
    findings = report_on_table(training(first, days), as_table(rows, "the week"), COLUMNS).findings
    return [one for one in findings if one.outcome in (Outcome.FAIL, Outcome.WARN)]


@pytest.mark.parametrize("first", STARTS)
@pytest.mark.parametrize(("days", "later"), [(14, 0), (14, 60), (56, 0), (56, 120)])
def test_weeks_of_other_months_say_nothing(first: str, days: int, later: int) -> None:
    assert [one.sentence for one in told(week(first, days, later), first, days)] == []


def of_months_before(rows: pd.DataFrame, name: str) -> pd.Series:
    """As of a hundred days before."""
    earlier = pd.Series(pd.to_datetime(rows["at"] - HOURS * 3600 - 100 * DAY, unit="s"))
    if name == "quarter":
        return earlier.dt.year.astype(str) + "Q" + earlier.dt.quarter.astype(str)
    return earlier.dt.year * 100 + earlier.dt.month if name == "number" else earlier.dt.strftime(WRITTEN[name])


def frozen(rows: pd.DataFrame, name: str) -> pd.Series:
    return pd.Series(["long ago"] * len(rows))


def in_some(rows: pd.DataFrame, name: str) -> pd.Series:
    return rows[name].where(np.random.default_rng(3).random(len(rows)) > 0.05, of_months_before(rows, name))


@pytest.mark.parametrize("first", ["2022-10-03", "2023-12-15", "2022-06-16", "2024-03-18"])
@pytest.mark.parametrize("name", ["name", "month", "number", "quarter", "year"])
def test_texts_that_training_held_alone_may_stay_as_they_are(name: str, first: str) -> None:
    rows = week(first, 12, 5)
    table = trips(first, 12)
    held = table[name].iloc[0]
    stays = table.assign(**{name: held})

    profile = profile_table(as_table(stays, "training"), COLUMNS, [str(one) for one in stays])
    later = pd.concat([rows, week(first, 12, 12)]).reset_index(drop=True)
    for now in (later.assign(**{name: held}), later):
        findings = report_on_table(profile, as_table(now, "later"), COLUMNS).findings
        assert [one.sentence for one in findings if one.subject == name and one.outcome is not Outcome.PASS] == []


@pytest.mark.parametrize("first", STARTS)
@pytest.mark.parametrize("happen", [of_months_before, in_some])
@pytest.mark.parametrize("name", ["week", "month", "name", "period", "quarter", "number"])
def test_texts_of_another_date_fail(name: str, happen: Callable[[pd.DataFrame, str], pd.Series], first: str) -> None:
    rows = week(first, 56)
    found = told(rows.assign(**{name: happen(rows, name)}), first, 56)

    assert [(one.subject, one.outcome) for one in found] == [(name, Outcome.FAIL)], found
    assert found[0].cause == like({"kind": "another date"}), found[0].sentence


@pytest.mark.parametrize("name", ["week", "name"])
def test_texts_that_are_no_dates_any_more_fail(name: str) -> None:
    rows = week(STARTS[0], 14)
    found = told(rows.assign(**{name: frozen(rows, name)}), STARTS[0], 14)

    assert [(one.subject, one.outcome) for one in found] == [(name, Outcome.FAIL)]


def test_missing_texts_and_a_missing_column_fail() -> None:
    rows = week(STARTS[1], 56)
    hit = np.random.default_rng(1).random(len(rows)) < 0.3
    found = told(rows.assign(week=rows["week"].mask(hit)), STARTS[1], 56)
    assert [(one.subject, one.check, one.outcome) for one in found] == [("week", "missing", Outcome.FAIL)]

    found = told(rows.drop(columns="month"), STARTS[1], 56)
    assert [(one.subject, one.check, one.outcome) for one in found] == [("month", "schema", Outcome.FAIL)]
