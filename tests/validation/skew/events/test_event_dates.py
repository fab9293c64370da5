"""Dates that run with the event are compared by their days after it; a date of birth is compared as it is."""

from __future__ import annotations

import datetime as dt
import functools
from collections.abc import Callable

import numpy as np
import pandas as pd

from tidegate_serving.admission import Outcome
from tidegate_validation.skew import Columns, SkewReport, report_on_tables
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="seen_at")
DAY = 86_400
ROWS = 60
START = dt.date(2023, 2, 6)
FIRST = (START - dt.date(1970, 1, 1)).days
TRAINED = 60


def dates(days: np.ndarray) -> list[dt.date]:
    return [dt.date(1970, 1, 1) + dt.timedelta(days=int(day)) for day in days]


def visits(first: int, days: int) -> pd.DataFrame:
    """Visits to a clinic with the date of the next one, the time of the referral, and the date of birth."""
    random = np.random.default_rng(first)
    day = FIRST + first + np.repeat(np.arange(days), ROWS)
    at = np.sort(day * DAY + random.integers(0, DAY, len(day)))
    return pd.DataFrame(
        {
            "seen_at": pd.to_datetime(at, unit="s"),
            "next_visit": dates(day + random.choice([7, 14, 28, 30, 45], len(day))),
            "referred": pd.to_datetime(at - random.exponential(20 * DAY, len(day)), unit="s"),
            "joined": dates(day - random.exponential(300, len(day))),
            "born": dates(random.normal(4_000, 7_000, len(day))),
            "pain": random.integers(0, 11, len(day)),
        }
    )


@functools.cache
def training() -> Profile:
    rows = visits(0, TRAINED)
    return profile_table(as_table(rows, "training"), COLUMNS, [str(name) for name in rows])


@functools.cache
def weeks() -> pd.DataFrame:
    return visits(TRAINED, 14)


def report(**changed: pd.Series | list[dt.date]) -> SkewReport:
    return report_on_table(training(), as_table(weeks().assign(**changed), "two weeks"), COLUMNS)


def test_later_dates_of_later_events_pass() -> None:
    found = report()

    assert found.outcome is Outcome.PASS, [one.sentence for one in found.findings]
    assert "in days after `seen_at`" in found.feature("next_visit").sentence


def test_dates_that_end_at_the_event_are_told_in_days() -> None:
    """The newest of them is always today's, which no training has held."""
    assert "in days after `seen_at`" in report().feature("joined").sentence


def test_one_date_in_place_of_dates_after_the_event_is_told_as_a_date() -> None:
    unknown = [dt.date(1900, 1, 1) if place % 20 == 0 else day for place, day in enumerate(weeks()["joined"])]

    found = report(joined=unknown).feature("joined")

    assert found.outcome is Outcome.FAIL
    assert "5.0 % of the rows hold “1900-01-01 00:00”, which training never held" in found.sentence


def test_dates_that_come_later_after_the_event_are_told_in_days() -> None:
    found = report(next_visit=[day + dt.timedelta(days=21) for day in weeks()["next_visit"]]).feature("next_visit")

    assert found.outcome is Outcome.FAIL
    assert found.sentence == "`next_visit`, in days after `seen_at`: served values are those of training plus 21"


def test_stamps_that_run_with_the_event_are_told_in_days() -> None:
    found = report(referred=weeks()["referred"] - pd.Timedelta(days=25)).feature("referred")

    assert found.outcome is Outcome.FAIL
    assert "days earlier beside `seen_at` than in training" in found.sentence
    assert "time zone" not in found.sentence


def test_day_and_month_in_each_others_place_are_seen_in_dates_after_the_event() -> None:
    swapped = [day.replace(month=day.day, day=day.month) if day.day <= 12 else day for day in weeks()["next_visit"]]

    found = report(next_visit=swapped).feature("next_visit")

    assert found.outcome is Outcome.FAIL
    assert "dates have day and month in each other's place" in found.sentence


