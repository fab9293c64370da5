"""Causes that are not named because something plainer explains the rows as well, or better."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew import Columns, report_on_tables

DAY = 86_400
FIRST = 19_000
DAYS = 40


def rows(seed: int, days: int, first: int, per_day: int = 50) -> pd.DataFrame:
    """Tips that are mostly zero, degrees by the hour with two digits, and stars from one to five."""
    random = np.random.default_rng(seed)
    n = days * per_day
    hours = np.tile(np.arange(per_day) * 24 / per_day, days)
    return pd.DataFrame(
        {
            "tip": np.where(random.random(n) < 0.85, 0.0, np.round(random.lognormal(1, 0.8, n), 1)),
            "degrees": np.round(15.6 + 4 * np.sin(hours * np.pi / 12) + random.normal(0, 1, n), 2),
            "stars": random.choice([1, 2, 3, 4, 5], n, p=[0.08, 0.05, 0.12, 0.3, 0.45]),
            "at": (first + np.repeat(np.arange(days), per_day)) * DAY + np.tile(np.arange(per_day) * 500, days),
        }
    )


def told(column: str, change: Any) -> Finding:
    before, now = rows(1, DAYS, FIRST), rows(2, 7, FIRST + DAYS)
    return report_on_tables(before, now.assign(**{column: change(now[column])}), Columns(time="at")).feature(column)


def test_a_column_that_was_mostly_zero_and_is_nothing_else_is_frozen() -> None:
    found = told("tip", lambda values: 0.0 * values)
    assert found.cause is not None, found.sentence
    assert (found.cause["kind"], found.cause["value"]) == ("one value", 0.0)


def test_whole_numbers_are_rounded_even_where_they_end_at_one() -> None:
    found = told("degrees", lambda values: np.floor(values))
    assert found.cause is not None, found.sentence
    assert (found.cause["kind"], found.cause["step"]) == ("rounded", 1.0)


def test_few_values_that_training_never_held_are_not_cut_off() -> None:
    found = told("stars", lambda values: np.log1p(values * 1.3))
    assert found.cause is None or found.cause["kind"] != "clipped", found.sentence


def prices(seed: int, days: int, first: int, level: float) -> pd.DataFrame:
    """Prices that end on 99 or so, each day with a level of its own."""
    random = np.random.default_rng(seed)
    n = days * 600
    price = level * np.exp(3 + 0.7 * random.normal(size=n) + np.repeat(random.normal(0, 0.03, days), 600))
    return pd.DataFrame(
        {
            "price": np.floor(price) + random.choice([0.99, 0.5, 0.0], n, p=[0.7, 0.1, 0.2]),
            "at": (first + np.repeat(np.arange(days), 600)) * DAY + np.tile(np.arange(600) * 50, days),
        }
    )


@pytest.mark.parametrize("level", [0.75, 0.92, 1.08, 1.3])
def test_a_level_that_wanders_is_no_part_of_the_rows_in_another_unit(level: float) -> None:
    before, now = prices(1, DAYS, FIRST, 1.0), prices(2, 7, FIRST + DAYS, level)
    found = report_on_tables(before, now, Columns(time="at")).feature("price")
    assert found.outcome is not Outcome.PASS
    assert found.cause is None or found.cause["share"] == 1.0, found.sentence


def amounts(seed: int, days: int, first: int, per_day: int) -> pd.DataFrame:
    """Cents, a size and a rate with all the digits that there are, all over several powers of ten."""
    random = np.random.default_rng(seed)
    n = days * per_day
    return pd.DataFrame(
        {
            "cents": np.round(np.exp(7 + 0.8 * random.normal(size=n))).astype(np.int64),
            "size": np.exp(5 + random.normal(size=n)),
            "rate": np.exp(0.25 + 2.4 * random.normal(size=n)),
            "at": (first + np.repeat(np.arange(days), per_day)) * DAY + np.tile(np.arange(per_day) * 500, days),
        }
    )


def told_of_amounts(column: str, change: Any, days: int = 7, per_day: int = 40) -> list[str]:
    """The kinds of causes, and of factors these, that are named of several draws."""
    found = []
    for seed in range(6):
        before, now = amounts(seed, DAYS, FIRST, per_day), amounts(100 + seed, days, FIRST + DAYS, per_day)
        report = report_on_tables(before, now.assign(**{column: change(now[column])}), Columns(time="at"))
        cause = report.feature(column).cause or {}
        found.append(f"{cause.get('kind')} {cause.get('factor', 0):.4g}")
    return found


def test_a_sign_is_no_cause_of_values_of_another_size() -> None:
    assert not [one for one in told_of_amounts("rate", lambda values: (values - 20) / 130, 1) if one.endswith(" -1")]


def test_one_of_two_usual_factors_that_lie_close_is_not_named() -> None:
    told = told_of_amounts("cents", lambda values: values.where(np.arange(len(values)) % 2 > 0, values * 60))
    assert not [one for one in told if one.endswith(" 57.3")]


def test_large_numbers_have_no_digits_that_could_be_missed() -> None:
    assert not [one for one in told_of_amounts("size", lambda values: values * 100, 3) if one.startswith("rounded")]


def test_one_row_that_holds_the_least_is_no_cut_off() -> None:
    """Three rows in sixty lie far above all of training's; the lowest of the others is but the lowest."""
    told = []
    for seed in range(8):
        random = np.random.default_rng(seed)
        table = pd.DataFrame({"part": random.beta(2, 4, 60 * 41), "at": (FIRST + np.repeat(np.arange(41), 60)) * DAY})
        now = table[60 * 40 :].copy()
        now["part"] = now["part"].mask(np.arange(60) % 20 == 0, 1.5 + np.arange(60) / 97)
        found = report_on_tables(table[: 60 * 40], now, Columns(time="at")).feature("part")
        told.append((found.cause or {}).get("kind"))
    assert "clipped" not in told
    assert "outside the range" in told


