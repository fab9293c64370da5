"""Ids that repeat where hardly any came twice in training."""

from __future__ import annotations

import functools
from collections.abc import Callable

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
DAY, ROWS = 86_400, 150
IDS = ("user", "order", "hashed")


def rows(seed: int, first: int, days: int, rate: int = ROWS) -> pd.DataFrame:
    """Ids that hardly come twice, and some of a few thousand, which do, of days that differ by half in their rows."""
    random = np.random.default_rng(seed)
    number = random.poisson(rate * np.exp(random.normal(0, 0.5, days)))
    day = first + np.repeat(np.arange(days), number)
    n = len(day)
    return pd.DataFrame(
        {
            "at": day * DAY + random.integers(0, DAY, n),
            "user": [f"u{one:07d}" for one in random.integers(0, 10**6, n)],
            "order": 10**9 + (day - 19_000) * 10_000 + random.permutation(n) % 10_000,
            "hashed": [f"{one:016x}" for one in random.integers(0, 2**63, n)],
            "note": [f"thing {one} of {two}" for one, two in random.integers(0, 5_000, (n, 2))],
            "customer": [f"c{one}" for one in random.zipf(1.3, n) % 5_000],
            "cents": np.round(100 * random.lognormal(4, 1.2, n)).astype(np.int64),
        }
    )


@functools.cache
def training(seed: int) -> Profile:
    before = rows(seed, 19_000, 49)
    return profile_table(as_table(before, "training"), COLUMNS, [str(name) for name in before])


def told(seed: int, now: pd.DataFrame) -> list[Finding]:
    findings = report_on_table(training(seed), as_table(now, "the week"), COLUMNS).findings
    return [one for one in findings if one.outcome in (Outcome.FAIL, Outcome.WARN)]


def of_few(values: pd.Series, seed: int) -> pd.Series:
    """As if one in four ids were used for all."""
    random = np.random.default_rng(seed)
    return pd.Series(random.choice(random.choice(values.to_numpy(), len(values) // 4, replace=False), len(values)))


def some_as_the_one_before(values: pd.Series, seed: int) -> pd.Series:
    return values.mask(np.random.default_rng(seed).random(len(values)) < 0.15, values.shift(1).bfill())


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("happen", [of_few, some_as_the_one_before])
@pytest.mark.parametrize("column", IDS)
def test_ids_that_repeat_are_found(column: str, happen: Callable[[pd.Series, int], pd.Series], seed: int) -> None:
    now = rows(100 + seed, 19_049, 7)
    found = [one for one in told(seed, now.assign(**{column: happen(now[column], seed)})) if one.subject == column]

    assert found, "nothing was found"
    assert found[0].outcome is Outcome.FAIL
    assert found[0].cause == like({"kind": "repeated values"}), found[0].sentence


@pytest.mark.parametrize("seed", range(3))
def test_ids_that_repeat_on_one_day_are_a_warning(seed: int) -> None:
    now = rows(100 + seed, 19_049, 7)
    one_day = now["at"] // DAY == 19_049 + np.bincount(now["at"] // DAY - 19_049).argmax()
    few = of_few(now["user"][one_day].reset_index(drop=True), seed).to_numpy()
    now.loc[one_day, "user"] = few
    found = told(seed, now)

    assert [(one.subject, one.outcome.value) for one in found] == [("user", "WARN")]


@pytest.mark.parametrize("seed", range(3))
def test_rows_that_are_sent_again_are_told_alone(seed: int) -> None:
    now = rows(100 + seed, 19_049, 7)
    found = told(seed, pd.concat([now, now.sample(frac=0.3, random_state=seed)], ignore_index=True))

    assert [(one.subject, (one.cause or {})["kind"]) for one in found] == [("rows", "duplicated rows")]


@pytest.mark.parametrize("rate", [ROWS, ROWS // 3, 4 * ROWS])
@pytest.mark.parametrize("seed", range(4))
def test_ordinary_weeks_of_more_and_fewer_rows_say_nothing_of_ids(seed: int, rate: int) -> None:
    found = told(seed, rows(100 + seed, 19_049, 7, rate))

    assert [one.sentence for one in found if one.check == "repeated values"] == []


def sent_again_on_mondays(seed: int, first: int, days: int) -> pd.DataFrame:
    """Orders, of which one in twelve comes again on Mondays, and next to none on other days."""
    random = np.random.default_rng(seed)
    day = np.repeat(first + np.arange(days), ROWS)
    orders = pd.Series([f"o{one:08d}" for one in 7 * (np.arange(len(day)) + first * ROWS)])
    again = random.random(len(day)) < np.where(day % 7 == 4, 0.08, 0.004)
    earlier = np.maximum(np.arange(len(day)) - random.integers(1, 20, len(day)), 0)
    orders = orders.mask(again, orders.iloc[earlier].reset_index(drop=True))
    return pd.DataFrame({"at": day * DAY + random.integers(0, DAY, len(day)), "order": orders})


@functools.cache
def trained_on_mondays(seed: int) -> Profile:
    return profile_table(as_table(sent_again_on_mondays(seed, 19_000, 44), "training"), COLUMNS, ["at", "order"])


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("days", [1, 2, 7])
def test_a_day_of_the_week_on_which_ids_came_again_in_training_too_does_not_fail(days: int, seed: int) -> None:
    now = sent_again_on_mondays(100 + seed, 19_044, days)
    found = report_on_table(trained_on_mondays(seed), as_table(now, "the window"), COLUMNS).feature("order")

    assert found.outcome is not Outcome.FAIL, found.sentence


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("column", IDS)
def test_ids_that_repeat_fail_in_a_single_day_where_more_do_than_in_all_of_training(column: str, seed: int) -> None:
    now = rows(100 + seed, 19_049, 1, 2 * ROWS)
    found = [one for one in told(seed, now.assign(**{column: of_few(now[column], seed)})) if one.subject == column]

    assert [one.outcome for one in found[:1]] == [Outcome.FAIL]
    assert found[0].cause == like({"kind": "repeated values"}), found[0].sentence
