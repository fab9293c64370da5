"""Dates that run with the event, of which some rows have a default instead, in training as now: it does not run with
the event, and every day lies further from it or nearer to it than any day of training did."""

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
ROWS, TRAINED = 150, 30
DEFAULTS = ("1900-01-01", "1970-01-01", "2999-12-31", "9999-12-31")


def rows(seed: int, first: int, days: int, share: float = 0.03) -> pd.DataFrame:
    """Days of a delivery before the event, by the default of those that are none; as texts, and one as dates."""
    random = np.random.default_rng(seed)
    n = days * ROWS
    day = pd.Timestamp("2026-03-01") + pd.to_timedelta(first + np.repeat(np.arange(days), ROWS), unit="D")
    came = pd.Series((day - pd.to_timedelta(random.integers(1, 9, n), unit="D")).strftime("%Y-%m-%d"))
    found = {default: came.mask(random.random(n) < share, default) for default in DEFAULTS}
    as_dates = pd.to_datetime(found["1970-01-01"]).dt.date
    at = day + pd.to_timedelta(random.integers(0, 86_400, n), unit="s")
    return pd.DataFrame({"at": at, **found, "as dates": as_dates})


@functools.cache
def training(seed: int) -> Profile:
    before = rows(seed, 0, TRAINED)
    return profile_table(as_table(before, "training"), COLUMNS, [str(name) for name in before])


def told(seed: int, now: pd.DataFrame, column: str) -> list[Finding]:
    findings = report_on_table(training(seed), as_table(now, "the week"), COLUMNS).findings
    return [one for one in findings if one.subject == column and one.outcome in (Outcome.FAIL, Outcome.WARN)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("days", [1, 3, 7])
@pytest.mark.parametrize("column", [*DEFAULTS, "as dates"])
def test_defaults_that_training_had_pass(column: str, days: int, seed: int) -> None:
    found = told(seed, rows(100 + seed, TRAINED, days), column)

    assert [one.sentence for one in found if one.outcome is Outcome.FAIL or one.cause] == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("column", DEFAULTS)
def test_another_default_beside_it_is_told_as_a_date(column: str, seed: int) -> None:
    now = rows(100 + seed, TRAINED, 7)
    other = now[column].mask(np.random.default_rng(seed).random(len(now)) < 0.08, "1899-12-30")
    found = told(seed, now.assign(**{column: other}), column)

    assert found, "nothing was found"
    assert found[0].outcome is Outcome.FAIL
    assert found[0].cause == like({"kind": "new value", "value": "1899-12-30 00:00"}), found[0].sentence


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("column", DEFAULTS)
def test_five_times_as_many_defaults_are_found(column: str, seed: int) -> None:
    found = told(seed, rows(100 + seed, TRAINED, 7, 0.15), column)

    assert [one.outcome for one in found[:1]] == [Outcome.FAIL]
    assert found[0].cause == like({"kind": "default value", "value": f"{column} 00:00"}), found[0].sentence


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("column", DEFAULTS)
def test_a_day_off_is_found_beside_defaults(column: str, seed: int) -> None:
    now = rows(100 + seed, TRAINED, 7)
    later = (pd.to_datetime(now[column].mask(now[column] == column)) + pd.Timedelta(days=1)).dt.strftime("%Y-%m-%d")
    found = told(seed, now.assign(**{column: later.fillna(column)}), column)

    assert [one.outcome for one in found[:1]] == [Outcome.FAIL]
