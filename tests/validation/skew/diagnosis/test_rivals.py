"""Causes that others looked like: a cut at an end that only moved, a factor of values that are merely beyond the range
or on another column's grid, and functions that heavy tails or few values hid.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.bench.skew.drawn_worlds import SCORE, TIME, draw

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew import Columns, report_on_tables
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="at")
DRAWN = Columns(time=TIME, prediction=SCORE)
DAY = 86_400
ROWS = 300


def readings(seed: int, days: int, first_day: int) -> pd.DataFrame:
    """Days of readings: filled in per cent, half dark light, shares, counts, and amounts with heavy tails."""
    random = np.random.default_rng(seed)
    n = days * ROWS
    day = first_day + np.repeat(np.arange(days), ROWS)
    second = np.sort(random.integers(0, DAY, (days, ROWS)), axis=1).ravel()
    return pd.DataFrame(
        {
            "filled": np.round(np.clip(random.normal(50, 25, n), 0, 100), 1),
            "light": np.where(random.random(n) < 0.5, 0, np.round(random.lognormal(9, 0.8, n))),
            "share": random.beta(3, 5, n),
            "pieces": 1 + random.poisson(1.2, n),
            "faults": random.poisson(0.15, n),
            "months": np.minimum(random.exponential(24, n).astype(int), 72),
            "loss": np.round((random.pareto(1.15, n) + 1) * 500, 2),
            "reserve": random.lognormal(3, 1.8, n),
            "at": pd.to_datetime(day * DAY + second, unit="s"),
        }
    )


@functools.cache
def training() -> Profile:
    rows = readings(1, 50, 19_600)
    return profile_table(as_table(rows, "training"), COLUMNS, [str(name) for name in rows])


def week() -> pd.DataFrame:
    return readings(2, 7, 19_650)


def cause(column: str, values: pd.Series) -> dict[str, Any]:
    """What is told of a column in a week with other values."""
    report = report_on_table(training(), as_table(week().assign(**{column: values}), "the week"), COLUMNS)
    found = report.feature(column)
    assert found.outcome is Outcome.FAIL
    return dict(found.cause or {})


@pytest.mark.parametrize("factor", [1.609, 2.2, 0.5])
def test_values_around_zero_times_a_factor_are_not_standardised(factor: float) -> None:
    random = np.random.default_rng(5)
    rows = pd.DataFrame({"at": np.repeat(np.arange(47), ROWS) * DAY, "error": random.normal(0, 1.12, 47 * ROWS)})
    now = rows[rows["at"] >= 40 * DAY].assign(error=lambda one: (one["error"] * factor).round(3))
    told = report_on_tables(rows[rows["at"] < 40 * DAY].round(3), now, COLUMNS).feature("error")

    assert told.outcome is Outcome.FAIL
    assert (told.cause or {}).get("kind") in (None, "constant factor")


def test_an_end_that_moved_with_all_values_is_no_cut() -> None:
    filled, months = week()["filled"], week()["months"]

    found = cause("filled", (filled - filled.mean()) / filled.std())
    assert (found["kind"], found["how"]) == ("transformed", "standardised to mean 0 and deviation 1")
    found = cause("months", np.log1p(months))
    assert (found["kind"], found["how"]) == ("transformed", "logarithm of 1 plus the value")
    assert cause("filled", filled.clip(upper=80.0))["kind"] == "clipped"


def test_few_values_are_cut_where_the_end_holds_what_lay_beyond() -> None:
    found = cause("pieces", week()["pieces"].clip(upper=3))

    assert (found["kind"], found["at"], found["side"]) == ("clipped", 3.0, "above")


def test_values_beyond_the_range_are_no_part_in_another_unit() -> None:
    random = np.random.default_rng(3)
    share = week()["share"]
    some = random.random(len(share)) < 0.05

    assert (
        cause("share", share.mask(some, np.round(random.uniform(1.2, 3, len(share)), 3)))["kind"] == "outside the range"
    )
    found = cause("share", share.mask(random.random(len(share)) < 0.2, 5 * share))
    assert (found["kind"], found["factor"]) == ("constant factor", 5.0)


def test_tenths_of_another_size_are_no_tenth_of_whole_numbers() -> None:
    world = draw(2010)
    profile = profile_table(as_table(world.before, "before"), DRAWN, [str(name) for name in world.before])
    tenths = np.random.default_rng(1).permutation(world.now["percent_6"].to_numpy())
    found = report_on_table(profile, as_table(world.now.assign(counts_8=tenths), "now"), DRAWN).feature("counts_8")

    assert found.outcome is Outcome.FAIL
    assert found.cause is None


def test_a_factor_of_all_values_leaves_zeros() -> None:
    found = cause("light", 0.01 * week()["light"])

    assert (found["kind"], found["factor"], found["share"]) == ("constant factor", 0.01, 1.0)


def test_heavy_tails_hide_no_function() -> None:
    loss, reserve = week()["loss"], week()["reserve"]

    assert cause("loss", loss.map(lambda one: float(f"{one:.15g}".replace(".", ""))))["how"] == "decimal point left out"
    found = cause("reserve", (reserve - reserve.mean()) / reserve.std())
    assert found["how"] == "standardised to mean 0 and deviation 1"


def test_a_logarithm_of_few_values_is_told_by_these() -> None:
    found = cause("faults", np.log1p(week()["faults"]))

    assert (found["kind"], found["how"]) == ("transformed", "logarithm of 1 plus the value")


def flagged(seed: int, days: int, first_day: int) -> pd.DataFrame:
    """Days of categories as columns of zeros and ones, of which some are about as frequent."""
    rows = readings(seed, days, first_day)
    shares = [0.4, 0.2, 0.1, 0.1, 0.1, 0.05, 0.05]
    chosen = np.random.default_rng(seed).choice(len(shares), len(rows), p=shares)
    return pd.DataFrame({f"is_{one}": (chosen == one).astype(int) for one in range(len(shares))} | {"at": rows["at"]})


def test_columns_of_two_values_are_told_by_no_chance_likeness() -> None:
    before, now = flagged(1, 50, 19_600), flagged(2, 7, 19_650)
    swapped = now.assign(is_0=now["is_2"], is_2=now["is_0"])
    report = report_on_tables(before, swapped, COLUMNS)
    causes = {name: report.feature(name).cause for name in ("is_0", "is_2")}

    assert {name: (cause or {}).get("column") for name, cause in causes.items()} == {"is_0": "is_2", "is_2": "is_0"}
    fewer = report_on_tables(before, now.assign(is_1=now["is_1"] * (np.arange(len(now)) % 3 == 0)), COLUMNS)
    assert fewer.feature("is_1").outcome is Outcome.FAIL
    assert fewer.feature("is_1").cause is None


def drawn(seed: int, column: str, change: Callable[[pd.DataFrame], pd.Series]) -> dict[str, Any]:
    """What is told of a column of a drawn world's days that were changed."""
    world = draw(seed)
    profile = profile_table(as_table(world.before, "before"), DRAWN, [str(name) for name in world.before])
    changed = world.now.assign(**{column: change(world.now)})
    return dict(report_on_table(profile, as_table(changed, "now"), DRAWN).feature(column).cause or {})


