"""Machines, wards and shops in units of their own: all of them, those of one site, or those of a few devices."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest

from tidegate_validation.skew import Columns, report_on_tables
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.tables import as_table

Table = pd.DataFrame
DAY = 86_400
COLUMNS = Columns(time="at")
DEVICES = 24


def machines(seed: int, days: int, first_day: int) -> Table:
    """Readings of machines at three sites, by 400 a day; the warmth and the current of each are its own."""
    random, own = np.random.default_rng(seed), np.random.default_rng(3).normal(0, 1, DEVICES)
    n = days * 400
    device = random.integers(0, DEVICES, n)
    revolutions = np.where(random.random(n) < 0.15, 0, np.round(1480 + 60 * own[device] + 25 * random.normal(size=n)))
    return pd.DataFrame(
        {
            "at": times(random, days, 400, first_day),
            "device": [f"dev-{one:03d}" for one in device],
            "site": np.array(["plant-a", "plant-b", "plant-c"])[device % 3],
            "firmware": np.array(["2.1.0", "2.1.3", "2.2.0"])[device % 5 % 3],
            "warmth": np.round(58 + 5 * own[device] + 4 * random.normal(size=n), 2),
            "pressure": np.round(6 + 0.3 * own[device] + 0.25 * random.normal(size=n), 3),
            "revolutions": revolutions.astype(np.int64),
            "current": np.round(18 + 3 * own[device] + 1.5 * random.normal(size=n), 2),
            "oil": np.round(100 * random.beta(6, 3, n), 1),
            "alarm": (random.random(n) < 0.05).astype(np.int64),
        }
    )


def patients(seed: int, days: int, first_day: int) -> Table:
    """Visits at wards, by 250 a day, with what a laboratory and a thermometer say."""
    random, n = np.random.default_rng(seed), days * 250
    level = np.random.default_rng([seed, 1]).normal(0, 0.15, days)[np.repeat(np.arange(days), 250)]
    codes = np.array(["I10", "E11.9", "J45.909", "M54.5", "F41.1", "N39.0", "R51"])
    return pd.DataFrame(
        {
            "at": times(random, days, 250, first_day),
            "ward": random.choice(["north", "south", "harbour", "hill"], n, p=[0.35, 0.3, 0.2, 0.15]),
            "fever": np.round(
                36.7 + 0.35 * random.normal(size=n) + (random.random(n) < 0.2) * random.random(n) * 1.5, 1
            ),
            "glucose": np.round(np.exp(4.58 + 0.2 * random.normal(size=n))),
            "waited": np.round(np.exp(3 + level + 0.6 * random.normal(size=n))),
            "code": random.choice(codes, n, p=[0.3, 0.2, 0.15, 0.1, 0.1, 0.1, 0.05]),
        }
    )


def shops(seed: int, days: int, first_day: int) -> Table:
    """What shops sell, by 400 a day, over a spring; prices and those of others are much alike but for their cents."""
    random, n = np.random.default_rng(seed), days * 400
    day = np.repeat(first_day + np.arange(days), 400)
    swing = 0.8 * np.exp(0.3 * np.random.default_rng([seed, 2]).normal(size=days))[day - first_day]
    price = np.round(np.floor(10 * np.exp(1 + 0.6 * random.normal(size=n))) / 10 + 0.09, 2)
    return pd.DataFrame(
        {
            "at": times(random, days, 400, first_day),
            "price": price,
            "others": np.round(price * np.exp(0.12 * random.normal(size=n)), 2),
            "shelf": np.round(random.gamma(3, 0.4, n), 2),
            "forecast": np.round(random.gamma(4, 0.95, n), 3),
            "floor": random.choice([450, 800, 1200, 2400], n),
            "outdoors": np.round(9 - 7 * np.cos(day / 40) + 2.5 * random.normal(size=n), 1),
            "gain": np.round(swing * random.standard_t(4, n), 4),
            "trend": np.round(1.9 * swing * random.standard_t(5, n), 3),
        }
    )


def times(random: np.random.Generator, days: int, rows: int, first_day: int) -> pd.DatetimeIndex:
    second = np.sort(random.integers(0, DAY, (days, rows)), axis=1).ravel()
    return pd.to_datetime(np.repeat(first_day + np.arange(days), rows) * DAY + second, unit="s")


World = Callable[[int, int, int], Table]


@functools.cache
def trained(world: World) -> Profile:
    rows = world(1, 60, 19_600)
    return profile_table(as_table(rows, "training"), COLUMNS, [str(name) for name in rows])


def told(world: World, change: Callable[[Table], Table]) -> dict[str, Mapping[str, Any]]:
    """The causes that are named for two weeks after training with a change, by column, the gravest of each."""
    rows = change(world(2, 14, 19_660))
    found = report_on_table(trained(world), as_table(rows, "two weeks"), COLUMNS).findings
    return {one.subject: one.cause for one in reversed(found) if one.cause is not None}


@pytest.mark.parametrize("world", [machines, patients, shops])
def test_two_weeks_as_they_are_have_no_cause(world: World) -> None:
    assert told(world, lambda rows: rows) == {}


@pytest.mark.parametrize(
    ("world", "column", "change", "factor", "units"),
    [
        (machines, "pressure", lambda v: (v * 14.503774).round(2), 14.503774, "pounds per square inch against bars"),
        (machines, "revolutions", lambda v: (v * np.pi / 30).round(1), 0.10472, "radians per second against"),
        (patients, "waited", lambda v: (v / 60).round(2), 1 / 60, "hours against minutes"),
        (shops, "floor", lambda v: (v * 10.7639).round(), 10.7639, "square feet against square metres"),
        (shops, "shelf", lambda v: (v * 3.28084).round(2), 3.28084, "feet against metres"),
    ],
)
def test_values_in_another_unit_that_were_rounded_there_are_named(
    world: World, column: str, change: Callable[[Any], Any], factor: float, units: str
) -> None:
    cause = told(world, lambda rows: rows.assign(**{column: change(rows[column])}))[column]
    assert cause["kind"] == "constant factor"
    assert cause["factor"] == pytest.approx(factor, rel=1e-3)
    assert cause["units"].startswith(units)
    assert cause["share"] > 0.9


@pytest.mark.parametrize(("world", "column"), [(patients, "fever"), (shops, "outdoors")])
def test_degrees_fahrenheit_are_named_where_they_were_rounded_and_where_a_season_goes_on(
    world: World, column: str
) -> None:
    cause = told(world, lambda rows: rows.assign(**{column: (rows[column] * 1.8 + 32).round(1)}))[column]
    assert (cause["kind"], cause["factor"], cause["offset"]) == ("factor and offset", 1.8, 32.0)


def test_a_ward_in_degrees_fahrenheit_is_named() -> None:
    def change(rows: Table) -> Table:
        return rows.assign(fever=rows["fever"].mask(rows["ward"] == "south", (rows["fever"] * 1.8 + 32).round(1)))

    cause = told(patients, change)["fever"]
    assert (cause["kind"], cause["factor"], cause["offset"]) == ("factor and offset", 1.8, 32.0)
    assert cause["where"] == {"column": "ward", "value": "south"}


def test_a_ward_in_a_rare_unit_is_named() -> None:
    def change(rows: Table) -> Table:
        return rows.assign(glucose=rows["glucose"].mask(rows["ward"] == "harbour", (rows["glucose"] / 18.016).round(1)))

    cause = told(patients, change)["glucose"]
    assert cause["factor"] == pytest.approx(1 / 18.016, rel=1e-6)
    assert cause["units"] == "millimoles per litre against milligrams per decilitre of glucose"
    assert cause["where"] == {"column": "ward", "value": "harbour"}


@pytest.mark.parametrize(
    ("column", "values", "where"),
    [
        ("site", ["plant-b"], {"column": "site", "value": "plant-b"}),
        ("device", ["dev-003", "dev-011"], {"column": "device"}),
    ],
)
def test_of_machines_that_differ_anyway_it_is_told_which_are_beyond_training_and_no_unit_is_guessed(
    column: str, values: list[str], where: dict[str, str]
) -> None:
    def change(rows: Table) -> Table:
        return rows.assign(warmth=rows["warmth"].mask(rows[column].isin(values), (rows["warmth"] * 1.8 + 32).round(2)))

    cause = told(machines, change)["warmth"]
    assert cause["kind"] == "outside the range"
    assert cause["where"].items() >= where.items()
    assert {cause["where"]["value"], *cause["where"].get("or", ())} == set(values)


def test_a_site_of_machines_in_thousandths_is_named() -> None:
    def change(rows: Table) -> Table:
        return rows.assign(current=rows["current"].mask(rows["site"] == "plant-a", rows["current"] * 1000))

    cause = told(machines, change)["current"]
    assert cause["factor"] == pytest.approx(1000)
    assert cause["where"] == {"column": "site", "value": "plant-a"}


def test_a_version_that_ends_in_a_zero_is_told_in_full() -> None:
    def change(rows: Table) -> Table:
        return rows.assign(current=rows["current"].mask(rows["firmware"] == "2.1.0", rows["current"] * 1000))

    assert told(machines, change)["current"]["where"] == {"column": "firmware", "value": "2.1.0"}


@pytest.mark.parametrize("a_day", [0.08, 0.13])
def test_a_slow_drift_is_no_change_of_the_rows_that_are_most_rows(a_day: float) -> None:
    def change(rows: Table) -> Table:
        days = (rows["at"] - rows["at"].min()).dt.total_seconds() / DAY
        return rows.assign(pressure=(rows["pressure"] + a_day * days).round(3))

    assert "constant factor" not in {cause["kind"] for cause in told(machines, change).values()}


def test_what_is_left_of_a_hundred_is_no_quarter_of_some_rows() -> None:
    cause = told(machines, lambda rows: rows.assign(oil=(100 - rows["oil"]).round(1)))["oil"]
    assert (cause["kind"], cause["how"]) == ("transformed", "100 minus the value")


@pytest.mark.parametrize(("one", "other"), [("price", "others"), ("gain", "trend")])
def test_columns_of_alike_values_that_changed_places_are_named(one: str, other: str) -> None:
    found = told(shops, lambda rows: rows.assign(**{one: rows[other], other: rows[one]}))
    assert {name: (cause["kind"], cause.get("column")) for name, cause in found.items()} == {
        one: ("other column", other),
        other: ("other column", one),
    }


@pytest.mark.parametrize(
    ("world", "column", "change", "how"),
    [
        (machines, "firmware", lambda texts: texts.str[:3], "cut off"),
        (patients, "code", lambda texts: texts.str.replace(".", "", regex=False), "punctuation"),
    ],
)
def test_categories_that_lost_a_part_are_written_another_way(
    world: World, column: str, change: Callable[[Any], Any], how: str
) -> None:
    cause = told(world, lambda rows: rows.assign(**{column: change(rows[column])}))[column]
    assert (cause["kind"], cause["change"]) == ("written another way", how)


@pytest.mark.parametrize("seed", [0, 2, 3, 6, 7])
def test_a_thousandfold_is_one_whatever_the_sites_own_level_and_no_1024(seed: int) -> None:
    """One of some sites, that is heavier by a twentieth, tells grams for kilograms."""
    random = np.random.default_rng(seed)
    day = np.repeat(np.arange(104), 100)
    site = random.integers(0, 6, len(day))
    weight = np.round(np.exp(4 + 0.05 * (site == 3) + 0.25 * random.normal(size=len(day))), 1)
    rows = pd.DataFrame({"site": site.astype(str), "weight": weight, "at": (19_500 + day) * 86_400})
    before, now = rows.iloc[:9000], rows.iloc[9000:].reset_index(drop=True)
    told = now.assign(weight=now["weight"].mask(now["site"] == "3", (now["weight"] * 1000).round()))
    cause = report_on_tables(before, told, Columns(time="at")).feature("weight").cause

    assert cause is not None
    assert (cause["kind"], cause["where"]["value"]) == ("constant factor", "3")
    assert cause["factor"] == 1000.0 or (seed == 6 and "units" not in cause)


@pytest.mark.parametrize("factor", [0.264172, 0.92])
@pytest.mark.parametrize("part", [0.2, 0.4])
def test_one_more_digit_makes_no_tenths_of_some_rows(factor: float, part: float) -> None:
    """Any thousandths are a tenth of hundredths: that says nothing, unless they are also as small as tenths."""
    random = np.random.default_rng(4)
    day = np.repeat(np.arange(104), 100)
    site = np.where(random.random(len(day)) < part, "north", random.choice(["east", "south", "west"], len(day)))
    volume = np.round(np.exp(2 + 0.9 * random.normal(size=len(day))), 2)
    rows = pd.DataFrame({"site": site, "volume": volume, "at": (19_500 + day) * 86_400})
    before, now = rows.iloc[:9000], rows.iloc[9000:].reset_index(drop=True)
    for by in (factor, 0.1):
        changed = now["volume"].mask(now["site"] == "north", (now["volume"] * by).round(3))
        cause = report_on_tables(before, now.assign(volume=changed), Columns(time="at")).feature("volume").cause
        assert cause is None or cause.get("factor", by) == pytest.approx(by, rel=0.1)
    assert cause is not None
    assert cause["factor"] == 0.1
