"""Columns of which exactly one is 1: rows without any, or with several, in which each column looks right by itself."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.validation.skew.causes import like

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew import Columns, report_on_tables

DAY = 86_400
TIMED = Columns(time="time")
SHARES = {"red": 0.5, "green": 0.3, "blue": 0.15, "grey": 0.05}
GROUP = [f"is_{name}" for name in SHARES]


def parcels(seed: int, first: int, count: int, rows: int = 300) -> pd.DataFrame:
    """Days of rows with a one-hot group between other columns of zeros and ones."""
    random = np.random.default_rng(seed)
    n = count * rows
    colour = random.choice(list(SHARES), n, p=list(SHARES.values()))
    return pd.DataFrame(
        {
            "weight": random.gamma(2, 3, n),
            "express": random.integers(0, 2, n),
            **{f"is_{name}": (colour == name).astype(np.float64) for name in SHARES},
            "insured": (random.random(n) < 0.2).astype(np.int64),
            "time": np.repeat(np.arange(first, first + count), rows) * DAY + 3600,
        }
    )


def told(before: pd.DataFrame, now: pd.DataFrame, columns: Columns = TIMED) -> list[Finding]:
    return [one for one in report_on_tables(before, now, columns).findings if one.check == "one-hot"]


@pytest.mark.parametrize("columns", [TIMED, Columns(ignore=("time",))])
def test_rows_in_which_no_column_of_a_group_is_one_are_told(columns: Columns) -> None:
    before, now = parcels(1, 18_000, 30), parcels(2, 18_030, 7)
    assert not told(before, now, columns)
    now.loc[now.index % 20 == 0, GROUP] = 0.0
    (found,) = told(before, now, columns)
    assert (found.outcome, found.subject) == (Outcome.FAIL, "is_red")
    assert found.cause == like({"kind": "no category", "share": 0.05, "columns": GROUP})


def test_rows_in_which_several_columns_of_a_group_are_one_are_told() -> None:
    before, now = parcels(1, 18_000, 30), parcels(2, 18_030, 7)
    now.loc[now.index % 50 == 0, ["is_red", "is_green"]] = 1.0
    (found,) = told(before, now)
    assert found.outcome is Outcome.FAIL
    assert (found.cause or {})["kind"] == "several categories"


def test_a_few_rows_without_any_are_worth_a_warning() -> None:
    before, now = parcels(1, 18_000, 30), parcels(2, 18_030, 7)
    now.loc[now.index % 220 == 0, GROUP] = 0.0
    (found,) = told(before, now)
    assert found.outcome is Outcome.WARN


def test_a_group_that_training_left_without_a_one_is_none() -> None:
    before, now = parcels(1, 18_000, 30), parcels(2, 18_030, 7)
    before.loc[before.index % 100 == 0, GROUP] = 0.0
    now.loc[now.index % 20 == 0, GROUP] = 0.0
    assert not told(before, now)


def test_columns_with_missing_or_other_values_tell_that_themselves() -> None:
    before, now = parcels(1, 18_000, 30), parcels(2, 18_030, 7)
    for value in (np.nan, 2.0):
        odd = now.copy()
        odd.loc[odd.index % 20 == 0, GROUP] = value
        assert not told(before, odd)
        assert report_on_tables(before, odd, TIMED).outcome is Outcome.FAIL