def test_whole_numbers_next_to_an_end_show_that_it_was_cut() -> None:
    found = drawn(1018, "bursts_3", lambda rows: rows["bursts_3"].clip(upper=5))

    assert (found["kind"], found["at"]) == ("clipped", 5.0)


def test_values_that_rounding_makes_zero_are_no_default() -> None:
    found = drawn(1000, "heavy_2", lambda rows: (rows["heavy_2"] / 100).round() * 100)

    assert (found["kind"], found["step"]) == ("rounded", 100.0)


def test_zeros_that_were_standardised_are_no_default() -> None:
    found = drawn(1029, "tips_3", lambda rows: (rows["tips_3"] - rows["tips_3"].mean()) / rows["tips_3"].std())

    assert (found["kind"], found["how"]) == ("transformed", "standardised to mean 0 and deviation 1")


def test_a_factor_since_some_day_is_estimated_from_that_day_on() -> None:
    def change(rows: pd.DataFrame) -> pd.Series:
        later = rows[TIME] >= rows[TIME].min().floor("D") + pd.Timedelta(days=3)
        return rows["sizes_3"].mask(later, 2.20462 * rows["sizes_3"])

    found = drawn(1035, "sizes_3", change)
    assert found["factor"] == pytest.approx(2.20462, rel=0.1)
    assert found["since"] == "2022-09-18"


