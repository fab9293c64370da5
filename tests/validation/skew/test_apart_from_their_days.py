"""Rows a little beyond training's range that a fault puts on every day, in columns that go beyond it by themselves now
and then: by a season, a trend, hot days, wide days, or a spell of spikes.
"""

from __future__ import annotations

import functools

import numpy as np
import numpy.typing as npt
import pandas as pd
import pytest

from tidegate_serving.admission import Outcome
from tidegate_validation.skew import Columns, SkewReport
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="at")
DAY, FIRST = 86_400, 19_400
TRAINED, WINDOW, ROWS = 84, 7, 150
BEYOND = (4, 7, 10, 11)
"""Of these the season, the level that wanders or the meters go beyond training on four days of the week or more."""
SEEDS = range(4)
SHARE = 0.02
KINDS = ("season", "trend", "wander", "storms", "week", "hours", "meters")
Numbers = npt.NDArray[np.float64]


def level(random: np.random.Generator, spread: float, alike: float) -> Numbers:
    """A level for each day that resembles the one before."""
    found = np.zeros(TRAINED + WINDOW)
    for day in range(1, len(found)):
        found[day] = alike * found[day - 1] + random.normal(0, spread * (1 - alike**2) ** 0.5)
    return found


@functools.cache
def rows(seed: int) -> pd.DataFrame:
    """Columns of many kinds over the same days."""
    random = np.random.default_rng(seed)
    days = np.arange(TRAINED + WINDOW)
    day = np.repeat(days, ROWS)
    hour = np.sort(random.uniform(0, 24, (len(days), ROWS)), axis=1).ravel()
    noise = random.normal(0, 1, (5, len(day)))
    year = np.sin((days + random.uniform(-70, -20)) / 365 * 2 * np.pi)  # It rises, and goes beyond training.
    wave = np.sin((hour - 9) / 24 * 2 * np.pi)
    meter = random.integers(0, 20, len(day))
    gusts = np.repeat(level(random, 3, 0.6), 24) + np.repeat(random.normal(0, 3, 8 * len(days)), 3)
    found = {
        "season": (12 * year + level(random, 3, 0.75))[day] + 5 * wave + 1.5 * noise[0],
        "trend": 100 + 0.05 * day + level(random, 1, 0.5)[day] + 3 * noise[1],
        "wander": 50 + level(random, 5, 0.97)[day] + 2 * noise[2],
        "storms": np.exp(level(random, 0.8, 0.4))[day] * random.gamma(2, 3, len(day)),
        "week": 200 + (30 * (days % 7 > 4) + level(random, 6, 0.6))[day] + 40 * wave + 8 * noise[3],
        "hours": 30 + gusts[24 * day + hour.astype(np.int64)] + noise[4],
        "meters": np.exp(random.normal(3, 0.5, 20))[meter]
        * ((1 + 0.15 * year)[day] + 0.05 * random.normal(size=len(day))),
        # Spells of days in which a few rows are spikes, in training as in the window.
        "spells": noise[0]
        + np.where(random.random(len(day)) < 0.04 * (days // 7 % 4 == 0)[day], 6 + 3 * noise[1] ** 2, 0),
    }
    at = (FIRST + day) * DAY + (hour * 3600).astype(np.int64)
    return pd.DataFrame({"at": at, **{name: np.round(values, 2) for name, values in found.items()}})


def window(seed: int) -> pd.DataFrame:
    return rows(seed)[TRAINED * ROWS :].reset_index(drop=True)


@functools.cache
def training(seed: int) -> Profile:
    before = rows(seed)[: TRAINED * ROWS]
    return profile_table(as_table(before, "training"), COLUMNS, [str(name) for name in before])


def report(seed: int, now: pd.DataFrame) -> SkewReport:
    return report_on_table(training(seed), as_table(now, "the window"), COLUMNS)


def beyond(found: SkewReport) -> list[str]:
    return [one.subject for one in found.findings if one.check == "outside" and one.outcome is Outcome.FAIL]


def test_columns_that_go_beyond_training_by_themselves_do_not_fail_for_it() -> None:
    assert [(seed, beyond(report(seed, window(seed)))) for seed in BEYOND] == [(seed, []) for seed in BEYOND]


@pytest.mark.parametrize("side", [-1, 1])
def test_a_fault_in_a_few_rows_of_every_day_is_found_in_nearly_all(side: int) -> None:
    kinds = [one for one in KINDS if side > 0 or one != "hours"]
    found = []
    for seed in SEEDS:
        random, now = np.random.default_rng(100 + seed), window(seed)
        for name in kinds:
            before = rows(seed)[name][: TRAINED * ROWS]
            hit = np.flatnonzero(random.random(len(now)) < SHARE)
            end = before.max() if side > 0 else before.min()
            now.loc[hit, name] = np.round(end + side * random.uniform(0.1, 1.2, len(hit)) * before.std(), 2)
        told = report(seed, now)
        found += [told.feature(name).outcome is Outcome.FAIL for name in kinds]
    assert np.mean(found) >= 0.8


def test_days_that_are_hotter_or_one_hour_that_is_wilder_than_ever_stay_what_they_were() -> None:
    for seed in BEYOND:
        now = window(seed)
        day = now["at"] // DAY - FIRST - TRAINED
        before = rows(seed)[: TRAINED * ROWS]
        hottest = before["season"].max() - np.percentile(now["season"][day == 3], 90)
        hot = now.assign(season=np.where(day.isin((3, 4)), now["season"] + hottest, now["season"]).round(2))
        hour = (day == 2) & (now["at"] % DAY // 3600 == 15)
        wild = now.assign(wander=np.where(hour, before["wander"].max() + 5, now["wander"]).round(2))

        assert ("season" in beyond(report(seed, hot)), "wander" in beyond(report(seed, wild))) == (False, False)
