"""The jackknife knows the error of a mean, and what rows of one group have in common."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate_validation.statistics.jackknife import Estimate, mean, parts_of, ratio

ROWS = st.lists(st.tuples(st.floats(-100, 100), st.floats(0.1, 10), st.integers(0, 5)), min_size=2, max_size=40)


def test_the_jackknife_knows_the_error_of_a_mean() -> None:
    values = np.random.default_rng(1).normal(3, 2, 4000)
    found = mean(values, np.arange(4000) % 40).estimate()
    assert found.value == pytest.approx(values.mean())
    assert found.error == pytest.approx(2 / np.sqrt(4000), rel=0.4)
    without = [values[np.arange(4000) % 40 != group].mean() for group in range(40)]
    assert found.error == pytest.approx(np.sqrt(39 / 40 * np.sum((without - np.mean(without)) ** 2)))


def test_a_share_of_what_one_row_alone_makes_up_says_nothing() -> None:
    one, alike = np.append(np.full(200, 1e-4), 1.0), np.ones(200)
    assert parts_of(one) == pytest.approx(1.04, abs=0.01)
    assert parts_of(alike) == pytest.approx(200)
    assert Estimate(-0.4, 1e-4, 40).of_few(parts_of(one)).p_below(-0.1) == 1.0
    assert Estimate(-0.4, 1e-4, 40).of_few(parts_of(alike)) == Estimate(-0.4, 1e-4, 40)
    assert Estimate(-0.4, 1e-4, 40).of_few(6.2).freedom == 5


def test_rows_of_one_day_are_not_taken_for_many() -> None:
    """Days that err together: grouped by day the error of the mean is several times that of shuffled groups."""
    random = np.random.default_rng(2)
    days = np.repeat(np.arange(30), 200)
    values = random.normal(0, 1, 30)[days] + random.normal(0, 1, 6000)
    by_day = mean(values, days).estimate().error
    shuffled = mean(values, random.permutation(days)).estimate().error
    assert by_day > 5 * shuffled


@given(ROWS.flatmap(lambda rows: st.tuples(st.just(rows), st.permutations(rows))))
def test_a_ratio_is_that_of_the_rows_that_are_left_in_whatever_order(
    both: tuple[list[tuple[float, float, int]], list[tuple[float, float, int]]],
) -> None:
    above, below, groups = (np.array(column) for column in zip(*both[0], strict=True))
    found = ratio(above, below, groups)
    assert found.value == pytest.approx(above.sum() / below.sum())
    for group, without in enumerate(found.without):
        rest = groups != group
        if rest.all() or not rest.any():
            assert np.isnan(without)
        else:
            assert without == pytest.approx(above[rest].sum() / below[rest].sum(), rel=1e-6, abs=1e-6)
    again = ratio(*(np.array(column) for column in zip(*both[1], strict=True)))
    assert again.estimate().error == pytest.approx(found.estimate().error, rel=1e-6, abs=1e-6)