@functools.cache
def shop() -> tuple[Profile, pd.DataFrame]:
    """Places in a list of twenty, how many things somebody saw before, and ages; a profile, and two weeks."""
    random = np.random.default_rng(8)
    n = 104 * ROWS
    places = 1 / np.arange(1, 21)
    rows = pd.DataFrame(
        {
            "place": random.choice(np.arange(1, 21), n, p=places / places.sum()),
            "seen": 1 + random.negative_binomial(2, 0.2, n),
            "age": np.clip(random.gamma(9, 5.4, n), 18, 93).astype(int),
            "at": pd.to_datetime(19_500 * DAY + np.arange(n) * (DAY // ROWS), unit="s"),
        }
    )
    before, now = rows[: 90 * ROWS], rows[90 * ROWS :].reset_index(drop=True)
    return profile_table(as_table(before, "training"), COLUMNS, [str(name) for name in rows]), now


@pytest.mark.parametrize("column", ["place", "seen"])
def test_what_is_counted_from_0_is_no_hour_earlier_and_no_default(column: str) -> None:
    profile, now = shop()
    found = report_on_table(profile, as_table(now.assign(**{column: now[column] - 1}), "now"), COLUMNS).feature(column)

    assert found.outcome is Outcome.FAIL
    assert found.sentence == f"`{column}`: served values are those of training minus 1"


def test_what_is_left_of_a_number_is_no_offset() -> None:
    profile, now = shop()
    found = report_on_table(profile, as_table(now.assign(age=2023 - now["age"]), "now"), COLUMNS).feature("age")

    assert found.cause is not None
    assert (found.cause["kind"], found.cause["factor"], found.cause["offset"]) == ("factor and offset", -1.0, 2023.0)
    older = report_on_table(profile, as_table(now.assign(age=now["age"] + 120), "now"), COLUMNS).feature("age")
    assert (older.cause or {})["kind"] == "constant offset"


def test_what_lies_evenly_is_moved_and_not_turned_over() -> None:
    """Large numbers in 32 bits: what a mirror explains as well, an offset tells."""
    random = np.random.default_rng(2)
    at = pd.to_datetime((19_500 + np.repeat(np.arange(37), 500)) * DAY, unit="s")
    rows = pd.DataFrame({"at": at, "account": random.integers(39 * 10**8, 43 * 10**8, len(at))})
    before, now = rows[: 30 * 500], rows[30 * 500 :]
    report = report_on_tables(before, now.assign(account=now["account"] - 2**32), COLUMNS)

    assert (report.feature("account").cause or {})["kind"] == "constant offset"


@pytest.mark.parametrize("unit", [1.0, 1e-10])
def test_values_on_another_scale_are_distributed_otherwise_and_no_steps_further(unit: float) -> None:
    """However small the values are: those of 1e-10 differ from each other, too."""
    random = np.random.default_rng(1)
    day = np.repeat(np.arange(30), ROWS)
    rows = pd.DataFrame({"at": pd.to_datetime((19_500 + day) * DAY, unit="s")})
    level = random.choice(8, len(day), p=[0.3, 0.2, 0.15, 0.12, 0.1, 0.06, 0.04, 0.03])
    before, now = rows.assign(charge=level * unit)[day < 26], rows.assign(charge=np.where(level > 3, 0, level) * unit)
    profile = profile_table(as_table(before, "training"), COLUMNS, ["at", "charge"])

    def told(values: pd.DataFrame) -> Finding:
        return report_on_table(profile, as_table(values[day >= 26], "now"), COLUMNS).feature("charge")

    assert (told(now).outcome, told(now).cause) == (Outcome.FAIL, None)
    moved = told(rows.assign(charge=(level + 1) * unit)).cause
    assert moved is not None
    assert (moved["kind"], moved["offset"]) == ("constant offset", pytest.approx(unit))


def test_a_cut_that_most_rows_reach_is_no_default() -> None:
    random = np.random.default_rng(3)
    day = np.repeat(np.arange(67), ROWS)
    rows = pd.DataFrame({"at": day * DAY, "stock": random.poisson(np.exp(random.normal(3.5, 0.6, len(day))))})
    now = rows[rows["at"] >= 60 * DAY].assign(stock=lambda one: one["stock"].clip(upper=20))
    told = report_on_tables(rows[rows["at"] < 60 * DAY], now, COLUMNS).feature("stock").cause

    assert told is not None
    assert (told["kind"], told["at"]) == ("clipped", 20.0)
    assert told["share"] > 0.7


@pytest.mark.parametrize("seed", [8, 9])
def test_degrees_of_a_season_colder_than_training_are_no_pounds(seed: int) -> None:
    """Undone, some of them are colder than training ever was, while pounds for kilograms bring all into its range."""
    random = np.random.default_rng(seed)
    day = np.repeat(np.arange(74), ROWS)
    level = np.where(np.arange(74) < 60, 17.0, 10.0) + random.normal(0, 1.5, 74)
    warmth = np.round(level[day] + random.normal(0, 3, len(day)), 1)
    rows = pd.DataFrame({"at": day * DAY, "warmth": warmth})
    now = rows[rows["at"] >= 60 * DAY].assign(warmth=lambda one: (one["warmth"] * 1.8 + 32).round(1))
    told = report_on_tables(rows[rows["at"] < 60 * DAY], now, COLUMNS).feature("warmth")

    assert (told.check, told.outcome, told.cause) == ("range", Outcome.FAIL, None)
    assert "lie far outside training's range" in told.sentence


@pytest.mark.parametrize("empty", [np.nan, 0.5], ids=["without a value", "with a few"])
def test_a_column_that_training_hardly_filled_is_no_rival_and_stops_no_report(empty: float) -> None:
    random = np.random.default_rng(4)
    before = pd.DataFrame({"price": random.lognormal(3, 1, 4_000), "later": np.full(4_000, np.nan)})
    before.loc[:2, "later"] = empty
    now = pd.DataFrame({"price": random.lognormal(3, 1, 2_000) + 30, "later": np.full(2_000, np.nan)})
    found = report_on_tables(before, now).feature("price")
    assert found.outcome is Outcome.FAIL
    assert "later" not in found.sentence