@pytest.mark.parametrize("seed", [1, 3, 6])
def test_a_day_of_few_rows_that_was_rounded_is_no_factor_of_a_part_of_them(seed: int) -> None:
    random = np.random.default_rng(seed)
    day = np.repeat(np.arange(60), 70)
    at = (19_000 + day) * 86_400 + random.integers(0, 86_400, len(day))
    rows = pd.DataFrame({"at": at, "price": np.round(700 * np.exp(random.normal(0, 0.6, len(day))))})
    now = rows[day == 59].assign(price=lambda one: one["price"].round(-2))
    found = report_on_tables(rows[day < 59], now, Columns(time="at")).feature("price")
    assert found.cause is not None
    assert (found.cause["kind"], found.cause["step"]) == ("rounded", 100.0)


def bids(seed: int, days: int = 104) -> pd.DataFrame:
    """Days of bids of many sizes, whose level hangs on the day before."""
    random, level = np.random.default_rng(seed), np.zeros(days)
    for one in range(1, days):
        level[one] = 0.4 * level[one - 1] + random.normal(0, 0.064)
    day = np.repeat(np.arange(days), 300)
    second = np.sort(random.integers(0, 86_400, (days, 300)), axis=1).ravel()
    bid = np.exp(-0.9 + level[day] + 0.6 * random.normal(size=len(day)))
    return pd.DataFrame({"at": pd.to_datetime((19_600 + day) * 86_400 + second, unit="s"), "bid": np.round(bid, 3)})


def test_bids_that_all_rose_by_a_fifth_or_so_are_no_part_in_kilometres() -> None:
    rows, random = bids(11), np.random.default_rng(11)
    now = rows["at"] >= rows["at"].max().floor("D") - pd.Timedelta(days=13)
    risen = (rows["bid"] * np.exp(0.18 + 0.1 * random.normal(size=len(rows)))).round(3)
    found = report_on_tables(rows[~now], rows[now].assign(bid=risen[now]), Columns(time="at")).feature("bid")

    assert found.outcome is Outcome.FAIL
    assert (found.cause or {}).get("share", 1.0) == 1.0


def meters(seed: int) -> pd.DataFrame:
    """Ninety days of forty meters and two weeks more, in which it is colder than it was."""
    random = np.random.default_rng([seed, 401])
    day = np.repeat(np.arange(104), 400)
    level, colder = random.normal(0, 0.35, 40), 0.08 * np.sin((day - 20) / 58 * np.pi)
    used = np.exp(-0.4 + level[random.integers(0, 40, len(day))] - colder + 0.4 * random.normal(size=len(day)))
    return pd.DataFrame({"kwh": np.round(used, 3), "at": pd.to_datetime(19_500 * DAY + day * DAY, unit="s")})


