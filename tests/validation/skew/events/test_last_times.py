"""Unix seconds of what was last or first, days or years before the event, with a 0 or a -1 where that never was: they
grow with the event, and beside zeros did not seem to."""

from __future__ import annotations

import functools

import numpy as np
import pandas as pd
import pytest
from tests.validation.skew.causes import like

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew import Columns
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="at")
DAY, ROWS, FIRST, TRAINED = 86_400, 150, 19_000, 40
STAMPS = {"login": 0.0, "bought": 0, "opened_ms": 0.0, "returned": -1.0}
OTHERS = ("bytes", "balance", "area")


def rows(seed: int, first: int, days: int) -> pd.DataFrame:
    """Such stamps, and amounts of that size of which some are none."""
    random = np.random.default_rng(seed)
    n = days * ROWS
    at = (FIRST + first + np.repeat(np.arange(days), ROWS)) * DAY + random.integers(0, DAY, n)

    def or_none(values: np.ndarray, share: float, none: float) -> np.ndarray:
        return np.where(random.random(n) < share, none, values)

    return pd.DataFrame(
        {
            "at": at,
            "login": or_none(at - random.exponential(6 * 3600, n), 0.03, 0.0),
            "bought": or_none(at - random.integers(0, 20 * DAY, n), 0.1, 0).astype(np.int64),
            "opened_ms": or_none((at - random.gamma(1, 100 * DAY, n)) * 1000, 0.02, 0.0),
            "returned": or_none(at - random.lognormal(0, 0.6, n) * DAY, 0.4, -1.0),
            "bytes": or_none(random.lognormal(21, 0.3, n), 0.2, 0.0),
            "balance": or_none(random.normal(1.6e9, 5e7, n), 0.1, 0.0),
            "area": or_none(random.uniform(6e8, 1.6e9, n), 0.1, -1.0),
        }
    )


@functools.cache
def training(seed: int) -> Profile:
    before = rows(seed, 0, TRAINED)
    return profile_table(as_table(before, "training"), COLUMNS, [str(name) for name in before])


def told(seed: int, now: pd.DataFrame, column: str) -> Finding:
    return report_on_table(training(seed), as_table(now, "the week"), COLUMNS).feature(column)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("days", [1, 7])
@pytest.mark.parametrize("column", [*STAMPS, *OTHERS])
def test_ordinary_days_do_not_fail(column: str, days: int, seed: int) -> None:
    found = told(seed, rows(100 + seed, TRAINED, days), column)

    assert found.outcome is not Outcome.FAIL, found.sentence


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("column", STAMPS)
def test_more_that_never_were_and_another_unit_are_found(column: str, seed: int) -> None:
    now = rows(100 + seed, TRAINED, 7)
    lost = np.random.default_rng(seed).random(len(now)) < 0.25
    never = told(seed, now.assign(**{column: now[column].mask(lost, STAMPS[column])}), column)
    factor = 0.001 if column == "opened_ms" else 1000
    other = told(seed, now.assign(**{column: now[column].mask(now[column] > 0, now[column] * factor)}), column)

    assert never.outcome is Outcome.FAIL, never.sentence
    assert never.cause == like({"kind": "missing values"})
    assert other.outcome is Outcome.FAIL, other.sentence


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("column", STAMPS)
def test_stamps_that_stand_still_are_found(column: str, seed: int) -> None:
    """As where the table of logins was no longer written for forty days."""
    now = rows(100 + seed, TRAINED, 7)
    unit = 1000 if column == "opened_ms" else 1
    old = now[column].mask(now[column] > 0, now[column] - 40 * DAY * unit)
    found = told(seed, now.assign(**{column: old}), column)

    assert found.outcome is Outcome.FAIL, found.sentence


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("column", OTHERS)
def test_amounts_that_are_smaller_are_found(column: str, seed: int) -> None:
    now = rows(100 + seed, TRAINED, 7)
    found = told(seed, now.assign(**{column: now[column].mask(now[column] > 0, now[column] * 0.7)}), column)

    assert found.outcome is Outcome.FAIL, found.sentence
