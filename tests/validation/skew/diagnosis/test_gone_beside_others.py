"""A category that is gone is no other one that came lately, or that comes for some days now and then."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tidegate_serving.admission import Finding
from tidegate_validation.skew import Columns
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="at")
DAY, TRAINING, WINDOW, ROWS = 86_400, 56, 7, 200
NAMES = np.array(["Berlin", "Paris", "Rome", "Oslo", "Bern", "late", "campaign"])


def rows(seed: int) -> pd.DataFrame:
    """Cities whose shares differ by day, one that was launched a week before training's end, and campaigns of some
    days, of which the window has one as well."""
    random = np.random.default_rng(seed)
    days = TRAINING + WINDOW
    shares = np.array([0.4, 0.25, 0.15, 0.12, 0.08, 0, 0]) * np.exp(random.normal(0, 0.15, (days, 7)))
    shares[TRAINING - 7 :, 5] = random.uniform(0.12, 0.2)
    for begin in (random.integers(3, 12), random.integers(25, 40), TRAINING + 1):
        shares[begin : begin + 5, 6] = random.uniform(0.15, 0.2)
    shares /= shares.sum(axis=1, keepdims=True)
    day, city = np.nonzero(n := np.array([random.multinomial(ROWS, one) for one in shares]))
    day, city = (np.repeat(one, n[n > 0]) for one in (day, city))
    return pd.DataFrame({"at": (19_000 + day) * DAY + random.integers(0, DAY, len(day)), "city": NAMES[city]})


def told(everything: pd.DataFrame, lost: str, into: str | None) -> Finding:
    before, now = (everything[(everything["at"] < (19_000 + TRAINING) * DAY) == one] for one in (True, False))
    gone = now["city"] == lost
    now = now[~gone] if into is None else now.assign(city=now["city"].mask(gone, into))
    profile = profile_table(as_table(before, "training"), COLUMNS, ["at", "city"])
    return report_on_table(profile, as_table(now, "the week"), COLUMNS).feature("city")


@pytest.mark.parametrize("seed", range(10))
@pytest.mark.parametrize("lost", ["Rome", "Oslo", "Bern"])
def test_what_is_gone_is_not_counted_as_one_that_came_lately_or_now_and_then(lost: str, seed: int) -> None:
    cause = told(rows(seed), lost, None).cause or {}

    assert cause.get("kind") in ("missing categories", None), cause


@pytest.mark.parametrize("into", ["Paris", "Rome"])
def test_what_is_counted_as_another_is_never_told_as_a_third_and_mostly_so_where_none_came_beside(into: str) -> None:
    beside = [told(rows(seed), "Oslo", into).cause or {} for seed in range(6)]
    alone = [rows(seed) for seed in range(6)]
    found = [told(one[~one["city"].isin(["late", "campaign"])], "Oslo", into).cause or {} for one in alone]

    assert {one["new"] for one in [*beside, *found] if one.get("kind") == "merged categories"} == {into}
    assert [one.get("kind") for one in found].count("merged categories") >= 4, found
