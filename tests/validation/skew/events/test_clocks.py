"""Times of day as plain numbers beside the event's time: moved by hours they are found, and told in hours."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest
from tests.validation.skew.causes import like

from tidegate_serving.admission import Outcome
from tidegate_validation.skew import Columns, SkewReport
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="at")
DAY = 86_400
ROWS = 300
EAST = 3


def visits(seed: int, days: int, first_day: int) -> pd.DataFrame:
    """Visits around the clock, told in hours, minutes and seconds of the day three hours east, and other numbers."""
    random = np.random.default_rng(seed)
    n = days * ROWS
    second = np.sort(random.integers(0, DAY, (days, ROWS)), axis=1).ravel()
    local = (second + EAST * 3600) % DAY
    return pd.DataFrame(
        {
            "at": (first_day + np.repeat(np.arange(days), ROWS)) * DAY + second,
            "hour": local // 3600,
            "minute": local // 60,
            "second": local.astype(float),
            "load": np.round(5 + np.sin(local / DAY * 2 * np.pi) + random.normal(0, 0.3, n), 2),
            "stay": random.integers(0, 24, n),
            "guests": 1 + random.poisson(2, n),
        }
    )


UNITS = {"hour": 1, "minute": 60, "second": 3600}


@functools.cache
def training() -> Profile:
    rows = visits(1, 40, 16_000)
    return profile_table(as_table(rows, "training"), COLUMNS, [str(name) for name in rows])


def report(rows: pd.DataFrame, profile: Profile | None = None) -> SkewReport:
    return report_on_table(profile or training(), as_table(rows, "the week"), COLUMNS)


def moved(column: str, hours: float) -> pd.DataFrame:
    rows = visits(2, 7, 16_055)
    unit = UNITS[column]
    return rows.assign(**{column: ((rows[column] + hours * unit) % (24 * unit)).astype(rows[column].dtype)})


@pytest.mark.parametrize("hours", [5, -3, 11])
@pytest.mark.parametrize("column", UNITS)
def test_hours_around_the_clock_are_found_and_told(column: str, hours: int) -> None:
    found = report(moved(column, hours))
    first = found.findings[0]
    assert (first.subject, first.outcome) == (column, Outcome.FAIL), first.sentence
    assert first.cause == like({"kind": "clock", "offset": float(hours)}), first.sentence
    assert f"{abs(hours)} h {'later' if hours > 0 else 'earlier'}" in first.sentence
    assert {one.outcome for one in found.findings[1:]} == {Outcome.PASS}, [one.sentence for one in found.findings]


@pytest.mark.parametrize("column", UNITS)
def test_one_hour_may_be_summer_time_and_is_a_warning(column: str) -> None:
    found = report(moved(column, 1))
    first = found.findings[0]
    assert (first.subject, first.outcome) == (column, Outcome.WARN), first.sentence
    assert first.cause == like({"kind": "clock", "offset": 1.0}), first.sentence
    assert "summer time" in first.sentence
    assert {one.outcome for one in found.findings[1:]} == {Outcome.PASS}, [one.sentence for one in found.findings]


def test_a_part_of_the_rows_in_another_zone_is_told_of_the_clock() -> None:
    rows = visits(2, 7, 16_055)
    part = np.random.default_rng(3).random(len(rows)) < 0.4
    found = report(rows.assign(hour=rows["hour"].mask(part, (rows["hour"] + 5) % 24)))
    mine = [one for one in found.findings if one.subject == "hour"]
    assert Outcome.WARN in {one.outcome for one in mine if one.check != "together"}


def test_the_week_as_it_is_passes_and_has_no_columns_of_delays() -> None:
    found = report(visits(2, 7, 16_055))
    assert {one.outcome for one in found.findings} == {Outcome.PASS}, [one.sentence for one in found.findings]
    assert {one.subject for one in found.findings} == {"hour", "minute", "second", "load", "stay", "guests"}


def test_a_quantity_that_does_not_go_with_the_time_has_no_delay() -> None:
    assert "hour after at" in training().features
    assert "stay after at" not in training().features


def test_a_clock_that_is_not_served_is_missed_once() -> None:
    found = report(visits(2, 7, 16_055).drop(columns="minute"))
    failed = [one for one in found.findings if one.outcome is Outcome.FAIL]
    assert [(one.subject, one.check) for one in failed] == [("minute", "schema")]


def test_minutes_of_the_day_without_a_clock_beside_them_are_told_by_their_distribution() -> None:
    random = np.random.default_rng(7)

    def calls(days: int, first: int) -> pd.DataFrame:
        minute = (np.clip(np.round(random.normal(840, 200, days * ROWS)), 1, 1439)).astype(np.int64)
        at = (first + np.repeat(np.arange(days), ROWS)) * DAY + random.integers(0, DAY, days * ROWS)
        return pd.DataFrame({"at": at, "due": minute})

    before, now = calls(40, 16_000), calls(7, 16_055)
    profile = profile_table(as_table(before, "training"), COLUMNS, ["at", "due"])
    first = report(now.assign(due=(now["due"] + 300) % 1440), profile).findings[0]
    assert first.outcome is Outcome.FAIL
    assert first.cause == like({"kind": "clock", "offset": 5.0, "per_hour": 60}), first.sentence


def test_summer_time_that_begins_within_the_window_is_one_hour_since_that_day() -> None:
    rows = visits(2, 7, 16_055)
    later = rows["at"] >= 16_058 * DAY
    found = report(rows.assign(hour=rows["hour"].mask(later, (rows["hour"] + 1) % 24))).feature("hour")
    assert found.outcome is Outcome.WARN
    assert found.cause == like({"kind": "clock", "offset": 1.0, "since": "2013-12-19"})


def test_a_clock_with_infinite_values_is_read_without_a_warning() -> None:
    rows = visits(2, 7, 16_055)
    endless = rows["second"].mask(np.arange(len(rows)) % 50 == 0, np.inf)
    assert report(rows.assign(second=endless)).feature("second").outcome is Outcome.FAIL


@pytest.mark.parametrize("seed", range(3))
def test_days_of_winter_and_of_summer_are_held_against_training_days_around_them(seed: int) -> None:
    rows = visits(3, 70, 16_000)
    day = rows["at"] // DAY
    rows = rows.assign(hour=(rows["hour"] + (day >= 16_045)) % 24)
    some = np.random.default_rng(seed).permutation(70)[:7] + 16_000
    before, now = rows[~day.isin(some)], rows[day.isin(some)]
    profile = profile_table(as_table(before, "training"), COLUMNS, [str(name) for name in rows])

    found = report(now.assign(hour=(now["hour"] + 5) % 24), profile).findings[0]

    assert (found.subject, found.outcome) == ("hour", Outcome.FAIL)
    assert found.cause == like({"kind": "clock", "offset": 5.0, "share": 1.0}), found.sentence
    assert report(now, profile).outcome is Outcome.PASS


def fixed_times(summer: int, first: int = 16_000) -> tuple[Profile, pd.DataFrame]:
    """Forty days of events every other hour and a week of more, with a price of the local hour, which is summer time's
    from the day `summer` on, and a load of the event's own."""
    random = np.random.default_rng(4)
    day, step = np.repeat(np.arange(47), 120), np.tile(np.repeat(np.arange(0, 24, 2), 10), 47)
    hour = (step + 1 + (day >= summer)) % 24
    at = (first + day) * DAY + step * 3600 + random.integers(0, 600, len(day))
    price = np.sin(hour / 24 * 4 * np.pi) + random.normal(0, 0.1, len(day))
    load = np.sin(step / 24 * 2 * np.pi) + random.normal(0, 0.1, len(day))
    rows = pd.DataFrame({"at": at, "hour": hour, "price": price, "load": load})
    return profile_table(as_table(rows[day < 40], "training"), COLUMNS, [str(name) for name in rows]), rows[day >= 40]


