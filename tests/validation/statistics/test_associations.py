"""Columns that go together are found in pairs, and what is learnt of a pair is its own."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate_validation.statistics.arrays import Integers
from tidegate_validation.statistics.associations import LEVELS, find_associations, strengths

_DAYS, _ROWS = 40, 200


def _levels() -> tuple[dict[str, Integers], Integers]:
    """Three columns, of which the second follows the first in half of the rows and the third in nine of ten."""
    random = np.random.default_rng(3)
    rows = _DAYS * _ROWS
    first = random.integers(0, LEVELS, rows)
    loose, close = (
        np.where(random.random(rows) < part, first, random.integers(0, LEVELS, rows)) for part in (0.5, 0.9)
    )
    return {"first": first, "loose": loose, "close": close}, np.repeat(np.arange(_DAYS), _ROWS)


def test_a_pair_is_known_alike_alone_and_among_others() -> None:
    columns, days = _levels()
    found = find_associations([*columns], [*columns.values()], days)
    assert {(one.first, one.second) for one in found} == {("first", "loose"), ("first", "close"), ("loose", "close")}
    for one in found:
        (alone,) = find_associations([one.first, one.second], [columns[one.first], columns[one.second]], days)
        assert alone.odds == pytest.approx(one.odds, abs=1e-6)
        assert alone.spread == pytest.approx(one.spread, rel=1e-6)


def test_the_odds_of_a_pair_make_of_its_days_what_they_hold() -> None:
    columns, days = _levels()
    for one in find_associations([*columns], [*columns.values()], days):
        seen = strengths(columns[one.first], columns[one.second], days, one.cells, one.odds)
        assert seen.expected.mean() == pytest.approx(seen.found.mean(), abs=1e-3)
