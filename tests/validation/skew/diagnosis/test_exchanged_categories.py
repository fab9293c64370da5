"""Two categories whose codes were exchanged, and categories of which some grew and others shrank."""

from __future__ import annotations

import functools
from collections.abc import Sequence

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
DAY, TRAINED = 86_400, 42
KINDS = np.array(["food", "books", "toys", "tools", "music", "shoes"])
SHARES = np.array([0.34, 0.24, 0.16, 0.12, 0.08, 0.06])


def rows(seed: int, first: int, days: int, shares: Sequence[float] = tuple(SHARES)) -> pd.DataFrame:
    """Orders with a kind, and a fee that the kind decides in part."""
    random = np.random.default_rng([seed, first])
    day = np.repeat(first + np.arange(days), 250)
    n = len(day)
    mood = np.exp(random.normal(0, 0.1, (days, len(KINDS)))) * np.array(shares)
    chosen = (random.random(n)[:, None] > (mood / mood.sum(axis=1, keepdims=True)).cumsum(axis=1)[day - first]).sum(
        axis=1
    )
    kind = KINDS[np.minimum(chosen, len(KINDS) - 1)]
    fee = np.round(np.where(kind == "food", 0.02, 0.06) + 0.02 * random.beta(2, 2, n), 4)
    return pd.DataFrame({"at": day * DAY + random.integers(0, DAY, n), "kind": kind, "fee": fee})


@functools.cache
def training(seed: int) -> Profile:
    before = rows(seed, 19_000, TRAINED)
    return profile_table(as_table(before, "training"), COLUMNS, [*before.columns])


def told(seed: int, now: pd.DataFrame) -> list[Finding]:
    findings = report_on_table(training(seed), as_table(now, "the week"), COLUMNS).findings
    return [one for one in findings if one.outcome in (Outcome.FAIL, Outcome.WARN)]


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("two", [("food", "books"), ("books", "tools"), ("food", "shoes")])
def test_two_categories_that_were_exchanged_are_named(two: tuple[str, str], seed: int) -> None:
    now = rows(seed, 19_000 + TRAINED, 7)
    found = told(seed, now.assign(kind=now["kind"].replace({two[0]: two[1], two[1]: two[0]})))

    assert found, "nothing was found"
    assert (found[0].subject, found[0].outcome) == ("kind", Outcome.FAIL)
    assert found[0].cause == like({"kind": "exchanged categories", "values": [*two]}), found[0].sentence


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize(
    "shares",
    [
        pytest.param((0.14, 0.44, 0.16, 0.12, 0.08, 0.06), id="one grew at the cost of another"),
        pytest.param((0.24, 0.22, 0.2, 0.14, 0.1, 0.1), id="all nearer to each other"),
        pytest.param((0.24, 0.16, 0.34, 0.12, 0.08, 0.06), id="three turned"),
    ],
)
def test_categories_that_moved_otherwise_are_not(shares: Sequence[float], seed: int) -> None:
    found = told(seed, rows(seed, 19_000 + TRAINED, 7, shares))

    assert [one.sentence for one in found if (one.cause or {}).get("kind") == "exchanged categories"] == []


@pytest.mark.parametrize("seed", range(8))
def test_a_week_as_it_is_says_nothing(seed: int) -> None:
    assert [one.sentence for one in told(seed, rows(seed, 19_000 + TRAINED, 7))] == []
