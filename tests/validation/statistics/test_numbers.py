"""Rows to ask for are told in two digits, and never fewer than are needed; and where functions pass zero."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate_validation.statistics.numbers import root_of_falling, round_up


@given(st.floats(1, 1e12))
def test_a_count_is_rounded_up_to_two_digits(count: float) -> None:
    found = round_up(count)
    assert count <= found < 1.1 * count + 1
    assert len(str(found).rstrip("0")) <= 2
    assert round_up(found) == found


def test_a_falling_function_passes_zero_where_it_does() -> None:
    assert root_of_falling(lambda place: math.exp(-place) - 0.05, 0.0, 8.0, 1e-4) == pytest.approx(3.0, abs=5e-3)
    assert root_of_falling(lambda place: 1.0 if place < 3.3 else -1.0, 0.0, 8.0, 1e-4) == pytest.approx(3.3, abs=1e-4)
    assert root_of_falling(lambda place: -1.0 - place, 0.5, 8.0, 1e-4) == 0.5
