"""Hours and days within a window of which no row came, and windows in which nothing is missing."""

from __future__ import annotations

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
DAY, HOUR, FIRST, TRAINED = 86_400, 3600, 19_600, 42


def rows(seed: int, kind: str, rate: int = 200) -> pd.DataFrame:
    """Seven weeks of orders: around the clock, of a shop that closes at night and on Sundays, of a job that writes all
    of a day at two o'clock, or of three when it is late, of one that does at ten at night, or of days that differ by
    half in their rows."""
    random = np.random.default_rng([seed, len(kind)])
    days = np.arange(TRAINED + 7)
    wild = 0.5 if kind == "wild" else 0.1
    usual = rate * np.exp(random.normal(0, wild, len(days)))
    if kind == "shop":
        usual = usual * np.where((FIRST + days + 3) % 7 == 6, 0.0, np.where((FIRST + days + 3) % 7 == 5, 0.4, 1.0))
    day = np.repeat(days, random.poisson(usual))
    n = len(day)
    second = random.beta(3, 2.5, n) * DAY if kind in ("clock", "wild") else 8 * HOUR + random.beta(2, 2, n) * 12 * HOUR
    if kind == "job":
        night = random.choice([2, 2, 2, 3], len(days))[day]
        second = (night * HOUR + random.integers(0, HOUR, n)).astype(np.float64)
    if kind == "at night":
        second = (22 * HOUR + random.integers(0, HOUR, n)).astype(np.float64)
    price = np.round(np.exp(3 + random.normal(0, 0.7, n)), 2)
    at = (FIRST + day) * DAY + second.astype(np.int64)
    return pd.DataFrame({"at": at, "price": price, "kind": random.choice(list("abc"), n)})


KINDS = ("clock", "shop", "job", "wild")


@functools.cache
def training(seed: int, kind: str, days: int = TRAINED) -> Profile:
    table = rows(seed, kind)
    first, end = (FIRST + TRAINED - days) * DAY, (FIRST + TRAINED) * DAY
    before = table[(table["at"] >= first) & (table["at"] < end)]
    return profile_table(as_table(before, "training"), COLUMNS, [*before.columns])


def week(seed: int, kind: str) -> pd.DataFrame:
    table = rows(seed, kind)
    return table[table["at"] >= (FIRST + TRAINED) * DAY].reset_index(drop=True)


def told(now: pd.DataFrame, seed: int, kind: str, days: int = TRAINED) -> list[Finding]:
    report = report_on_table(training(seed, kind, days), as_table(now, "the week"), COLUMNS)
    return [one for one in report.findings if one.subject == "rows"]


def without(now: pd.DataFrame, day: int, first: int = 0, end: int = 24) -> pd.DataFrame:
    """Without some hours of a day of the window."""
    begin = (FIRST + TRAINED + day) * DAY
    return now[(now["at"] < begin + first * HOUR) | (now["at"] >= begin + end * HOUR)].reset_index(drop=True)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("kind", ["clock", "shop", "job", "wild"])
def test_a_day_that_is_missing_is_told(kind: str, seed: int) -> None:
    day = next(one for one in (2, 3, 4) if (FIRST + TRAINED + one + 3) % 7 < 5)
    found = told(without(week(seed, kind), day), seed, kind)

    assert [one.outcome for one in found] == [Outcome.WARN]
    assert f"on {np.datetime64(FIRST + TRAINED + day, 'D')}" in found[0].sentence
    assert found[0].cause is not None
    assert found[0].cause["kind"] == "missing rows"


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("kind", "first", "end"), [("clock", 0, 13), ("clock", 12, 16), ("shop", 9, 15)])
def test_hours_of_a_day_that_are_missing_are_told(kind: str, first: int, end: int, seed: int) -> None:
    found = told(without(week(seed, kind), 2, first, end), seed, kind)

    assert [one.outcome for one in found] == [Outcome.WARN]
    assert f"{np.datetime64(FIRST + TRAINED + 2, 'D')}" in found[0].sentence


