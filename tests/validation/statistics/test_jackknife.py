"""The jackknife knows the error of a mean, and what rows of one group have in common."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate_validation.statistics.jackknife import mean


def test_the_jackknife_knows_the_error_of_a_mean() -> None:
    values = np.random.default_rng(1).normal(3, 2, 4000)
    found = mean(values, np.arange(4000) % 40).estimate()
    assert found.value == pytest.approx(values.mean())
    assert found.error == pytest.approx(2 / np.sqrt(4000), rel=0.4)
    without = [values[np.arange(4000) % 40 != group].mean() for group in range(40)]
    assert found.error == pytest.approx(np.sqrt(39 / 40 * np.sum((without - np.mean(without)) ** 2)))


def test_rows_of_one_day_are_not_taken_for_many() -> None:
    """Days that err together: grouped by day the error of the mean is several times that of shuffled groups."""
    random = np.random.default_rng(2)
    days = np.repeat(np.arange(30), 200)
    values = random.normal(0, 1, 30)[days] + random.normal(0, 1, 6000)
    by_day = mean(values, days).estimate().error
    shuffled = mean(values, random.permutation(days)).estimate().error
    assert by_day > 5 * shuffled
