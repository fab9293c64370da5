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


CODES = ("site", "status", "weekday", "shift", "till", "version")


def coded(seed: int, days: int) -> pd.DataFrame:
    """Ids that end with a code: a site that has closed, a status, a weekday, a shift, one of ten tills of unlike sizes,
    or a version that another one follows."""
    random = np.random.default_rng([seed, 5])
    day = np.repeat(np.arange(days + 7), random.poisson(ROWS, days + 7))
    n, later = len(day), day >= days
    count = 10_000 + np.arange(n)
    second = random.integers(0, DAY, n)
    drift = np.exp(np.cumsum(random.normal(0, 0.1, days + 7)))[day]
    site = np.where(later, random.choice(list("AB"), n), random.choice(list("ABC"), n, p=[0.5, 0.4, 0.1]))
    status = np.where(random.random(n) < np.where(later, 0.0, 0.1 * drift).clip(0, 0.3), "Z", "N")
    till = random.choice(10, n, p=np.array([9, 8, 7, 6, 5, 4, 4, 3, 2, 2]) / 50)
    till = np.where(later & (till == 4), 3, till)
    ends = {
        "site": site,
        "status": status,
        "weekday": (day % 7 + 1).astype(str),
        "shift": np.array(list("fsn"))[second * 3 // DAY],
        "till": till.astype(str),
        "version": np.where(later, "3", random.choice(["1", "2"], n)),
    }
    codes = {name: np.char.add(np.char.add(count.astype(str), "-"), end) for name, end in ends.items()}
    return pd.DataFrame({"at": (19_000 + day) * DAY + second, "late": later, **codes})


def of_codes(seed: int, columns: Columns, days: int, shuffled: bool) -> list[Finding]:
    table = coded(seed, TRAINED)
    kept = ["at", *CODES] if columns.time else [*CODES]
    before = table.loc[~table["late"], kept]
    now = table.loc[table["late"] & (table["at"] < (19_000 + TRAINED + days) * DAY), kept]
    if shuffled:
        before, now = (part.sample(frac=1, random_state=seed).reset_index(drop=True) for part in (before, now))
    profile = profile_table(as_table(before, "training"), columns, [*before.columns])
    findings = report_on_table(profile, as_table(now, "the week"), columns).findings
    return [one for one in findings if "ends with" in one.sentence]


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize("days", [1, 3, 7])
@pytest.mark.parametrize(
    ("columns", "shuffled"),
    [(COLUMNS, False), (Columns(), False), (Columns(), True)],
    ids=["time", "order", "shuffled"],
)
def test_codes_that_ids_end_with_are_no_parts_of_the_data(
    columns: Columns, shuffled: bool, days: int, seed: int
) -> None:
    assert [one.sentence for one in of_codes(seed, columns, days, shuffled)] == []


@pytest.mark.parametrize("seed", range(4))
@pytest.mark.parametrize(("column", "end"), [("order", "5"), ("hashed", "f")])
def test_ids_of_one_part_that_are_missing_fail_without_times(column: str, end: str, seed: int) -> None:
    before, now = rows(seed, 19_000, TRAINED)[[column]], rows(seed, 19_000 + TRAINED, 7)[[column]]
    before, now = (part.sample(frac=1, random_state=seed).reset_index(drop=True) for part in (before, now))
    profile = profile_table(as_table(before, "training"), Columns(), [column])
    findings = report_on_table(profile, as_table(without_end(column, end)(now), "the week"), Columns()).findings

    assert [one.cause for one in findings if "ends with" in one.sentence] == [like({"kind": "missing ids"})]


@pytest.mark.parametrize("seed", range(6))
def test_half_of_the_digits_that_are_gone_warn_where_no_times_tell_how_many_rows_were_to_come(seed: int) -> None:
    """They may be days' last digits, or another writer's."""
    before, now = rows(seed, 19_000, TRAINED)[["order"]], rows(seed, 19_000 + TRAINED, 7)[["order"]]
    now = now[now["order"].str[-1].isin([*"02468"])].reset_index(drop=True)
    profile = profile_table(as_table(before, "training"), Columns(), ["order"])
    findings = report_on_table(profile, as_table(now, "the week"), Columns()).findings

    assert [one.outcome for one in findings if "ends with" in one.sentence] == [Outcome.WARN]
