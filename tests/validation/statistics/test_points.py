"""What a profile knows of single values."""

from __future__ import annotations

import math

import pytest

from tidegate_validation.statistics.points import Point, Points

LISTED = (Point(0.0, 0.3, 0, 0.9), Point(2.5, 0.2, 0, 0.2), Point(2.5000001, 0.1, 0, 0.1), Point("2.5", 0.05, 0, 0.1))
POINTS = Points(LISTED, rest=0.01, novel=0.02)


@pytest.mark.parametrize(
    ("value", "place"),
    [(0.0, 0), (-0.0, 0), (2.5, 1), (2.5000001, 1), (2.5 * (1 - 2e-7), 1), (2.5000001 * (1 + 2.9e-7), 2), ("2.5", 3)],
)
def test_a_value_is_the_first_listed_one_that_it_may_be_as_a_32_bit_float(value: float | str, place: int) -> None:
    assert POINTS.of(value) is LISTED[place]


@pytest.mark.parametrize("value", [2.5 * (1 + 1e-6), -2.5, 1e-300, math.inf, math.nan, "2.50", ""])
def test_of_a_value_that_is_not_listed_is_known_what_it_weighs_at_most(value: float | str) -> None:
    found = POINTS.of(value)
    assert (found.share, found.spread, found.peak) == (0.01, 0.01, 0.02)


def test_nothing_listed_is_no_value() -> None:
    assert Points().of(1.0) == Point(1.0, 0.0, 0.0, 0.0)
    assert Points().usual_peak == 0.0
