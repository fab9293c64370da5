"""Rows are put into groups alike, however often their values repeat."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate_validation.statistics.arrays import places_of_numbers


@pytest.mark.parametrize("distinct", [0, 1, 3, 700, 3_000], ids=lambda size: f"{size} values")
def test_places_of_numbers_lead_back_to_them(distinct: int) -> None:
    random = np.random.default_rng(distinct)
    known = np.unique(random.normal(0, 1e6, distinct))
    values = random.choice(known, 5_000) if distinct else known
    found, place = places_of_numbers(values)
    assert np.array_equal(found, np.unique(values))
    assert place.dtype == np.int64
    assert np.array_equal(found[place], values)