def test_missing_dates_are_told() -> None:
    found = report(next_visit=weeks()["next_visit"].where(weeks().index % 10 != 0)).feature("next_visit")

    assert found.outcome is Outcome.FAIL
    assert "10.0 % of the values are missing" in found.sentence


def test_a_date_of_birth_is_compared_as_it_is() -> None:
    found = report(born=[day + dt.timedelta(days=3650) for day in weeks()["born"]]).feature("born")

    assert found.outcome is Outcome.FAIL
    assert "in days after" not in found.sentence


def test_a_date_in_place_of_others_is_told_as_a_date() -> None:
    unknown = [dt.date(1900, 1, 1) if place % 8 == 0 else day for place, day in enumerate(weeks()["born"])]

    found = report(born=unknown).feature("born")

    assert "12.5 % of the rows hold “1900-01-01 00:00”" in found.sentence
    assert (found.cause or {})["value"] == "1900-01-01 00:00"


def people(days: int, first: int) -> pd.DataFrame:
    """People of all ages, some born on the day, with dates as data frames keep them: stamps at midnight."""
    random = np.random.default_rng(first)
    day = first + np.repeat(np.arange(days), 120)
    age = np.where(random.random(len(day)) < 0.1, 0, random.gamma(7, 8, len(day)) * 365).astype(int)
    born = pd.to_datetime(day - age, unit="D")
    return pd.DataFrame({"at": day * 86_400 + random.integers(0, 86_400, len(day)), "born": born})


def of_born(change: Callable[[pd.Series], pd.Series]) -> SkewReport:
    now = people(14, 19_060)
    return report_on_tables(people(60, 19_000), now.assign(born=change(now["born"])), Columns(time="at"))


def test_stamps_at_midnight_are_dates() -> None:
    assert of_born(lambda born: born).outcome is Outcome.PASS

    unknown = pd.Timestamp("1850-01-01")
    told = of_born(lambda born: born.mask(born.index % 20 == 0, unknown)).feature("born")
    assert told.outcome is Outcome.FAIL
    assert "1850-01-01" in told.sentence

    told = of_born(lambda born: born - pd.Timedelta(hours=2)).feature("born")
    assert told.outcome is Outcome.FAIL
    assert "100.0 % of the rows have a time of day, where training had dates alone" in told.sentence


def test_unix_seconds_that_become_time_stamps_are_no_dates() -> None:
    """They are whole numbers in training, as days after the event are, but of another size."""
    random = np.random.default_rng(1)
    day = np.repeat(19_000 + np.arange(94), 120)
    at = day * 86_400 + random.integers(0, 86_400, len(day))
    rows = pd.DataFrame({"at": at, "created": at - random.integers(0, 4000, len(at))})
    now = rows[day >= 19_080].assign(created=lambda one: pd.to_datetime(one["created"], unit="s"))
    found = report_on_tables(rows[day < 19_080], now, Columns(time="at")).findings

    told = [one.check for one in found if one.subject == "created" and one.outcome is Outcome.FAIL]
    assert told == ["growth"]
    assert not any("rounded" in one.sentence for one in found)


def test_local_midnights_after_summer_time_began_are_a_warning_and_the_same_days() -> None:
    def london(first: str, days: int, seed: int) -> pd.DataFrame:
        random = np.random.default_rng(seed)
        day = pd.to_datetime(first) + pd.to_timedelta(np.repeat(np.arange(days), 120), unit="D")
        due = (
            (day + pd.to_timedelta(random.integers(1, 15, len(day)), unit="D"))
            .tz_localize("Europe/London")
            .tz_convert(None)
        )
        at = day.to_numpy().astype("datetime64[s]").astype("int64") + random.integers(0, 86_400, len(day))
        return pd.DataFrame({"at": at, "due": due})

    found = report_on_tables(london("2026-01-02", 60, 1), london("2026-04-06", 14, 2), Columns(time="at")).findings
    told = [one for one in found if one.outcome in (Outcome.FAIL, Outcome.WARN)]
    assert [(one.subject, one.outcome) for one in told] == [("due", Outcome.WARN)]
    assert "(summer time?)" in told[0].sentence
