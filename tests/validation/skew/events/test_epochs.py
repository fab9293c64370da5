"""Unix seconds and milliseconds beside the event's time: moved by hours they are found, like time stamps."""

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
DAY, ROWS, FIRST = 86_400, 200, 18_600
STAMPS = {"sent": 1, "stored": 1_000, "read": 1, "left": 1, "seen": 1_000}


def rows(seed: int, first_day: int, days: int) -> pd.DataFrame:
    """Stamps as numbers, whole and not, some with a 0 where there is no time, and a dozen numbers that are as large and
    no stamps."""
    random = np.random.default_rng(seed)
    n, begun = days * ROWS, FIRST * DAY
    at = np.sort(random.integers(0, days * DAY, n)) + (first_day + FIRST) * DAY
    place = np.arange(n) + first_day * ROWS
    return pd.DataFrame(
        {
            "at": at,
            "sent": at + np.round(random.exponential(90, n)).astype(np.int64),
            "stored": at * 1000 + random.gamma(2, 3_600_000, n).astype(np.int64),
            "read": at + random.exponential(600, n),
            "left": np.where(random.random(n) < 0.01, 0, at + np.round(random.exponential(90, n)).astype(np.int64)),
            "seen": np.where(random.random(n) < 0.02, 0.0, at * 1000.0 + random.gamma(2, 3_600_000, n)),
            "price": random.lognormal(21, 0.3, n),
            "area": random.uniform(0.5e9, 5e9, n),
            "mostly_nothing": np.where(random.random(n) < 0.9, 0, begun + place),
            "counter": begun + place,
            "fast_counter": begun + 400 * place,
            "counter_in_ms": begun * 1000 + place,
            "random_id": random.integers(1_000_000_000, 2_000_000_000, n),
            "random_id_in_ms": random.integers(10**12, 2 * 10**12, n),
            "few_ids": 1_600_000_000 + 7_919 * random.integers(0, 30, n),
            "account": random.choice(1_600_000_000 + np.arange(500) * 1_000, n),
            "phone": 1_212_000_000 + random.integers(0, 10_000_000, n),
            "born": begun - random.integers(0, 3_000, n) * DAY,
            "opened": begun - 5 * DAY + random.integers(0, 200, n) * 60,
            "promised": at + random.integers(1, 15, n) * DAY,
            "midnight": at // DAY * DAY,
        }
    )


@functools.cache
def training(seed: int) -> Profile:
    before = rows(seed, 0, 40)
    return profile_table(as_table(before, "training"), COLUMNS, [str(name) for name in before])


def report(seed: int, **moved: float) -> SkewReport:
    """A week right after training, with stamps that are moved by hours."""
    now = rows(100 + seed, 40, 7)
    for name, hours in moved.items():
        now[name] = now[name].mask(now[name] > 0, now[name] + int(hours * 3600) * STAMPS[name])
    return report_on_table(training(seed), as_table(now, "the week"), COLUMNS)


@pytest.mark.parametrize("hours", [5.5, 1.0, -5.0])
@pytest.mark.parametrize("stamp", STAMPS)
def test_stamps_as_whole_numbers_that_are_moved_by_hours_are_found(stamp: str, hours: float) -> None:
    found = report(0, **{stamp: hours}).feature(stamp)
    assert found.outcome is Outcome.FAIL, found.sentence
    assert found.cause == like({"kind": "clock", "offset": hours}), found.sentence


@pytest.mark.parametrize("seed", range(5))
def test_other_whole_numbers_of_that_size_and_stamps_as_they_are_do_not_fail(seed: int) -> None:
    found = report(seed)
    assert [one.sentence for one in found.findings if one.outcome is Outcome.FAIL] == []


@pytest.mark.parametrize("seed", range(5))
def test_a_counter_that_runs_nearly_as_fast_as_time_is_no_stamp(seed: int) -> None:
    """It leaves the events by two hours a day."""
    found = report_on_tables(rows(seed, 0, 7), rows(50 + seed, 7, 3), COLUMNS).feature("fast_counter")
    assert found.outcome is not Outcome.FAIL, found.sentence
    assert "beside `at`" not in found.sentence


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("stamp", ["left", "seen"])
def test_more_zeros_where_there_is_no_time_and_another_unit_are_found_beside_those_of_training(
    stamp: str, seed: int
) -> None:
    now = rows(100 + seed, 40, 7)
    lost = np.random.default_rng(seed).random(len(now)) < 0.08
    zeros = report_on_table(training(seed), as_table(now.assign(**{stamp: now[stamp].mask(lost, 0)}), "now"), COLUMNS)
    other = now.assign(**{stamp: now[stamp] * (1000 if STAMPS[stamp] == 1 else 0.001)})
    factor = report_on_table(training(seed), as_table(other, "now"), COLUMNS).feature(stamp)

    assert zeros.feature(stamp).outcome is Outcome.FAIL, zeros.feature(stamp).sentence
    assert zeros.feature(stamp).cause == like({"kind": "missing values"})
    assert factor.cause == like({"kind": "constant factor"}), factor.sentence