@pytest.mark.parametrize("seed", range(4))
def test_a_quarter_is_told_as_no_other_usual_part_that_a_season_brings_as_near(seed: int) -> None:
    rows = meters(seed)
    before, now = rows.iloc[: 90 * 400], rows.iloc[90 * 400 :].reset_index(drop=True)
    report = report_on_tables(before, now.assign(kwh=(now["kwh"] / 4).round(3)), Columns(time="at"))
    cause = report.feature("kwh").cause
    assert cause is not None
    assert cause["factor"] == 0.25 or "units" not in cause
    assert abs(np.log(cause["factor"] / 0.25)) < max(0.004, 3 * cause["precision"])


def premiums(seed: int, days: int, first: int) -> pd.DataFrame:
    """A premium in cents that four in five do not pay."""
    random, n = np.random.default_rng(seed), days * 300
    paid = np.round(np.exp(0.8 + 0.9 * random.normal(size=n)), 2)
    return pd.DataFrame(
        {
            "premium": np.where(random.random(n) < 0.8, 0.0, paid),
            "at": (first + np.repeat(np.arange(days), 300)) * DAY + np.tile(np.arange(300) * 280, days),
        }
    )


@pytest.mark.parametrize("seed", range(3))
def test_cents_of_a_column_that_is_mostly_zero_are_told(seed: int) -> None:
    before, now = premiums(seed, DAYS, FIRST), premiums(50 + seed, 7, FIRST + DAYS)
    now["premium"] = np.round(now["premium"] * 100)
    cause = report_on_tables(before, now, Columns(time="at")).feature("premium").cause or {}
    assert (cause["kind"], cause.get("factor")) == ("constant factor", 100.0)


def revenue(seed: int, days: int, first: int) -> pd.DataFrame:
    """Few purchases at few prices, and mostly none."""
    random = np.random.default_rng(seed)
    n = days * 600
    price = random.choice([0.99, 1.99, 4.99, 9.99, 49.99], n, p=[0.4, 0.25, 0.2, 0.12, 0.03])
    at = (first + np.repeat(np.arange(days), 600)) * DAY + np.tile(np.arange(600) * 100, days)
    return pd.DataFrame({"revenue": np.where(random.random(n) < 0.02, price, 0.0), "at": at})


@pytest.mark.parametrize("factor", [100.0, 5.2])
def test_few_prices_of_a_column_that_is_mostly_zero_tell_the_factor(factor: float) -> None:
    """Zeros are neither rounded nor five times what they were."""
    before, now = revenue(1, DAYS, FIRST), revenue(2, 7, FIRST + DAYS)
    now["revenue"] = np.round(now["revenue"] * factor, 2)
    cause = report_on_tables(before, now, Columns(time="at")).feature("revenue").cause or {}
    assert (cause["kind"], cause.get("factor")) == ("constant factor", pytest.approx(factor, rel=1e-3))


def claims(seed: int, days: int, first: int) -> pd.DataFrame:
    """Costs of claims, which one customer in twelve has."""
    random, n = np.random.default_rng(seed), days * 300
    cost = np.append(32.0, np.round(np.exp(6 + 1.3 * random.normal(size=n - 1)), 2))
    at = (first + np.repeat(np.arange(days), 300)) * DAY + np.tile(np.arange(300) * 280, days)
    return pd.DataFrame({"cost": np.where(random.random(n) < np.append(0, np.full(n - 1, 0.92)), 0.0, cost), "at": at})


def test_zeros_that_are_most_rows_are_no_degrees_celsius() -> None:
    """As degrees Fahrenheit they would be 32, which training held as well."""
    before, now = claims(1, DAYS, FIRST), claims(2, 7, FIRST + DAYS)
    now["cost"] = np.round(now["cost"] * 1000, 2)
    cause = report_on_tables(before, now, Columns(time="at")).feature("cost").cause or {}
    assert (cause["kind"], cause.get("factor")) == ("constant factor", 1000.0)
