"""P-values of many tests are adjusted as Benjamini and Hochberg do, and those of one claim as Simes does."""

from __future__ import annotations

import math

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate_validation.statistics.false_discovery import benjamini_hochberg, rejection_level, simes

P_VALUES = st.lists(st.floats(0, 1), max_size=40)


@given(P_VALUES)
@settings(deadline=None)  # the first call imports scipy
def test_adjustment_is_benjamini_and_hochbergs(p_values: list[float]) -> None:
    """By the definition: the least, over all that are as large or larger, of p times their number over the rank."""
    ranked = sorted(p_values)
    found = benjamini_hochberg(p_values)
    for p, adjusted in zip(p_values, found, strict=True):
        above = [other * len(ranked) / rank for rank, other in enumerate(ranked, 1) if other >= p]
        assert adjusted == pytest.approx(min(1.0, *above), abs=1e-12)


@given(P_VALUES.flatmap(lambda values: st.tuples(st.just(values), st.permutations(range(len(values))))))
@settings(deadline=None)
def test_the_order_of_tests_does_not_matter(both: tuple[list[float], list[int]]) -> None:
    p_values, order = both
    found = benjamini_hochberg(p_values)
    assert benjamini_hochberg([p_values[place] for place in order]) == [found[place] for place in order]
    assert simes([p_values[place] for place in order]) == simes(p_values)


def test_what_is_no_probability_is_refused() -> None:
    with pytest.raises(ValueError, match="between 0 and 1"):
        benjamini_hochberg([0.5, math.nan])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=10))
def test_simes_lies_between_the_least_p_value_and_bonferronis(p_values: list[float]) -> None:
    rounding = 1 + 1e-12
    assert min(p_values) / rounding <= simes(p_values) <= min(1.0, len(p_values) * min(p_values) * rounding)
    assert simes([]) == 1.0


@given(P_VALUES.filter(bool), st.floats(0.01, 0.2))
@settings(deadline=None)
def test_what_is_below_the_rejection_level_is_rejected_and_nothing_else(p_values: list[float], alpha: float) -> None:
    level = rejection_level(p_values, alpha)
    rejected = [adjusted < alpha for adjusted in benjamini_hochberg(p_values)]
    assert all(one for one, p in zip(rejected, p_values, strict=True) if p < level * (1 - 1e-9))
    assert not any(one for one, p in zip(rejected, p_values, strict=True) if p > level * (1 + 1e-9))
