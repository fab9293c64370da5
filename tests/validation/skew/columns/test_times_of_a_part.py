"""The local hour of one region in another time zone: it is the hour that is wrong, and not the time of the events."""

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
DAY, TRAINED = 86_400, 42
OFFSETS = {"north": 1, "south": 1, "east": 3, "west": -5, "islands": 0}


def rows(seed: int, first: int, days: int) -> pd.DataFrame:
    """Orders of regions with their local hour, and a temperature that goes with the time of day."""
    random = np.random.default_rng([seed, first])
    day = np.repeat(first + np.arange(days), 260)
    n = len(day)
    second = random.beta(3, 2.4, n) * DAY
    region = random.choice([*OFFSETS], n)
    warm = random.normal(0, 1, days)[day - first]
    local = (second / 3600 + np.array([OFFSETS[one] for one in region])) % 24
    return pd.DataFrame(
        {
            "at": day * DAY + second.astype(np.int64),
            "region": region,
            "hour": local.astype(np.int64),
            "temp": np.round(
                14 + 7 * np.sin((second / 3600 - 9) / 24 * 2 * np.pi) + 2.5 * random.normal(size=n) + warm, 1
            ),
            "amount": np.round(np.exp(3 + 0.7 * random.normal(size=n)), 2),
        }
    )


@functools.cache
def training(seed: int) -> Profile:
    before = rows(seed, 19_000, TRAINED)
    return profile_table(as_table(before, "training"), COLUMNS, [*before.columns])


def told(seed: int, now: pd.DataFrame) -> list[Finding]:
    findings = report_on_table(training(seed), as_table(now, "the week"), COLUMNS).findings
    return [one for one in findings if one.outcome in (Outcome.FAIL, Outcome.WARN)]


@pytest.mark.parametrize("seed", range(5))
def test_the_hour_of_one_region_in_another_zone_is_told_of_the_hour(seed: int) -> None:
    now = rows(seed, 19_000 + TRAINED, 7)
    found = told(seed, now.assign(hour=now["hour"].where(now["region"] != "east", (now["hour"] + 5) % 24)))

    assert {one.subject for one in found} == {"hour"}, found
    assert found[0].outcome is Outcome.FAIL


@pytest.mark.parametrize("seed", range(5))
def test_events_in_another_zone_are_told_of_their_times(seed: int) -> None:
    now = rows(seed, 19_000 + TRAINED, 7)
    found = told(seed, now.assign(at=now["at"] + 5 * 3600))

    assert [(one.subject, one.outcome) for one in found] == [("at", Outcome.FAIL)], found


@pytest.mark.parametrize("seed", range(6))
def test_a_week_as_it_is_says_nothing(seed: int) -> None:
    assert [one.sentence for one in told(seed, rows(seed, 19_000 + TRAINED, 7))] == []
