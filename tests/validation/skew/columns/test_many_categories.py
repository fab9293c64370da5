"""Columns of very many ids: ids of another kind are found, though no single one weighs anything."""

from __future__ import annotations

import functools

import duckdb
import numpy as np
import pandas as pd
import pytest
from tests.validation.skew.causes import like

from tidegate_serving.admission import Outcome
from tidegate_validation.skew import Columns, SkewReport
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.statistics.bins import CategoryBins
from tidegate_validation.statistics.sql import hash_of
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="at")
ROWS = 3000
IDS = 40_000


def calls(seed: int, days: int, first_day: int) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    n = days * ROWS
    return pd.DataFrame(
        {
            "customer": [f"Cust-{one * 7919 % 1_000_003:07d}" for one in random.integers(0, IDS, n)],
            "at": (first_day + np.repeat(np.arange(days), ROWS)) * 86_400 + np.tile(np.arange(ROWS) * 20, days),
        }
    )


@functools.cache
def training() -> Profile:
    rows = calls(1, 40, 19_600)
    return profile_table(as_table(rows, "training"), COLUMNS, [str(name) for name in rows])


def report(ids: pd.Series[str] | None = None) -> SkewReport:
    rows = calls(2, 7, 19_640)
    return report_on_table(training(), as_table(rows if ids is None else rows.assign(customer=ids), "week"), COLUMNS)


def test_more_ids_than_can_be_listed_are_as_in_training() -> None:
    found = report().feature("customer")
    assert found.outcome is Outcome.PASS, found.sentence


def test_ids_of_another_catalogue_are_new() -> None:
    ids = calls(2, 7, 19_640)["customer"]
    found = report(ids.str[:5] + ids.str[:4:-1]).feature("customer")
    assert found.outcome is Outcome.FAIL
    assert found.cause == like({"kind": "new category"})
    assert (found.cause or {})["share"] == pytest.approx(1.0, abs=0.1)


def test_a_third_of_ids_that_training_never_held_is_found() -> None:
    ids = calls(2, 7, 19_640)["customer"]
    found = report(ids.where(np.arange(len(ids)) % 3 > 0, "Guest" + ids.str[4:])).feature("customer")
    assert found.outcome is Outcome.FAIL
    assert (found.cause or {})["share"] == pytest.approx(1 / 3, abs=0.07)


def test_ids_in_another_letter_case_are_told_as_that() -> None:
    found = report(calls(2, 7, 19_640)["customer"].str.upper()).feature("customer")
    assert found.outcome is Outcome.FAIL
    assert found.cause == like({"kind": "written another way", "change": "letter case"})


def test_sql_and_python_look_at_the_same_part_of_the_categories() -> None:
    bins, names = CategoryBins((), (), False, 4), [f"Köln {one}" for one in range(100)]
    with duckdb.connect() as connection:
        found = connection.execute(f"SELECT v FROM unnest(?) AS t(v) WHERE {hash_of('v')} % 4 = 0", [names]).fetchall()
    assert [name for (name,) in found] == [name for name in names if bins.tells(name)]
    assert 10 < len(found) < 40
