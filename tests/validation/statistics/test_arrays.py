"""Rows are put into groups and into order alike, however often their values repeat."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate_validation.statistics.arrays import largest, order_of_places, places_of_numbers


@pytest.mark.parametrize("distinct", [0, 1, 3, 700, 3_000], ids=lambda size: f"{size} values")
def test_places_of_numbers_lead_back_to_them(distinct: int) -> None:
    random = np.random.default_rng(distinct)
    known = np.unique(random.normal(0, 1e6, distinct))
    values = random.choice(known, 5_000) if distinct else known
    found, place = places_of_numbers(values)
    assert np.array_equal(found, np.unique(values))
    assert place.dtype == np.int64
    assert np.array_equal(found[place], values)


@pytest.mark.parametrize("most", [1, 3, 200, 5_000, 9_000])
@pytest.mark.parametrize("distinct", [1, 4, 700, 3_000], ids=lambda size: f"{size} values")
def test_the_largest_are_those_that_a_whole_order_begins_with(distinct: int, most: int) -> None:
    values = np.random.default_rng(distinct).integers(0, distinct, 5_000).astype(np.float64)
    assert np.array_equal(largest(values, most), np.argsort(-values, kind="stable")[:most])


@pytest.mark.parametrize("places", [0, 1, 300, 65_536, 65_537, 200_000])
def test_rows_come_place_by_place_in_their_order(places: int) -> None:
    rows = np.random.default_rng(places).integers(0, max(places, 1), 4_000 if places else 0)
    rows[:2] = places - 1  # The last place is there, in rows that must stay first and second among its own.
    assert np.array_equal(order_of_places(rows), np.argsort(rows, kind="stable"))
