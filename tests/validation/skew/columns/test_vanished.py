"""Categories that training had every week, and that a window lacks altogether, however much days differ."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew import Columns, report_on_tables
from tidegate_validation.skew.columns.vanished import vanished
from tidegate_validation.skew.diagnosis.cause import Cause
from tidegate_validation.skew.finding import explain
from tidegate_validation.statistics.bins import CategoryBins
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile, Role
from tidegate_validation.statistics.sql import Family

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

    found = told(rows, week[week["shift"] != "night"], "shift")

    assert found.outcome is Outcome.FAIL
    assert found.cause is not None
    assert (found.cause["kind"], found.cause["values"]) == ("missing categories", ["night"])


def test_a_group_that_is_gone_is_told_and_customers_who_always_come_and_go_are_not() -> None:
    rows = calls(3)
    week = rows[TRAINING * ROWS :]
    there = week[~week["agent"].isin(["3", "8"])]

    found = told(rows, there, "agent")

    assert (found.outcome, {*(found.cause or {})["values"]}) == (Outcome.FAIL, {"3", "8"})
    assert (told(rows, week, "customer").cause or {}).get("kind") != "missing categories"
    assert told(rows, week, "shift").outcome is not Outcome.FAIL


def judged(n: np.ndarray, stray: tuple[int, ...] = (), days: np.ndarray | None = None) -> tuple[Outcome, int] | None:
    """How sure it is that categories are `gone`, and of how many."""
    found = gone(n, stray, days)
    return None if found is None else (found[1], dict(found[0].details)["number"])


def gone(n: np.ndarray, stray: tuple[int, ...] = (), days: np.ndarray | None = None) -> tuple[Cause, Outcome] | None:
    """What is said of the last week of rows per day and category, with a row of the first one on each `stray` day."""
    days = np.arange(len(n)) if days is None else days
    bins = CategoryBins(tuple(map(str, range(n.shape[1]))))
    feature = FeatureProfile("c", "VARCHAR", Family.TEXT, Role.INPUT, int(n.sum()), 0, 0, bins)
    blocks = 19_500 + np.repeat(days, n.shape[1])
    codes = np.tile(np.arange(n.shape[1]), len(n))
    late = blocks >= 19_500 + days.max() - 6
    reference, now = (FeatureCounts.from_rows(blocks[one], codes[one], n.ravel()[one]) for one in (~late, late))
    zeros = np.zeros(len(stray), dtype=np.int64)
    now = now.merged(FeatureCounts.from_rows(np.array(stray, dtype=np.int64), zeros, zeros + 1))
    return vanished(feature, reference, now, 0.01)


def shares(weeks: int, share: float = 0.1) -> np.ndarray:
    """Rows per day in weeks of which the last lacks the second of two categories."""
    of_it = np.random.default_rng(weeks).poisson(300 * share, 7 * weeks)
    of_it[-7:] = 0
    return np.stack([300 - of_it, of_it], axis=1)


def test_what_comes_on_one_weekday_is_not_missed_where_that_day_has_no_rows() -> None:
    n = np.tile(np.eye(7, dtype=np.int64) * 250, (10, 1))
    n[-5] = 0

    assert judged(n) is None


@pytest.mark.parametrize("days", [[4], [1, 5]])
def test_uploads_of_a_few_days_may_come_a_day_late(days: list[int]) -> None:
    n = np.tile([250, 0], (70, 1))
    for day in days:
        n[day:63:7, 1] = 400

    assert judged(n) is None


def test_training_of_few_weeks_warns_however_long_it_lasts() -> None:
    assert judged(shares(10)) == (Outcome.FAIL, 1)
    assert judged(shares(4)) == (Outcome.WARN, 1)
    apart = np.concatenate([7 * 25 * week + np.arange(7) for week in range(4)])
    assert judged(shares(4), days=apart) == (Outcome.WARN, 1)


@pytest.mark.parametrize("stray", [(0,), (3,), (19_620,)])
def test_a_row_without_a_time_or_of_another_month_hides_no_missing_category(stray: tuple[int, ...]) -> None:
    assert judged(shares(10), stray) == (Outcome.FAIL, 1)


def test_a_single_row_of_hundreds_is_next_to_none() -> None:
    n = shares(10)
    n[-3, 1] = 1

    assert judged(n) == (Outcome.FAIL, 1)


@pytest.mark.parametrize(
    ("quiet", "outcome", "days"),
    [(slice(-6, -2), Outcome.WARN, 4), (slice(-4, -3), Outcome.FAIL, None), (slice(-7, None), Outcome.FAIL, None)],
    ids=["holidays", "one quiet day", "a part of the log"],
)
def test_what_does_not_come_over_holidays_is_a_warning_unless_usual_days_lack_it_too(
    quiet: slice, outcome: Outcome, days: int | None
) -> None:
    n = shares(10)
    n[quiet, 0] = 160

    found = gone(n)

    assert found is not None
    assert (found[1], dict(found[0].details).get("quiet")) == (outcome, days)
    assert ("(holidays?)" in explain(found[0])) == (days is not None)


def test_a_day_that_training_never_had_is_no_quiet_one() -> None:
    n = shares(10)
    n[3:-7:7] = 0

    assert judged(n) == (Outcome.FAIL, 1)
