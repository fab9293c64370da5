"""Columns that became copies of others, or no longer are copies: neither looks wrong by itself."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew import Columns
from tidegate_validation.skew.columns.copied import CHECK
from tidegate_validation.skew.two_tables import profile_table, report_on_table, report_on_tables
from tidegate_validation.statistics.profile import read_profile, write_profile
from tidegate_validation.tables import as_table

DAY = 86_400
COLUMNS = Columns(time="at")


def meters(seed: int, days: int = 47, rows: int = 150) -> pd.DataFrame:
    """Consumption of today, yesterday and last week, spread alike; a bill that is mostly paid to where it is sent."""
    random = np.random.default_rng(seed)
    day = np.repeat(16_000 + np.arange(days), rows)
    size = len(day)
    level = random.normal(0, 0.4, size)
    used, yesterday, last_week = (np.round(np.exp(level + random.normal(0, 0.5, size)), 3) for _ in range(3))
    city = random.choice(["Ulm", "Bern", "Wels", "Graz"], size)
    rare = np.where(random.random(size) < 0.03, random.integers(1, 9, size), 0)
    return pd.DataFrame(
        {
            "at": day * DAY + random.integers(0, DAY, size),
            "used": used,
            "yesterday": yesterday,
            "last_week": last_week,
            "city": city,
            "sent_to": np.where(random.random(size) < 0.95, city, random.choice(["Ulm", "Bern", "Wels"], size)),
            "copy": used,
            "faults": rare,
            "repairs": np.where(random.random(size) < 0.5, rare, 0),
            "solar": random.random(size) < 0.5,
            "heat_pump": random.random(size) < 0.5,
            "country": "AT",
        }
    )


def found(rows: pd.DataFrame, week: pd.DataFrame, columns: Columns = COLUMNS) -> list[Finding]:
    report = report_on_tables(rows[rows["at"] < 16_040 * DAY], week, columns)
    return [one for one in report.findings if one.check == CHECK]


def last_week(rows: pd.DataFrame) -> pd.DataFrame:
    return rows[rows["at"] >= 16_040 * DAY].copy()


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("few", [7, 1])
def test_calm_days_hold_no_new_copies(seed: int, few: int) -> None:
    rows = meters(seed)
    days = rows[rows["at"] >= (16_047 - few) * DAY]
    assert found(rows, days) == []
    assert found(rows, days[:40]) == []


def rebates(seed: int, equal: float) -> pd.DataFrame:
    """A second price that one row in 200 fills, in so many of these with the first one."""
    rows = meters(seed, rows=1500).rename(columns={"used": "price"})[["at", "price", "yesterday"]]
    random = np.random.default_rng(seed)
    rebate = rows["price"].where(
        random.random(len(rows)) < equal, np.round(rows["price"] * random.random(len(rows)), 3)
    )
    return rows.assign(rebate=rebate.where(random.random(len(rows)) < 0.005))


def test_a_column_that_few_rows_fill_is_compared_in_those() -> None:
    """Of the few rows that all pairs are compared in, it says hardly anything."""
    for seed in range(30):
        rows = rebates(seed, 0.15)
        assert found(rows, last_week(rows)) == []
    rows = rebates(30, 0.0)
    week = last_week(rows)
    (told,) = found(rows, week.assign(rebate=week["price"].where(week["rebate"].notna())))
    assert {told.subject, (told.cause or {})["column"]} == {"rebate", "price"}


def test_of_a_column_that_hardly_any_row_of_training_fills_nothing_is_known() -> None:
    rows = rebates(31, 0.0)
    rows["rebate"] = rows["rebate"].where(rows["at"] % 7 == 0)
    profile = profile_table(as_table(rows, "rows"), COLUMNS, [*rows][1:])
    assert profile.agreements.of("price", "rebate") is None
    assert profile.agreements.of("price", "yesterday") is not None


@pytest.mark.parametrize("seed", range(3))
def test_a_column_that_became_a_copy_of_one_that_is_spread_alike_is_told(seed: int) -> None:
    rows = meters(seed)
    week = last_week(rows)
    (told,) = found(rows, week.assign(last_week=week["yesterday"]))
    assert told.outcome is Outcome.FAIL
    assert {told.subject, (told.cause or {})["column"]} == {"last_week", "yesterday"}
    assert "holds in 100 % of the rows; in training they were hardly ever equal" in told.sentence


def test_the_copy_is_the_column_that_is_spread_otherwise_than_in_training() -> None:
    rows = meters(1).assign(yesterday=lambda one: one["yesterday"] * 1.5)
    week = last_week(rows)
    (told,) = found(rows, week.assign(last_week=week["yesterday"]))
    assert (told.subject, (told.cause or {})["column"]) == ("last_week", "yesterday")


def test_a_copy_in_a_part_of_the_rows_is_told() -> None:
    rows = meters(2)
    week = last_week(rows)
    some = np.random.default_rng(3).random(len(week)) < 0.15
    (told,) = found(rows, week.assign(last_week=week["last_week"].where(~some, week["yesterday"])))
    assert {told.subject, (told.cause or {})["column"]} == {"last_week", "yesterday"}
    assert (told.cause or {})["share"] == pytest.approx(0.15, abs=0.04)


def test_nothing_else_is_told_to_have_made_a_copy() -> None:
    """Numbers of pieces are weights below training's range, and row by row they are numbers of pieces."""
    random = np.random.default_rng(2)
    pieces = ([1.0, 2, 4, 8, 12], [0.35, 0.35, 0.15, 0.1, 0.05])
    rows = meters(2, rows=300).assign(pieces=lambda one: random.choice(pieces[0], len(one), p=pieces[1]))
    rows["weight"] = np.round(33 * rows["pieces"] * random.beta(6, 2, len(rows)), 1)
    week = last_week(rows)
    some = random.random(len(week)) < 0.3
    week["weight"] = week["weight"].where(~some, week["pieces"])
    report = report_on_tables(rows[rows["at"] < 16_040 * DAY], week, COLUMNS)
    told = [one.cause for one in report.findings if one.subject == "weight" and one.cause]
    assert [(one["kind"], one["column"]) for one in told] == [("other column", "pieces")]


