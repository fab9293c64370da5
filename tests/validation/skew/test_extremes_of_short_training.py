"""Rows beyond training's range in columns whose extremes move away from their day's middle by themselves, as rising
prices and the fullest of many meters do, and in columns whose days differ by factors.
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
TRAINED, WINDOW, ROWS = 30, 14, 100
SEEDS = range(8)
SHARE = 0.03


def days_alike(random: np.random.Generator, spread: float) -> npt.NDArray[np.float64]:
    """A level for each day that resembles the one before a little."""
    steps = random.normal(0, spread, TRAINED + WINDOW)
    return np.asarray(0.8 * steps + 0.6 * np.roll(steps, 1))


@functools.cache
def rows(seed: int) -> pd.DataFrame:
    random = np.random.default_rng([seed, 30])
    day = np.repeat(np.arange(TRAINED + WINDOW), ROWS)
    number = len(day)
    meter = random.integers(0, 200, number)
    found = {
        "prices": random.choice(np.round(np.exp(random.normal(2, 1, 60)), 2), number) * 1.0008**day,
        "meters": random.uniform(0, 800, 200)[meter]
        + random.gamma(3, 3, 200)[meter] * (day + random.uniform(size=number)),
        "storms": np.exp(days_alike(random, 0.8))[day] * random.gamma(2, 3, number) + 0.1,
        "sums": (1 + random.pareto(2.5, number)) * np.exp(days_alike(random, 0.2))[day],
    }
    at = (FIRST + day) * DAY + np.sort(random.uniform(0, DAY, (TRAINED + WINDOW, ROWS)), axis=1).ravel().astype(
        np.int64
    )
    return pd.DataFrame({"at": at, **{name: np.round(values, 2) for name, values in found.items()}})


@functools.cache
def training(seed: int, *names: str) -> Profile:
    """The profile of all columns, or of some alone."""
    before = rows(seed)[: TRAINED * ROWS][["at", *names] if names else [*rows(seed)]]
    return profile_table(as_table(before, "training"), COLUMNS, [str(name) for name in before])


def window(seed: int, days: int) -> pd.DataFrame:
    return rows(seed)[TRAINED * ROWS : (TRAINED + days) * ROWS].reset_index(drop=True)


def report(seed: int, now: pd.DataFrame, *names: str) -> SkewReport:
    return report_on_table(training(seed, *names), as_table(now, "the window"), COLUMNS)


def found_in(name: str, side: int) -> float:
    """The share of seeds in which a fault in a few rows a little beyond training's range fails its column."""
    found = []
    for seed in SEEDS:
        random, now = np.random.default_rng(seed), window(seed, 7)[["at", name]]
        before = rows(seed)[name][: TRAINED * ROWS]
        hit = np.flatnonzero(random.random(len(now)) < SHARE)
        end, most = (before.max(), 1.5) if side > 0 else (before.min(), 0.05)
        by = random.uniform(0.3, most, len(hit)) * before.std() if side > 0 else end * random.uniform(1.1, 20, len(hit))
        now.loc[hit, name] = np.round(end + side * by, 2)
        found.append(report(seed, now, name).feature(name).outcome is Outcome.FAIL)
    return float(np.mean(found))


@pytest.mark.parametrize("days", [3, 7, 14])
def test_extremes_that_move_away_from_their_days_do_not_fail_for_it(days: int) -> None:
    failing = [
        (seed, name)
        for seed in SEEDS
        for name in ("prices", "meters", "storms", "sums")
        if report(seed, window(seed, days)).feature(name).outcome is Outcome.FAIL
    ]
    assert failing == []


def test_rows_beyond_prices_that_rise_are_found() -> None:
    assert found_in("prices", 1) >= 0.75


def test_values_below_nought_are_found_where_days_differ_by_factors() -> None:
    assert found_in("storms", -1) >= 0.75
