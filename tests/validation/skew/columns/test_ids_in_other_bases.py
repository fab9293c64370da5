"""Ids in letters and digits, whose first new digit is no other way to write them."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pandas as pd
import pytest

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew import Columns
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="at")
DAY, ROWS = 86_400, 150
SIGNS = "0123456789abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"


def in_base(number: int, base: int) -> str:
    signs = ""
    while number:
        number, place = divmod(number, base)
        signs = SIGNS[place] + signs
    return signs


def rows(seed: int, base: int, left: float) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Training and a week of ids that count up, of which so many are left before one needs a digit more."""
    random = np.random.default_rng(seed)
    days = np.repeat(np.arange(63), ROWS)
    n = len(days)
    first = base**5 - 56 * ROWS - int(left * 7 * ROWS)
    ids = [in_base(first + place, base) for place in range(n)]
    user = [f"u{one:07d}" for one in random.integers(0, 10**7, n)]
    table = pd.DataFrame({"at": (19_000 + days) * DAY + random.integers(0, DAY, n), "order": ids, "user": user})
    return table[days < 56], table[days >= 56]


def told(before: pd.DataFrame, now: pd.DataFrame, column: str) -> Finding:
    profile = profile_table(as_table(before, "training"), COLUMNS, [*before.columns])
    return report_on_table(profile, as_table(now, "the week"), COLUMNS).feature(column)


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("left", [-0.5, 0.0, 0.02, 0.2, 0.4, 0.6, 0.8, 0.98])
@pytest.mark.parametrize("base", [16, 36, 62])
def test_ids_that_need_a_digit_more_do_not_fail(base: int, left: float, seed: int) -> None:
    assert (found := told(*rows(seed, base, left), "order")).outcome is not Outcome.FAIL, found.sentence


@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize(
    ("column", "change"),
    [
        ("order", lambda ids: ids.str.upper()),
        ("order", lambda ids: ids + "-1"),
        ("order", lambda ids: ids.map(lambda one: str(int(one, 36)))),
        ("user", lambda ids: ids.str[1:]),
    ],
)
def test_ids_that_are_written_otherwise_fail(column: str, change: Callable[[pd.Series], pd.Series], seed: int) -> None:
    before, now = rows(seed, 36, 0.8)

    assert (found := told(before, now.assign(**{column: change(now[column])}), column)).outcome is Outcome.FAIL, found