def test_columns_that_were_mostly_equal_are_told_once_they_always_are_and_once_they_seldom_are() -> None:
    rows = meters(3)
    week = last_week(rows)
    (told,) = found(rows, week.assign(sent_to=week["city"]))
    assert "`sent_to`" in told.sentence
    assert "`city`" in told.sentence
    shuffled = np.random.default_rng(4).permutation(week["sent_to"])
    assert found(rows, week.assign(sent_to=shuffled)) == []  # That it goes with nothing any more says more.


def test_a_copy_that_differs_in_some_rows_is_told() -> None:
    rows = meters(4)
    week = last_week(rows)
    some = np.random.default_rng(5).random(len(week)) < 0.1
    (told,) = found(rows, week.assign(copy=week["copy"].where(~some, week["yesterday"])))
    assert (told.subject, (told.cause or {})["column"]) == ("copy", "yesterday")
    (told,) = found(rows, week.assign(copy=week["copy"].where(~some, week["copy"] + 0.001)))
    assert {told.subject, *told.sentence.split("`")} >= {"copy", "used"}
    assert "differs from" in told.sentence
    assert told.sentence.endswith("of the rows; in training they were always equal")


def test_flags_that_became_equal_are_told() -> None:
    rows = meters(5)
    week = last_week(rows)
    (told,) = found(rows, week.assign(solar=week["heat_pump"]))
    assert told.subject in {"solar", "heat_pump"}


def test_columns_that_come_to_hold_the_same_default_are_no_copies() -> None:
    rows = meters(6)
    week = last_week(rows)
    some = np.random.default_rng(5).random(len(week)) < 0.2
    assert found(rows, week.assign(**{name: week[name].mask(some, 0.0) for name in ("yesterday", "last_week")})) == []


def test_rows_without_times_and_a_profile_on_disk_tell_the_same(tmp_path: Path) -> None:
    rows = meters(7)
    before, week = rows[rows["at"] < 16_040 * DAY].drop(columns="at"), last_week(rows).drop(columns="at")
    profile = profile_table(as_table(before, "before"), Columns(), week.columns.tolist())
    write_profile(profile, tmp_path)
    wrong = as_table(week.assign(last_week=week["used"]), "week")
    calm, told = (
        [
            one.subject
            for one in report_on_table(read_profile(tmp_path), table, Columns()).findings
            if one.check == CHECK
        ]
        for table in (as_table(week, "week"), wrong)
    )
    assert calm == []
    assert len(told) == 1
    assert {*told} <= {"last_week", "used"}


def boilers(seed: int) -> pd.DataFrame:
    """Two temperatures and a forecast of the load, which is a whole number."""
    random = np.random.default_rng(seed)
    day = np.repeat(16_000 + np.arange(47), 200)
    load = random.poisson(12, len(day))
    return pd.DataFrame(
        {
            "at": day * DAY + random.integers(0, DAY, len(day)),
            "inlet": np.round(random.normal(20, 3, len(day)), 2),
            "outlet": np.round(random.normal(55, 6, len(day)), 2),
            "load": load,
            "forecast": np.round(load * np.exp(0.1 * random.normal(size=len(day))), 3),
        }
    )


def test_values_that_are_only_spread_as_those_of_another_column_are_not_said_to_be_its() -> None:
    rows = boilers(1)
    week = last_week(rows)
    before = rows[rows["at"] < 16_040 * DAY]
    alike = np.random.default_rng(9).permutation(week["outlet"])
    told = report_on_tables(before, week.assign(inlet=alike), COLUMNS).feature("inlet")
    assert told.outcome is Outcome.FAIL
    assert (told.cause or {}).get("kind") != "other column"
    in_other_digits = report_on_tables(before, week.assign(inlet=week["outlet"].round(1) + 0.01), COLUMNS)
    assert (in_other_digits.feature("inlet").cause or {})["kind"] == "other column"


def test_rounded_values_that_meet_those_of_a_column_of_whole_numbers_are_rounded() -> None:
    rows = boilers(2)
    week = last_week(rows)
    told = report_on_tables(rows[rows["at"] < 16_040 * DAY], week.assign(forecast=week["forecast"].round()), COLUMNS)
    causes = [one.cause for one in told.findings if one.subject == "forecast" and one.cause]
    assert [one["kind"] for one in causes] == ["rounded"]
