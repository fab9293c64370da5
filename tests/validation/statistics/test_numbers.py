"""Rows to ask for are told in two digits, and never fewer than are needed."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tidegate_validation.statistics.numbers import round_up


@given(st.floats(1, 1e12))
def test_a_count_is_rounded_up_to_two_digits(count: float) -> None:
    found = round_up(count)
    assert count <= found < 1.1 * count + 1
    assert len(str(found).rstrip("0")) <= 2
    assert round_up(found) == found