@pytest.mark.parametrize("seed", range(4))
def test_three_hours_that_are_missing_every_day_are_told(seed: int) -> None:
    now = week(seed, "clock")
    found = told(now[~(now["at"] // HOUR % 24).isin([12, 13, 14])], seed, "clock")

    assert [one.outcome for one in found] == [Outcome.WARN]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("late", [3, 7, 11])
def test_a_job_that_ran_after_midnight_is_told_where_its_rows_are_missing(late: int, seed: int) -> None:
    now = week(seed, "at night")
    of_a_night = now["at"] // DAY == FIRST + TRAINED + 3

    assert [one.sentence for one in told(now.assign(at=now["at"] + of_a_night * late * HOUR), seed, "at night")] == []
    found = told(now[~of_a_night], seed, "at night")
    assert [one.outcome for one in found] == [Outcome.WARN]
    assert f"on {np.datetime64(FIRST + TRAINED + 3, 'D')}" in found[0].sentence


@pytest.mark.parametrize("days", [TRAINED, 14])
@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("kind", KINDS)
def test_whole_weeks_say_nothing(kind: str, seed: int, days: int) -> None:
    assert [one.sentence for one in told(week(seed, kind), seed, kind, days)] == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("part", [0.05, 0.3])
def test_a_part_of_the_rows_says_nothing(part: float, kind: str, seed: int) -> None:
    now = week(seed, kind).sample(frac=part, random_state=seed)

    assert [one.sentence for one in told(now, seed, kind)] == []


@pytest.mark.parametrize("seed", range(3))
def test_days_between_those_of_training_are_not_missing(seed: int) -> None:
    """Days drawn from anywhere: those between them are training's."""
    table = rows(seed, "clock")
    day = table["at"] // DAY - FIRST
    chosen = day.isin(np.random.default_rng(seed).choice(TRAINED, 7, replace=False))
    before = profile_table(as_table(table[~chosen], "other days"), COLUMNS, [*table.columns])
    report = report_on_table(before, as_table(table[chosen], "days"), COLUMNS)

    assert [one.sentence for one in report.findings if one.subject == "rows"] == []


@pytest.mark.parametrize("seed", range(3))
def test_a_holiday_as_training_had_one_says_nothing(seed: int) -> None:
    table = rows(seed, "clock")
    table = table[~(table["at"] // DAY - FIRST).isin([10, TRAINED + 3])]
    before, now = table[table["at"] < (FIRST + TRAINED) * DAY], table[table["at"] >= (FIRST + TRAINED) * DAY]
    profile = profile_table(as_table(before, "training"), COLUMNS, [*before.columns])
    found = report_on_table(profile, as_table(now, "the week"), COLUMNS).findings

    assert [one.sentence for one in found if one.subject == "rows"] == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("hours", [-7, 3, 5])
@pytest.mark.parametrize("kind", ["clock", "shop"])
def test_times_in_another_zone_are_no_missing_rows(kind: str, hours: int, seed: int) -> None:
    now = week(seed, kind)

    assert [one.sentence for one in told(now.assign(at=now["at"] + hours * HOUR), seed, kind)] == []


@pytest.mark.parametrize("seed", range(3))
def test_single_days_of_later_months_were_chosen(seed: int) -> None:
    now = week(seed, "clock")
    apart = now["at"] + (now["at"] // DAY - FIRST - TRAINED) * 29 * DAY

    assert [one.sentence for one in told(now.assign(at=apart), seed, "clock")] == []


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("stray", [253_402_214_400, 1, 4_000_000_000])
def test_a_day_that_is_missing_is_told_beside_clocks_that_are_wrong(stray: int, seed: int) -> None:
    now = without(week(seed, "clock"), 3)
    now.loc[:1, "at"] = stray
    found = told(now, seed, "clock")

    assert [one.outcome for one in found] == [Outcome.WARN]
    assert f"on {np.datetime64(FIRST + TRAINED + 3, 'D')}" in found[0].sentence


@pytest.mark.parametrize("seed", range(3))
def test_weeks_that_are_missing_from_a_longer_window_are_told(seed: int) -> None:
    table = rows(seed, "clock")
    day = table["at"] // DAY - FIRST
    profile = profile_table(as_table(table[day < 18], "training"), COLUMNS, [*table.columns])
    now = table[(day >= 18) & ~day.between(22, 34)]
    found = [one for one in report_on_table(profile, as_table(now, "days"), COLUMNS).findings if one.subject == "rows"]

    assert [one.outcome for one in found] == [Outcome.WARN]
    assert f"on 13 days from {np.datetime64(FIRST + 22, 'D')} on" in found[0].sentence


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("rate", [60, 40])
@pytest.mark.parametrize("ahead", [5, 9])
@pytest.mark.parametrize("strays", [1, 2])
def test_single_rows_with_a_clock_days_ahead_say_nothing(strays: int, ahead: int, rate: int, seed: int) -> None:
    table = rows(seed, "clock", rate)
    before = table["at"] < (FIRST + TRAINED) * DAY
    profile = profile_table(as_table(table[before], "training"), COLUMNS, [*table.columns])
    now = table[~before].reset_index(drop=True)
    now.loc[: strays - 1, "at"] = now["at"].max() + ahead * DAY
    findings = report_on_table(profile, as_table(now, "the week"), COLUMNS).findings

    assert [one.sentence for one in findings if one.subject == "rows"] == []
