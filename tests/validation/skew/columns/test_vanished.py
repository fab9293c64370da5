"""Categories that training had every week, and that a window lacks altogether, however much days differ."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew import Columns, report_on_tables

DAYS = 70
ROWS = 250
TRAINING = 63


def calls(seed: int) -> pd.DataFrame:
    """Shifts of which days have very different shares, and none works by night on Sundays; agents who
    work as much as they like on each day; customers who come and go."""
    random = np.random.default_rng(seed)
    day = np.repeat(np.arange(DAYS), ROWS)
    night = np.where(np.arange(DAYS) % 7 == 3, 0.0, 0.1 * np.exp(random.normal(0, 0.4, DAYS)))
    early = np.clip(0.5 + random.normal(0, 0.2, DAYS), 0.1, 0.8) * (1 - night)
    draw = random.random(len(day))
    shift = np.where(draw < night[day], "night", np.where(draw < (night + early)[day], "early", "late"))
    work = np.exp(random.normal(0, 1, (DAYS, 20))).cumsum(axis=1)
    agent = (random.random(len(day))[:, None] * work[day, -1:] > work[day]).sum(axis=1).astype(str)
    customer = (day // 9 + random.integers(0, 12, len(day))).astype(str)
    return pd.DataFrame({"at": (19_500 + day) * 86_400, "shift": shift, "agent": agent, "customer": customer})


def told(rows: pd.DataFrame, now: pd.DataFrame, column: str) -> Finding:
    return report_on_tables(rows[: TRAINING * ROWS], now, Columns(time="at")).feature(column)


@pytest.mark.parametrize("seed", range(3))
def test_a_category_of_a_tenth_of_the_rows_that_is_gone_is_named(seed: int) -> None:
    rows = calls(seed)
    week = rows[TRAINING * ROWS :]

    gone = told(rows, week[week["shift"] != "night"], "shift")

    assert gone.outcome is Outcome.FAIL
    assert gone.cause is not None
    assert (gone.cause["kind"], gone.cause["values"]) == ("missing categories", ["night"])


def test_a_group_that_is_gone_is_told_and_customers_who_always_come_and_go_are_not() -> None:
    rows = calls(3)
    week = rows[TRAINING * ROWS :]
    there = week[~week["agent"].isin(["3", "8"])]

    gone = told(rows, there, "agent")

    assert (gone.outcome, {*(gone.cause or {})["values"]}) == (Outcome.FAIL, {"3", "8"})
    assert (told(rows, week, "customer").cause or {}).get("kind") != "missing categories"
    assert told(rows, week, "shift").outcome is not Outcome.FAIL
