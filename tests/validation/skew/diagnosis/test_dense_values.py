"""Rounded values that lie side by side on their grid, as a price in cents does: any factor brings them back onto
training's, so that it takes the distribution to tell one.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest

from tidegate_serving.admission import Outcome
from tidegate_validation.skew import Columns, report_on_tables

DAY = 86_400
TRAINED, WINDOW, ROWS = 90, 7, 200


def prices(seed: int, *, alike: float, spread: float = 5.0) -> tuple[pd.DataFrame, pd.DataFrame]:
    """A price whose level of the day follows the one before."""
    random = np.random.default_rng(seed)
    level = np.zeros(TRAINED + WINDOW)
    level[0] = random.normal(0, spread)
    for one in range(1, len(level)):
        level[one] = alike * level[one - 1] + random.normal(0, spread * (1 - alike**2) ** 0.5)
    day = np.repeat(np.arange(len(level)), ROWS)
    price = np.round(50 + level[day] + random.normal(0, 2, len(day)), 2)
    rows = pd.DataFrame({"at": (19_400 + day) * DAY + random.integers(0, DAY, len(day)), "price": price})
    return rows[day < TRAINED], rows[day >= TRAINED]


def told(before: pd.DataFrame, now: pd.DataFrame) -> tuple[Outcome, dict[str, Any]]:
    found = report_on_tables(before, now, Columns(time="at")).feature("price")
    return found.outcome, dict(found.cause or {})


def test_a_price_that_wanders_is_no_factor_of_what_it_was() -> None:
    found = [told(*prices(seed, alike=0.97))[1].get("kind") for seed in range(8, 20)]
    assert found.count("constant factor") == 0


@pytest.mark.parametrize("factor", [0.4536, 0.88, 1.19])
def test_a_factor_that_the_distribution_shows_is_told(factor: float) -> None:
    for seed in range(3):
        before, now = prices(seed, alike=0.0, spread=0.3)
        outcome, cause = told(before, now.assign(price=(now["price"] * factor).round(2)))
        assert (outcome, cause.get("kind")) == (Outcome.FAIL, "constant factor"), (seed, cause)
        assert cause["factor"] == pytest.approx(factor, rel=0.08)
