"""Texts such as “NaN” that a producer writes in place of missing values: one finding, named so."""

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
DAY, ROWS = 86_400, 150


def rows(seed: int, first: int, days: int) -> pd.DataFrame:
    """Cities and codes of which some are missing, on some days more than on others, and grades that never are."""
    random = np.random.default_rng(seed)
    n = days * ROWS
    wander = np.repeat(random.normal(0, 0.3, days), ROWS)
    table = pd.DataFrame(
        {
            "at": (first + np.repeat(np.arange(days), ROWS)) * DAY + random.integers(0, DAY, n),
            "city": random.choice(["Berlin", "Paris", "Rome", "Nancy"], n, p=[0.4, 0.3, 0.2, 0.1]),
            "code": [f"{one:05d}" for one in random.integers(0, 20_000, n)],
            "grade": random.choice(["a", "b", "NA"], n, p=[0.5, 0.3, 0.2]),
        }
    )
    for name, share in (("city", 0.08), ("code", 0.05)):
        table[name] = table[name].mask(random.random(n) < share * np.exp(wander))
    return table


@functools.cache
def training(seed: int) -> Profile:
    before = rows(seed, 19_000, 49)
    return profile_table(as_table(before, "training"), COLUMNS, [str(name) for name in before])


def found(seed: int, now: pd.DataFrame, column: str) -> list[Finding]:
    findings = report_on_table(training(seed), as_table(now, "the week"), COLUMNS).findings
    return [one for one in findings if one.subject == column and one.outcome in (Outcome.FAIL, Outcome.WARN)]


def week(seed: int) -> pd.DataFrame:
    return rows(100 + seed, 19_049, 7)


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("text", ["NaN", "None", "null", "N/A"])
@pytest.mark.parametrize("column", ["city", "code"])
def test_missing_values_as_text_are_one_finding_that_says_so(column: str, text: str, seed: int) -> None:
    now = week(seed)
    (told,) = found(seed, now.assign(**{column: now[column].fillna(text)}), column)

    assert told.outcome is Outcome.FAIL
    assert told.cause == like({"kind": "missing values as text", "values": [text]}), told.sentence


@pytest.mark.parametrize("seed", range(4))
def test_a_text_for_missing_values_that_never_were_is_named_too(seed: int) -> None:
    now = week(seed)
    lost = np.random.default_rng(seed).random(len(now)) < 0.04
    (told,) = found(seed, now.assign(grade=now["grade"].mask(lost, "None")), "grade")

    assert told.cause == like({"kind": "missing values as text", "values": ["None"]}), told.sentence


@pytest.mark.parametrize("seed", range(4))
def test_other_new_categories_values_that_are_missing_and_texts_of_training_are_told_as_such(seed: int) -> None:
    now = week(seed)
    some = np.random.default_rng(seed).random(len(now)) < 0.04
    (new,) = found(seed, now.assign(city=now["city"].mask(some, "Oslo")), "city")
    (missing,) = found(seed, now.assign(grade=now["grade"].mask(some)), "grade")
    filled = found(seed, now.assign(city=now["city"].fillna("Oslo")), "city")

    assert new.cause == like({"kind": "new category", "values": ["Oslo"]}), new.sentence
    assert missing.cause == like({"kind": "missing values"}), missing.sentence
    assert {str((one.cause or {})["kind"]) for one in filled} == {"new category", "missing values"}


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("column", ["city", "code", "grade"])
def test_ordinary_weeks_do_not_fail(column: str, seed: int) -> None:
    assert found(seed, week(seed), column) == []
