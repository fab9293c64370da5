"""Ids of one part that are missing, told by what ids end with, and large ids that went through 64-bit floats."""

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
DAY, ROWS, TRAINED = 86_400, 200, 42
IDS = ("order", "number", "hashed", "session", "customer", "cents", "even")


def rows(seed: int, first: int, days: int) -> pd.DataFrame:
    """Ids that count up, in texts and as numbers, some of them even alone, random ones, and large ones of customers."""
    random = np.random.default_rng([seed, first])
    day = np.repeat(first + np.arange(days), random.poisson(ROWS, days))
    n = len(day)
    count = (first - 19_000) * (ROWS + 2) + np.arange(n)
    return pd.DataFrame(
        {
            "at": day * DAY + random.integers(0, DAY, n),
            "order": [f"O{one:09d}" for one in 40_000 + 7 * count],
            "number": 5_000_000 + 3 * count,
            "even": 5_000_000 + 30 * count,
            "hashed": [f"{one:016x}" for one in random.integers(0, 2**63, n)],
            "session": [f"{one}-2026-{'04' if first == 19_000 else '05'}" for one in random.integers(10**7, 10**9, n)],
            "customer": 4 * 10**18 + random.integers(0, 4_000, n) * 987_654_321_987 + 1,
            "cents": np.round(100 * random.lognormal(9, 1.5, n)).astype(np.int64),
        }
    )


@functools.cache
def training(seed: int) -> Profile:
    before = rows(seed, 19_000, TRAINED)
    return profile_table(as_table(before, "training"), COLUMNS, [str(name) for name in before])


def told(seed: int, now: pd.DataFrame) -> list[Finding]:
    findings = report_on_table(training(seed), as_table(now, "the week"), COLUMNS).findings
    return [one for one in findings if one.outcome in (Outcome.FAIL, Outcome.WARN)]


def without_end(column: str, end: str) -> Callable[[pd.DataFrame], pd.DataFrame]:
    return lambda now: now[~now[column].astype(str).str.endswith(end)].reset_index(drop=True)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("column", "end"), [("order", "5"), ("number", "0"), ("hashed", "f"), ("customer", "3")])
def test_ids_of_one_part_that_are_missing_fail(column: str, end: str, seed: int) -> None:
    found = told(seed, without_end(column, end)(rows(seed, 19_000 + TRAINED, 7)))

    assert (column, Outcome.FAIL) in [(one.subject, one.outcome) for one in found], found
    mine = next(one for one in found if one.subject == column)
    assert mine.cause == like({"kind": "missing ids", "values": [end]}), mine.sentence


def is_odd(now: pd.DataFrame) -> pd.Series:
    return now["number"] % 2 == 1


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("days", [5, 7])
def test_half_of_the_ids_that_are_missing_fail_and_ids_that_the_other_half_has_now_warn(days: int, seed: int) -> None:
    """Two writers give out odd and even ids: one is out, and its rows are missing, or the other one took them."""
    now = rows(seed, 19_000 + TRAINED, days)
    missing = [one for one in told(seed, now[~is_odd(now)].reset_index(drop=True)) if one.subject == "number"]
    assert [one.outcome for one in missing] == [Outcome.FAIL]
    assert missing[0].cause == like({"kind": "missing ids"}), missing[0].sentence

    taken = [one for one in told(seed, now.assign(number=now["number"] // 2 * 2)) if one.subject == "number"]
    assert [one.outcome for one in taken] == [Outcome.WARN]
    assert "as many rows" in taken[0].sentence


@pytest.mark.parametrize("seed", range(4))
def test_large_ids_that_went_through_floats_fail(seed: int) -> None:
    now = rows(seed, 19_000 + TRAINED, 7)
    found = told(seed, now.assign(customer=now["customer"].astype(np.float64).astype(np.int64)))

    assert [(one.subject, one.outcome) for one in found] == [("customer", Outcome.FAIL)], found
    assert found[0].cause == like({"kind": "64-bit floats"}), found[0].sentence


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("days", [1, 3, 7])
def test_ids_that_go_on_say_nothing(days: int, seed: int) -> None:
    found = told(seed, rows(seed, 19_000 + TRAINED, days))

    assert [one.sentence for one in found if one.subject in IDS] == []
