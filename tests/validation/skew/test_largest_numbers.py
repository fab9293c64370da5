"""Numbers near the end of what 64 bits hold are judged as any others, without a warning of an overflow."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from tidegate_serving.admission import Outcome
from tidegate_validation.skew import Columns, report_on_tables

DAY, ROWS = 86_400, 100


def rows(seed: int, first: int, days: int, size: float) -> pd.DataFrame:
    random = np.random.default_rng(seed)
    n = days * ROWS
    return pd.DataFrame(
        {
            "at": (first + np.repeat(np.arange(days), ROWS)) * DAY + random.integers(0, DAY, n),
            "all": random.lognormal(0, 1, n) * size,
            "few": np.where(random.random(n) < 0.02, size, 1.0) * random.normal(size=n),
            "signed": random.normal(size=n) * size,
            "plain": random.normal(size=n),
        }
    )


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("seed", range(3))
@pytest.mark.parametrize("size", [1e150, 1e301, 1e303, 1e306])
def test_the_largest_numbers_fail_where_they_changed_alone(size: float, seed: int) -> None:
    before, now = rows(seed, 19_000, 40, size), rows(50 + seed, 19_040, 7, size)
    some = np.random.default_rng(seed).random(len(now)) < 0.3
    changed = now.assign(all=now["all"].mask(some, now["all"] / 1000), plain=now["plain"] * size)
    calm, broken = (report_on_tables(before, one, Columns(time="at")) for one in (now, changed))

    assert [one.sentence for one in calm.findings if one.outcome is Outcome.FAIL] == []
    assert {one.subject for one in broken.findings if one.outcome is Outcome.FAIL} == {"all", "plain"}
