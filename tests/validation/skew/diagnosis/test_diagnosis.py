"""The cause of a shift: factors and offsets are found, named and estimated, and honest days have none."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from tests.validation import world
from tests.validation.skew import flights
from tests.validation.skew.causes import like

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.compare import compare
from tidegate_validation.skew.rule import SkewRule
from tidegate_validation.statistics import Profile, make_profile
from tidegate_validation.statistics.window import table_window

FACTORS = (0.5, 0.9, 1.02, 1.609344, 10.0, 1000.0)
ALL_YEAR = ("distance", "hour")


@functools.cache
def spring() -> Profile:
    return make_profile(flights.months(1, 5), features=flights.FEATURES, label=None, event_time=flights.TIME)


def findings(profile: Profile, table: pa.Table, time: str) -> dict[str, Finding]:
    """The gravest finding about each feature."""
    with table_window(table, event_time=time) as window:
        return {name: found[0] for name, found in compare(profile, window, SkewRule()).findings.items()}


def cause_of(finding: Finding) -> Mapping[str, Any]:
    assert finding.cause is not None, finding.sentence
    return finding.cause


def june_day(place: int) -> pa.Table:
    """One whole day of June, about 950 flights."""
    june = flights.months(6, 6)
    days = flights.days_of(june)
    return june.filter(pa.array(days == np.unique(days)[place]))


@pytest.mark.parametrize("factor", FACTORS)
def test_one_day_in_a_wrong_unit_fails_with_the_factor(factor: float) -> None:
    for place, column in ((3, "distance"), (12, "hour"), (20, "distance")):
        day = june_day(place)
        values = pa.array((day[column].to_numpy() * factor).astype(np.float32))
        found = findings(spring(), world.with_column(day, column, values), flights.TIME)
        assert found[column].outcome is Outcome.FAIL
        assert cause_of(found[column])["factor"] == pytest.approx(factor, rel=1e-3)
        others = [name for name in (*ALL_YEAR, "carrier", "origin") if name != column]
        assert all(found[name].outcome is not Outcome.FAIL for name in others)


def test_the_same_days_sent_rightly_pass() -> None:
    for place in range(1, 30, 3):
        found = findings(spring(), june_day(place), flights.TIME)
        for column in ALL_YEAR:
            assert found[column].outcome is Outcome.PASS, found[column].sentence
        assert [one.subject for one in found.values() if one.cause] == []


@pytest.mark.parametrize("factor", [0.5, 1.1, 1000.0])
def test_wrong_units_of_the_weather_are_named_where_they_are_found(factor: float) -> None:
    """A day's weather says little about shapes; which values there are still gives a factor away."""
    right = 0
    for place in (2, 16):
        day = june_day(place)
        for column in ("pressure", "wind_speed"):
            scaled = world.with_column(day, column, day[column].to_numpy() * factor)
            found = findings(spring(), scaled, flights.TIME)[column]
            assert found.cause is None or found.cause["factor"] == pytest.approx(factor, rel=1e-2), found.sentence
            right += found.outcome is Outcome.FAIL and found.cause is not None
    assert right >= 3


def test_rounding_after_the_conversion_does_not_hide_it() -> None:
    day = june_day(10)
    kilometres = pa.array(np.round(day["distance"].to_numpy() * 1.609344))
    found = findings(spring(), world.with_column(day, "distance", kilometres), flights.TIME)["distance"]
    assert found.outcome is Outcome.FAIL
    assert cause_of(found)["factor"] == pytest.approx(1.609344, rel=0.01)
    assert cause_of(found)["units"] == "kilometres against miles"


Shape = Callable[[np.random.Generator, int], np.ndarray[Any, np.dtype[np.float64]]]
SHAPES: dict[str, Shape] = {
    "lognormal": lambda random, n: random.lognormal(0, 0.6, n),
    "normal": lambda random, n: random.normal(1000, 200, n),
    "uniform": lambda random, n: random.uniform(10, 500, n),
    "gamma": lambda random, n: random.gamma(4, 2, n),
    "many zeros": lambda random, n: np.where(random.random(n) < 0.4, 0.0, random.lognormal(2, 0.4, n)),
    "both signs": lambda random, n: random.normal(0, 3, n),
    "below zero": lambda random, n: -random.gamma(5, 10, n),
    "prices": lambda random, n: np.round(random.lognormal(6, 0.7, n)),
}


