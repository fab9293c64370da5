"""Quantiles and atoms from values in order are those that SQL finds, value for value."""

from __future__ import annotations

import duckdb
import numpy as np
import pyarrow as pa
import pytest

from tidegate_validation.statistics.build import make_profile
from tidegate_validation.statistics.reference import LEVELS, TAILS, quantiles_of


@pytest.mark.parametrize("rows", [1, 2, 7, 100, 999, 1000, 1001, 12_345])
def test_quantiles_are_sqls_to_the_last_bit(rows: int) -> None:
    random = np.random.default_rng(rows)
    for values in (random.normal(size=rows), random.integers(0, 5, rows).astype(np.float64), random.pareto(1.0, rows)):
        levels = sorted([*LEVELS, *TAILS, *(step / 10 for step in range(1, 10))])
        with duckdb.connect() as connection:
            connection.register("t", pa.table({"v": values}))
            (expected,) = connection.execute(f"SELECT quantile_disc(v, {levels}) FROM t").fetchone() or ([],)
        assert quantiles_of(np.sort(values), levels) == expected


def test_no_values_have_no_quantiles() -> None:
    assert quantiles_of(np.empty(0), LEVELS) == []


def test_a_value_of_a_twentieth_of_the_rows_is_a_bin_of_its_own() -> None:
    random = np.random.default_rng(3)
    values = random.normal(10, 2, 2000)
    values[:100], values[100:195], values[195:300] = 0.0, 7.0, np.nan
    profile = make_profile(pa.table({"v": values}), features=["v"], label=None, event_time=None)
    bins = profile.features["v"].bins
    assert getattr(bins, "atoms", None) == (0.0, 7.0)
    rare = np.where(np.arange(2000) < 80, 7.0, random.normal(10, 2, 2000))
    profile = make_profile(pa.table({"v": rare}), features=["v"], label=None, event_time=None)
    assert getattr(profile.features["v"].bins, "atoms", None) == ()
