"""Structs, lists of texts and other columns of no plain values are compared as the plain ones that they hold."""

from __future__ import annotations

import datetime
import functools

import numpy as np
import pyarrow as pa
import pytest

from tidegate_serving.admission import Outcome
from tidegate_validation.skew import Columns, SkewReport
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile

COLUMNS = Columns(time="at")
DAY = 86_400
ROWS = 100
TRAINED = 30


def visits(seed: int, days: int, first_day: int) -> pa.Table:
    random = np.random.default_rng(seed)
    n = days * ROWS
    at = (first_day + np.arange(n) // ROWS) * DAY + np.sort(random.integers(0, DAY, (days, ROWS)), axis=1).ravel()
    cities, latitudes = random.choice(["Rome", "Oslo", "Bern"], n), random.normal(50, 3, n)
    places = [{"city": city, "at": {"latitude": one}} for city, one in zip(cities, latitudes, strict=True)]
    tags = [list(random.permutation(["red", "blue"])[: random.integers(0, 3)]) for _ in range(n)]
    return pa.table(
        {
            "at": pa.array(at * 10**9).cast(pa.timestamp("ns", tz="Europe/Rome")),
            "place": pa.array(places),
            "tags": pa.array(tags, type=pa.list_(pa.string())),
            "shape": pa.array([[[float(one), 1.0], [2.0]] for one in random.normal(size=n)]),
            "kind": pa.array(random.choice(["day", "week"], n)),
            "opens": pa.array([datetime.time(int(hour)) for hour in random.integers(7, 10, n)]),
            "waited": pa.array([datetime.timedelta(seconds=int(one)) for one in random.exponential(100, n)]),
            "noted": pa.array((at + 7200) * 10**9).cast(pa.timestamp("ns", tz="UTC")),
            "extras": pa.array([[{"kind": int(one)}] for one in random.integers(0, 4, n)]),
        }
    )


@functools.cache
def training() -> Profile:
    rows = visits(1, TRAINED, 19_000)
    return profile_table(rows, COLUMNS, rows.column_names)


@functools.cache
def week() -> pa.Table:
    return visits(2, 7, 19_000 + TRAINED)


def report(column: str | None = None, values: pa.Array | None = None) -> SkewReport:
    rows = week()
    if column is not None and values is not None:
        rows = rows.set_column(rows.column_names.index(column), column, values)
    return report_on_table(training(), rows, COLUMNS)


def test_a_week_like_training_passes_in_all_that_columns_hold() -> None:
    found = report()

    assert found.outcome is Outcome.PASS, [one.sentence for one in found.findings]
    names = {"place.city", "place.at.latitude", "tags", "kind", "shape", "opens", "waited", "noted", "extras"}
    assert {one.subject: one.outcome for one in found.findings} == dict.fromkeys(names, Outcome.PASS)


def moved_places() -> pa.Array:
    return pa.array([{**one, "at": {"latitude": -one["at"]["latitude"]}} for one in week()["place"].to_pylist()])


@pytest.mark.parametrize(
    ("column", "values", "subject", "words"),
    [
        ("place", moved_places, "place.at.latitude", "-1 times those of training"),
        (
            "tags",
            lambda: pa.array([[tag.upper() for tag in one] for one in week()["tags"].to_pylist()]),
            "tags",
            "another way (letter case)",
        ),
        ("waited", lambda: pa.array([one * 60 for one in week()["waited"].to_pylist()]), "waited", "60 times those of"),
        ("place", lambda: pa.array(["Rome"] * week().num_rows), "place.city", "it is not served"),
        ("kind", lambda: pa.array([[one] for one in week()["kind"].to_pylist()]), "kind", "“week” as “[week]”"),
    ],
)
def test_what_changed_within_them_fails(column: str, values: object, subject: str, words: str) -> None:
    assert callable(values)
    found = report(column, values())

    assert found.feature(subject).outcome is Outcome.FAIL
    assert words in found.feature(subject).sentence