@functools.cache
def shapes() -> Profile:
    random = np.random.default_rng(17)
    rows = 60_000
    columns = {name: shape(random, rows) for name, shape in SHAPES.items()}
    days = np.sort(random.integers(0, 60, rows)) * world.DAY
    return make_profile(pa.table({**columns, "t": days}), features=list(SHAPES), label=None, event_time="t")


def shape_window(seed: int, rows: int, days: int, factor: float, offset: float = 0.0) -> pa.Table:
    random = np.random.default_rng(seed)
    columns = {name: (shape(random, rows) * factor + offset).astype(np.float32) for name, shape in SHAPES.items()}
    return pa.table({**columns, "t": (np.arange(rows) % days + 100) * world.DAY})


@pytest.mark.parametrize("factor", [0.5, 0.9, 1.1, 1.609344])
def test_a_month_of_continuous_values_gives_the_factor_within_one_per_cent(factor: float) -> None:
    """A lognormal's scale cannot be known better than by its spread over the root of its rows, 0.4 % here."""
    found = findings(shapes(), shape_window(int(10 * factor), 27_000, 30, factor), "t")
    for name in SHAPES:
        assert found[name].outcome in (Outcome.FAIL, Outcome.WARN), found[name].sentence
        assert cause_of(found[name])["factor"] == pytest.approx(factor, rel=0.0125), name


def test_continuous_values_in_the_right_unit_have_no_cause() -> None:
    found = findings(shapes(), shape_window(5, 27_000, 30, 1.0), "t")
    assert {one.outcome for one in found.values()} == {Outcome.PASS}
    assert [one.cause for one in found.values() if one.cause] == []


def test_a_shift_that_is_no_factor_is_not_called_one() -> None:
    random = np.random.default_rng(3)
    table = shape_window(6, 27_000, 30, 1.0)
    mixed = np.where(random.random(27_000) < 0.5, 700.0, 1300.0) + random.normal(0, 20, 27_000)
    found = findings(shapes(), world.with_column(table, "normal", mixed), "t")["normal"]
    assert found.outcome is Outcome.FAIL
    assert found.cause is None


def test_a_season_that_favours_large_values_is_no_factor() -> None:
    """All values are training's own, only their mix has moved, much as if each had been multiplied."""
    random = np.random.default_rng(4)
    sizes = np.round(np.exp(random.normal(3, 0.8, 400)), 3)
    towards_large = sizes ** (np.log(1.4) / 0.8**2)
    rows = 20_000
    days = np.sort(random.integers(0, 60, rows)) * world.DAY
    training = pa.table({"size": random.choice(sizes, rows), "t": days})
    profile = make_profile(training, features=["size"], label=None, event_time="t")
    later = days % (20 * world.DAY) + 100 * world.DAY
    mixed = random.choice(sizes, rows, p=towards_large / towards_large.sum())
    found = findings(profile, pa.table({"size": mixed, "t": later}), "t")["size"]
    assert found.outcome is Outcome.FAIL
    assert found.cause is None, found.sentence
    times = findings(profile, pa.table({"size": training["size"].to_numpy() * 1.4, "t": later}), "t")["size"]
    assert cause_of(times)["factor"] == pytest.approx(1.4)


def temperatures(seed: int, rows: int, days: int, first: int) -> pa.Table:
    """Degrees Fahrenheit in steps of a tenth degree Celsius, with warm and cold days."""
    random = np.random.default_rng(seed)
    day = np.sort(random.integers(0, days, rows))
    celsius = np.round(random.normal(15, 6, days)[day] + random.normal(0, 4, rows), 1)
    return pa.table({"temperature": celsius * 1.8 + 32, "t": (day + first) * world.DAY})


@pytest.mark.parametrize(
    ("zero", "units"),
    [(0.0, "degrees Celsius against degrees Fahrenheit"), (273.15, "kelvins against degrees Fahrenheit")],
)
def test_celsius_for_fahrenheit_is_an_affine_cause(zero: float, units: str) -> None:
    profile = make_profile(temperatures(1, 40_000, 90, 0), features=["temperature"], label=None, event_time="t")
    served = temperatures(2, 5000, 7, 200)
    right = findings(profile, served, "t")["temperature"]
    assert right.outcome is not Outcome.FAIL
    values = (served["temperature"].to_numpy() - 32) / 1.8 + zero
    found = findings(profile, world.with_column(served, "temperature", values), "t")["temperature"]
    assert found.outcome is Outcome.FAIL
    assert cause_of(found)["kind"] == "factor and offset"
    assert cause_of(found)["units"] == units


