"""One country in thousandths where countries differ anyway, and in another currency that lies near these."""

from __future__ import annotations

import functools
from collections.abc import Mapping
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.validation.skew.causes import like

from tidegate_validation.skew import Columns
from tidegate_validation.skew.two_tables import profile_table, report_on_table
from tidegate_validation.statistics import Profile
from tidegate_validation.tables import as_table

COLUMNS = Columns(time="at")
DAY, TRAINED = 86_400, 42
COUNTRIES = np.array(["DE", "FR", "IT", "ES", "US", "PL", "NL", "AT"])


def payments(seed: int, first: int, days: int) -> pd.DataFrame:
    """Amounts of countries that differ by a twelfth."""
    random, own = np.random.default_rng([seed, first]), np.random.default_rng(seed).normal(0, 0.085, 8)
    day = np.repeat(first + np.arange(days), 300)
    n = len(day)
    country = random.choice(8, n, p=[0.3, 0.2, 0.13, 0.1, 0.09, 0.07, 0.06, 0.05])
    log = 3.2 + own[country] + 1.1 * random.normal(size=n) + random.normal(0, 0.08, days)[day - first]
    at = day * DAY + random.integers(0, DAY, n)
    return pd.DataFrame({"at": at, "country": COUNTRIES[country], "amount": np.round(np.exp(log), 2)})


@functools.cache
def training(seed: int) -> Profile:
    before = payments(seed, 19_000, TRAINED)
    return profile_table(as_table(before, "training"), COLUMNS, [*before.columns])


def cause(seed: int, country: str, factor: float) -> Mapping[str, Any]:
    now = payments(seed, 19_000 + TRAINED, 7)
    amount = now["amount"].where(now["country"] != country, np.round(now["amount"] * factor, 2))
    report = report_on_table(training(seed), as_table(now.assign(amount=amount), "the week"), COLUMNS)
    return report.feature("amount").cause or {}


@pytest.mark.parametrize(
    ("seed", "country"), [(9, "IT"), (10, "FR"), (0, "IT"), (0, "FR"), (1, "IT"), (2, "FR"), (7, "IT"), (5, "FR")]
)
def test_a_thousandfold_of_one_country_is_named(seed: int, country: str) -> None:
    where = {"column": "country", "value": country}

    assert cause(seed, country, 1000.0) == like({"kind": "constant factor", "factor": 1000.0, "where": where})


@pytest.mark.parametrize("seed", [9, 10, 0, 1, 2])
@pytest.mark.parametrize("country", ["IT", "FR"])
def test_won_are_no_thousandth(country: str, seed: int) -> None:
    assert cause(seed, country, 1690.0).get("factor") != 1000.0
