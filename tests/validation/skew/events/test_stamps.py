"""Time stamps beside the event's: in another time zone they are found by parts of an hour, around the clock too."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest
from tests.validation.skew.causes import like

from tidegate_serving.admission import Outcome
from tidegate_validation.skew import Columns, SkewReport, report_on_tables
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="at")
DAY = 86_400
ROWS = 300


def readings(seed: int, days: int, first_day: int) -> pd.DataFrame:
    """Meters that are read around the clock, at full minutes, and people who were born long ago."""
    random = np.random.default_rng(seed)
    n = days * ROWS
    second = np.sort(random.integers(0, 1440, (days, ROWS)), axis=1).ravel() * 60
    at = (first_day + np.repeat(np.arange(days), ROWS)) * DAY + second
    return pd.DataFrame(
        {
            "at": at,
            "used": np.round(random.gamma(3, 0.5, n), 2),
            "sent": pd.to_datetime(at + random.exponential(90, n), unit="s"),
            "stored": pd.to_datetime(at + random.gamma(2, 3600, n), unit="s"),
            "same": pd.to_datetime(at, unit="s"),
            "born": pd.to_datetime(random.integers(-10_000, 10_000, n) * DAY, unit="s"),
            "founded": pd.Timestamp("2001-05-01"),
        }
    )


@functools.cache
def training() -> Profile:
    rows = readings(1, 40, 16_000)
    return profile_table(as_table(rows, "training"), COLUMNS, [str(name) for name in rows])


def report(**moved: pd.Timedelta) -> SkewReport:
    rows = readings(2, 7, 16_055)
    rows = rows.assign(**{name: rows[name] + gap for name, gap in moved.items()})
    return report_on_table(training(), as_table(rows, "the week"), COLUMNS)


@pytest.mark.parametrize("hours", [0.5, 5.0, 5.5, -1.0, 0.75])
@pytest.mark.parametrize("stamp", ["sent", "stored", "same"])
def test_another_time_zone_is_found_and_named(stamp: str, hours: float) -> None:
    found = report(**{stamp: pd.Timedelta(hours=hours)})
    first = found.findings[0]
    assert (first.subject, first.outcome) == (stamp, Outcome.FAIL)
    assert first.cause == like({"kind": "clock", "offset": hours}), first.sentence
    others = [one for one in found.findings if one.subject != stamp]
    assert {one.outcome for one in others} == {Outcome.PASS}, [one.sentence for one in others]


def test_stamps_as_they_are_pass_and_delays_have_no_finding_of_their_own() -> None:
    found = report()
    assert {one.outcome for one in found.findings} == {Outcome.PASS}, [one.sentence for one in found.findings]
    assert {one.subject for one in found.findings} == {"used", "sent", "stored", "same", "born", "founded"}
    assert set(found.shares) == {"used", "sent", "stored", "same", "born", "founded"}


def test_longer_delays_are_no_other_time_zone() -> None:
    rows = readings(2, 7, 16_055)
    slow = rows["at"].to_numpy() + np.random.default_rng(3).exponential(3600, len(rows))
    now = as_table(rows.assign(sent=pd.to_datetime(slow, unit="s")), "the week")
    first = report_on_table(training(), now, COLUMNS).findings[0]
    assert (first.subject, first.outcome) == ("sent", Outcome.FAIL)
    assert (first.cause or {}).get("kind") != "clock"


@pytest.mark.parametrize("seed", range(4))
def test_minutes_of_which_only_the_longer_half_came_are_no_other_time_zone(seed: int) -> None:
    """Answers after some minutes: without the quick ones they come about a quarter of an hour later."""
    random = np.random.default_rng(seed)
    at = np.repeat(16_000 + np.arange(60), ROWS) * DAY + random.integers(0, DAY, 60 * ROWS)
    wait = 60 * np.round(25 * np.exp(0.7 * random.normal(size=len(at))), 1)
    rows = pd.DataFrame({"at": at, "answered": pd.to_datetime(at + wait, unit="s")}).sort_values("at")
    late = (rows["at"] >= 16_053 * DAY) & (wait[rows.index] > 25 * 60)
    found = report_on_tables(rows[rows["at"] < 16_053 * DAY], rows[late], COLUMNS).feature("answered")
    assert found.outcome is Outcome.FAIL
    assert "time zone" not in found.sentence


def test_a_stamp_that_is_not_served_is_missed_once() -> None:
    now = as_table(readings(2, 7, 16_055).drop(columns="sent"), "the week")
    failed = [one for one in report_on_table(training(), now, COLUMNS).findings if one.outcome is Outcome.FAIL]
    assert [(one.subject, one.check) for one in failed] == [("sent", "schema")]


def test_stamps_that_are_missing_are_told_once() -> None:
    rows = readings(2, 7, 16_055)
    gone = rows["sent"].mask(np.random.default_rng(4).random(len(rows)) < 0.1)
    now = as_table(rows.assign(sent=gone), "the week")
    found = report_on_table(training(), now, COLUMNS).findings
    told = [(one.subject, one.check) for one in found if one.outcome is not Outcome.PASS]
    assert told == [("sent", "missing")]


def test_stamps_that_come_otherwise_than_moved_are_told_in_hours() -> None:
    rows = readings(2, 7, 16_055)
    event = pd.to_datetime(rows["at"], unit="s")
    rows["stored"] = event + (rows["stored"] - event) * 4

    found = report_on_table(training(), as_table(rows, "the week"), COLUMNS).feature("stored")

    assert found.outcome is Outcome.FAIL
    assert found.sentence.startswith("`stored`, in hours after `at`: ")


@pytest.mark.parametrize(("days", "hours"), [(400, 5.0), (200, 4.0)])
def test_where_summer_time_begins_or_ends_in_training_its_last_days_say_by_how_much(days: int, hours: float) -> None:
    """Local times of New York written in UTC are five hours later in February, and four in July."""
    random = np.random.default_rng(1)
    day = np.repeat(np.arange(days + 7), 60)
    seconds = np.sort(random.integers(0, 86_400, (days + 7, 60)), axis=1).ravel()
    at = pd.Series(pd.Timestamp("2021-01-10") + pd.to_timedelta(day * 86_400 + seconds, unit="s"))
    there = at.dt.tz_localize("UTC").dt.tz_convert("America/New_York").dt.tz_localize(None)
    rows = pd.DataFrame({"at": at, "hour": there.dt.hour, "local": there})
    served = rows[day >= days].assign(hour=at.dt.hour, local=at)
    report = report_on_tables(rows[day < days], served, Columns(time="at"))
    for name in ("hour", "local"):
        assert report.feature(name).cause == like({"kind": "clock", "offset": hours})


def test_stamps_that_come_as_unix_seconds_were_not_sorted() -> None:
    rows = readings(2, 7, 16_055)
    now = rows.assign(stored=rows["at"] + 3600, sent=rows["at"] + 60)
    found = report_on_table(training(), as_table(now, "the week"), COLUMNS)
    for stamp in ("sent", "stored"):
        first = found.feature(stamp)
        assert first.outcome is Outcome.FAIL
        assert first.cause is None or first.cause["kind"] != "sorted", first.sentence