def test_an_offset_is_a_cause() -> None:
    table = shape_window(8, 27_000, 30, 1.0, offset=0.0)
    late = world.with_column(table, "normal", table["normal"].to_numpy() + 300)
    found = findings(shapes(), late, "t")["normal"]
    assert found.outcome is Outcome.FAIL
    assert cause_of(found)["kind"] == "constant offset"
    assert cause_of(found)["offset"] == pytest.approx(300, rel=0.03)


def test_a_part_of_the_rows_in_a_wrong_unit_fails_and_says_which_part() -> None:
    day = june_day(7)
    distance = day["distance"].to_numpy().astype(np.float64)
    part = np.random.default_rng(1).random(len(distance)) < 0.3
    mixed = np.where(part, distance * 1.609344, distance)
    found = findings(spring(), world.with_column(day, "distance", mixed), flights.TIME)["distance"]
    assert found.outcome is Outcome.FAIL
    assert cause_of(found)["factor"] == pytest.approx(1.609344, rel=1e-3)
    assert cause_of(found)["share"] == pytest.approx(part.mean(), abs=0.05)


def test_a_flipped_sign_is_a_factor_of_minus_one() -> None:
    day = june_day(5)
    found = findings(spring(), world.with_column(day, "distance", -day["distance"].to_numpy()), flights.TIME)
    assert found["distance"].outcome is Outcome.FAIL
    assert cause_of(found["distance"])["factor"] == pytest.approx(-1.0)


def weather(seed: int, days: int, warmer: float) -> pa.Table:
    """Degrees Celsius between 2 and 22, warmer by day, and blood values of which ten times one looks like another."""
    random = np.random.default_rng(seed)
    hour = np.tile(np.arange(0, 24, 0.1), days)
    celsius = np.clip(np.round(11 + 4 * np.sin((hour - 9) / 12 * np.pi) + random.normal(0, 1.5, len(hour)), 1), 2, 22)
    return pa.table(
        {
            "celsius": celsius + warmer,
            "hemoglobin": np.round(random.normal(13.5, 1.3, len(hour)), 1),
            "glucose": np.round(np.exp(random.normal(4.6, 0.25, len(hour)))),
            "t": (np.repeat(np.arange(days), 240) + 100 * seed) * world.DAY,
        }
    )


@functools.cache
def spring_weather() -> Profile:
    return make_profile(weather(0, 60, 0.0), features=["celsius", "hemoglobin", "glucose"], label=None, event_time="t")


def test_warmer_days_are_not_later_hours() -> None:
    found = findings(spring_weather(), weather(1, 7, 2.5), "t")["celsius"]
    assert found.outcome is Outcome.FAIL
    assert (found.cause or {}).get("kind") != "clock", found.sentence


def visits(seed: int, days: int, more: int = 0) -> pa.Table:
    """Small counts, up to a dozen, which lie where hours of a day lie too."""
    random = np.random.default_rng(seed)
    count = random.poisson(3, 300 * days).clip(max=13) + more
    return pa.table({"visits": count, "t": (np.repeat(np.arange(days), 300) + 100 * seed) * world.DAY})


def test_one_visit_more_is_not_one_hour_later() -> None:
    before = make_profile(visits(0, 60), features=["visits"], label=None, event_time="t")
    found = findings(before, visits(1, 7, 1), "t")["visits"]
    assert found.outcome is Outcome.FAIL
    assert found.sentence == "`visits`: served values are those of training plus 1"


def test_ten_times_a_column_is_not_the_column_that_it_then_looks_like() -> None:
    week = weather(1, 7, 0.0)
    tenfold = world.with_column(week, "hemoglobin", week["hemoglobin"].to_numpy() * 10)
    found = findings(spring_weather(), tenfold, "t")["hemoglobin"]
    assert cause_of(found)["kind"] == "constant factor"
    assert cause_of(found)["factor"] == pytest.approx(10.0)


def test_another_column_is_not_a_factor_under_which_it_happens_to_land() -> None:
    week = weather(1, 7, 0.0)
    other = world.with_column(week, "celsius", week["hemoglobin"].to_numpy())
    assert cause_of(findings(spring_weather(), other, "t")["celsius"]) == like(
        {"kind": "other column", "column": "hemoglobin"}
    )