def test_a_clock_of_events_at_fixed_times_does_not_fail_in_summer_time() -> None:
    """In summer it has hours that training held on its last days alone."""
    profile, now = fixed_times(36)
    found = report(now, profile)
    assert found.outcome in (Outcome.PASS, Outcome.WARN), found.sentence
    stuck = report(now.assign(hour=3), profile).feature("hour")
    assert (stuck.outcome, (stuck.cause or {}).get("kind")) == (Outcome.FAIL, "one value"), stuck.sentence


def test_summer_time_excuses_no_column_of_other_rows() -> None:
    """Its values went with the time of day alone, for the hours are others."""
    profile, now = fixed_times(40)
    assert report(now, profile).feature("load").outcome is Outcome.PASS
    found = report(now.assign(load=np.random.default_rng(1).permutation(now["load"])), profile).feature("load")
    assert (found.outcome, (found.cause or {}).get("kind")) == (Outcome.FAIL, "shuffled"), found.sentence


def test_a_change_of_clocks_excuses_no_other_values() -> None:
    """Noise in place of what went with the time of day, from the last Sunday of October on."""
    profile, now = fixed_times(40, first=19_255)
    noise = np.random.default_rng(1).uniform(-1.1, 1.1, len(now))
    assert report(now.assign(price=noise), profile).feature("price").outcome is Outcome.FAIL


def test_other_hours_in_summer_time_are_told_without_the_figures_of_what_failed() -> None:
    profile, now = fixed_times(38)
    found = report(now, profile).feature("hour")
    assert (found.outcome, found.check, found.number, found.limit) == (Outcome.WARN, "distribution", None, None)
    assert found.sentence.endswith("is an hour from them beside `at` (summer time?)")
