"""Ids that are cut off are told as that, and not as ids that repeat; those that grow longer are none."""

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
DAY, ROWS, TRAINED = 86_400, 150, 49
COLUMNS_OF_IDS = ("hashed", "order", "session", "basket")


def rows(seed: int, first: int, days: int) -> pd.DataFrame:
    """Ids that hardly come twice: random ones, padded ones that count up, with a place before them, of any length."""
    random = np.random.default_rng([seed, first])
    day = np.repeat(first + np.arange(days), random.poisson(ROWS, days))
    n = len(day)
    count = (first - 19_000) * (ROWS + 2) + np.arange(n)
    return pd.DataFrame(
        {
            "at": day * DAY + random.integers(0, DAY, n),
            "hashed": [f"{one:016x}" for one in random.integers(0, 2**63, n)],
            "order": [f"O{one:09d}" for one in 40_000 + 7 * count],
            "session": [f"eu-{one}" for one in random.integers(10**6, 10**9, n)],
            "basket": [f"b{one}" for one in 9_000 + count],
        }
    )


@functools.cache
def training(seed: int) -> Profile:
    before = rows(seed, 19_000, TRAINED)
    return profile_table(as_table(before, "training"), COLUMNS, [str(name) for name in before])


def told(seed: int, now: pd.DataFrame) -> list[Finding]:
    findings = report_on_table(training(seed), as_table(now, "the week"), COLUMNS).findings
    return [one for one in findings if one.outcome in (Outcome.FAIL, Outcome.WARN)]


def cut(length: int) -> Callable[[pd.Series], pd.Series]:
    return lambda ids: ids.str[:length]


def cut_in_some(length: int) -> Callable[[pd.Series], pd.Series]:
    return lambda ids: ids.where(np.random.default_rng(1).random(len(ids)) > 0.08, ids.str[:length])


def without_their_end(ids: pd.Series) -> pd.Series:
    return ids.str[:-4]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(
    ("column", "happen"),
    [
        ("hashed", cut(8)),
        ("hashed", cut(2)),
        ("hashed", cut_in_some(10)),
        ("order", cut(6)),
        ("order", cut_in_some(5)),
        ("session", cut(5)),
        ("session", without_their_end),
        ("basket", cut(3)),
    ],
)
def test_ids_that_are_cut_off_are_told_as_that(
    column: str, happen: Callable[[pd.Series], pd.Series], seed: int
) -> None:
    now = rows(seed, 19_000 + TRAINED, 7)
    found = told(seed, now.assign(**{column: happen(now[column])}))

    assert [(one.subject, one.outcome) for one in found] == [(column, Outcome.FAIL)], found
    assert found[0].cause == like({"kind": "written another way", "change": "cut off"}), found[0].sentence


@pytest.mark.parametrize("seed", range(8))
@pytest.mark.parametrize("days", [1, 7])
def test_ids_that_go_on_say_nothing(days: int, seed: int) -> None:
    found = told(seed, rows(seed, 19_000 + TRAINED, days))

    assert [one.sentence for one in found] == []


def invoices(start: int, days: int, seed: int) -> pd.DataFrame:
    """Numbers of invoices that begin anew with each year, or each month."""
    random = np.random.default_rng([seed, start])
    day = np.repeat(start + np.arange(days), random.poisson(ROWS, days))
    at = day * DAY + np.sort(random.integers(0, DAY // 2, len(day)))
    date = pd.Series(pd.to_datetime(at, unit="s"))
    names = {}
    for name, form, begun in (("yearly", "INV-%Y-", 20_000), ("monthly", "%Y/%m/r", 3_000)):
        head = date.dt.strftime(form)
        count = head.groupby(head).cumcount() + np.where(head == head.iloc[0], begun, 0)
        names[name] = head + count.astype(str)
    return pd.DataFrame({"at": at, **names})


def of_invoices(happen: Callable[[pd.Series], pd.Series], column: str, seed: int, days: int) -> list[Finding]:
    new_year = 20_089
    table = invoices(new_year - 28, 28 + days, seed)
    late = table["at"] >= new_year * DAY
    before, now = table[~late], table[late].reset_index(drop=True)
    profile = profile_table(as_table(before, "training"), COLUMNS, [str(name) for name in before])
    found = report_on_table(
        profile, as_table(now.assign(**{column: happen(now[column])}), "the week"), COLUMNS
    ).findings
    return [one for one in found if one.subject == column and one.outcome in (Outcome.FAIL, Outcome.WARN)]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("days", [1, 7])
@pytest.mark.parametrize("column", ["yearly", "monthly"])
def test_numbers_that_begin_anew_with_a_year_or_month_say_nothing(column: str, days: int, seed: int) -> None:
    assert [one.sentence for one in of_invoices(lambda ids: ids, column, seed, days)] == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("column", ["yearly", "monthly"])
def test_numbers_that_begin_anew_and_are_cut_off_are_told_as_that(column: str, seed: int) -> None:
    found = of_invoices(cut(5), column, seed, 7)

    assert found[0].cause == like({"kind": "written another way", "change": "cut off"}), found[0].sentence
