"""Signs that are lost: found in a minority of few rows, and not taken for lost where days' levels wander over zero."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from tests.validation.skew.causes import like

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew import Columns, report_on_tables

DAYS = 60
FIRST = 19_000
TIME = Columns(time="at")


def balances(
    seed: int, first_day: int, days: int, rows: int = 15, level: float = 1.0, wander: float = 0.0
) -> pd.DataFrame:
    """So many rows a day of balances, of which about one in six is below zero; each day's level `wander`s."""
    random = np.random.default_rng(seed)
    day = np.repeat(np.arange(days), rows)
    values = random.normal(level, 1, len(day)) + wander * random.normal(0, 1, days)[day]
    at = pd.to_datetime((first_day + day) * 86_400 + np.tile(np.arange(rows) * 1000, days), unit="s")
    return pd.DataFrame({"at": at, "balance": np.round(800 * values, 2)})


def found(before: pd.DataFrame, now: pd.DataFrame) -> list[Finding]:
    return [one for one in report_on_tables(before, now, TIME).findings if one.outcome in (Outcome.FAIL, Outcome.WARN)]


@pytest.mark.parametrize("seed", [1, 2])
def test_signs_that_are_lost_in_a_week_of_few_rows_are_found(seed: int) -> None:
    before, now = balances(seed, FIRST, DAYS), balances(seed + 10, FIRST + DAYS, 7)
    assert found(before, now) == []
    now["balance"] = now["balance"].abs()
    told = found(before, now)
    below = (before["balance"] < 0).mean()
    assert [(one.check, one.outcome) for one in told] == [("sign", Outcome.FAIL)]
    assert told[0].sentence.startswith(f"`balance`: 0.0 % of the values are below zero, {100 * below:.0f}")
    assert told[0].number == pytest.approx(-below, abs=0.01)


def test_where_more_rows_say_so_it_is_named_as_the_step_that_took_them() -> None:
    before, now = balances(1, FIRST, DAYS, rows=120), balances(2, FIRST + DAYS, 7, rows=120)
    told = found(before, now.assign(balance=now["balance"].abs()))
    assert told[0].cause == like({"kind": "transformed", "how": "absolute value"})


@pytest.mark.parametrize("seed", range(3))
def test_days_whose_level_wanders_over_zero_lose_no_sign(seed: int) -> None:
    before = balances(seed, FIRST, DAYS, rows=40, level=0.0, wander=1.0)
    assert found(before, balances(seed + 20, FIRST + DAYS, 3, rows=40, level=0.0, wander=1.0)) == []
