"""Dates that are kept as texts: a day off they are found as dates are, and written another way told as that."""

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
ROWS = 150


def rows(seed: int, first: str, days: int) -> pd.DataFrame:
    """Days on which something is due, dates of birth of which some are missing, a season's days and no dates."""
    random = np.random.default_rng(seed)
    n = days * ROWS
    day = pd.Timestamp(first) + pd.to_timedelta(np.repeat(np.arange(days), ROWS), unit="D")
    born = pd.Timestamp("1950-01-01") + pd.to_timedelta(random.integers(0, 20_000, n), unit="D")
    return pd.DataFrame(
        {
            "at": day + pd.to_timedelta(random.integers(0, 86_400, n), unit="s"),
            "due": (day + pd.to_timedelta(random.integers(1, 15, n), unit="D")).strftime("%Y-%m-%d"),
            "born": pd.Series(born.strftime("%Y-%m-%d")).mask(random.random(n) < 0.05),
            "tariff": random.choice(["2025-01-01", "2025-07-01", "2026-01-01"], n, p=[0.2, 0.5, 0.3]),
            "lot": [f"2026-{one:05d}" for one in random.integers(0, 300, n)],
        }
    )


@functools.cache
def training(seed: int) -> Profile:
    before = rows(seed, "2026-03-01", 49)
    return profile_table(as_table(before, "training"), COLUMNS, [str(name) for name in before])


def week(seed: int) -> pd.DataFrame:
    return rows(100 + seed, "2026-04-19", 7)


def told(seed: int, now: pd.DataFrame, column: str) -> list[Finding]:
    findings = report_on_table(training(seed), as_table(now, "the week"), COLUMNS).findings
    return [one for one in findings if one.subject == column and one.outcome in (Outcome.FAIL, Outcome.WARN)]


def moved(dates: pd.Series, days: int) -> pd.Series:
    return (pd.to_datetime(dates) + pd.Timedelta(days=days)).dt.strftime("%Y-%m-%d")


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("days", [-1, 1])
def test_dates_in_texts_that_are_a_day_off_are_found(days: int, seed: int) -> None:
    now = week(seed)
    found = told(seed, now.assign(due=moved(now["due"], days)), "due")

    assert found, "nothing was found"
    assert found[0].outcome is Outcome.FAIL
    assert found[0].cause == like({"kind": "constant offset", "offset": float(days)}), found[0].sentence


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("column", ["due", "born", "tariff"])
@pytest.mark.parametrize(
    "way", ["%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y", "%Y/%m/%d", "%Y%m%d", "%d.%m.%y", "%Y-%m-%dT%H:%M:%SZ"]
)
def test_dates_that_are_written_another_way_are_told_as_that_and_nothing_else(way: str, column: str, seed: int) -> None:
    now = week(seed)
    (found,) = told(seed, now.assign(**{column: pd.to_datetime(now[column]).dt.strftime(way)}), column)

    assert found.outcome is Outcome.FAIL
    assert found.cause == like({"kind": "written another way", "change": "date format"}), found.sentence
    assert "dates that are written another way" in found.sentence


@pytest.mark.parametrize("seed", range(4))
def test_a_part_that_is_written_another_way_and_a_day_off_besides_are_both_told(seed: int) -> None:
    now = week(seed)
    part = np.random.default_rng(seed).random(len(now)) < 0.05
    other = pd.to_datetime(now["due"]).dt.strftime("%d.%m.%Y")
    (some,) = told(seed, now.assign(due=now["due"].mask(part, other)), "due")
    both = told(seed, now.assign(due=pd.to_datetime(moved(now["due"], 1)).dt.strftime("%d.%m.%Y")), "due")

    assert some.cause == like({"kind": "written another way"})
    assert 0.02 < (some.number or 0) < 0.08
    assert [(one.cause or {})["kind"] for one in both] == ["written another way", "constant offset"]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("column", ["due", "born"])
def test_texts_that_are_no_dates_are_named(column: str, seed: int) -> None:
    now = week(seed)
    part = np.random.default_rng(seed).random(len(now)) < 0.03
    (found,) = told(seed, now.assign(**{column: now[column].mask(part, "unknown")}), column)

    assert found.outcome is Outcome.FAIL
    assert "no dates, such as “unknown”" in found.sentence


def _as_stamps(dates: pd.Series) -> pd.Series:
    return pd.Series(pd.to_datetime(dates))


def _as_years(dates: pd.Series) -> pd.Series:
    return pd.Series(_as_stamps(dates).dt.year)


@pytest.mark.parametrize("change", [_as_stamps, _as_years])
@pytest.mark.parametrize("column", ["due", "born"])
def test_dates_that_are_no_texts_any_more_are_of_another_kind(
    column: str, change: Callable[[pd.Series], pd.Series]
) -> None:
    now = week(0)
    (found,) = told(0, now.assign(**{column: change(now[column])}), column)

    assert found.check == "schema"
    assert found.outcome is Outcome.FAIL
    assert "was text in training and is served as" in found.sentence


def test_dates_that_are_all_gone_are_missing() -> None:
    (found,) = told(0, week(0).assign(due=None), "due")

    assert found.cause == like({"kind": "missing values"}), found.sentence


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("column", ["due", "born", "tariff", "lot"])
def test_ordinary_weeks_say_nothing(column: str, seed: int) -> None:
    assert [one.sentence for one in told(seed, week(seed), column)] == []
