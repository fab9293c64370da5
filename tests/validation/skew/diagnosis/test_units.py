"""Which conversion an estimated factor is taken for, and which factors are left as they were estimated."""

from __future__ import annotations

import pytest

from tidegate_validation.skew.diagnosis.units import affine, factors, nearest_factor, only_common, the_other_way


@pytest.mark.parametrize(
    ("factor", "tolerance", "taken_for"),
    [
        (97.0, 0.15, 100.0),
        (88.4, 0.15, None),
        (1 / 88.4, 0.15, None),
        (90.0, 0.3, 100.0),
        (88.4, 0.1, None),
        (1.62, 0.03, 1.609344),
        (1.9, 0.5, None),
    ],
)
def test_a_common_conversion_is_taken_unless_a_rarer_one_fits_far_better(
    factor: float, tolerance: float, taken_for: float | None
) -> None:
    found = only_common(factor, tolerance)
    assert (None if found is None else found.factor) == taken_for


def test_conversions_of_a_laboratory_have_names() -> None:
    found = nearest_factor(88.42, 1e-6)
    assert found is not None
    assert found.words == "micromoles per litre of creatinine against milligrams per decilitre"


@pytest.mark.parametrize(
    ("factor", "words"),
    [
        (60.0, "minutes against hours, or seconds against minutes"),
        (1 / 60.0, "hours against minutes, or minutes against seconds"),
        (0.06894757, "bars against pounds per square inch"),
    ],
)
def test_both_ways_of_a_conversion_have_words(factor: float, words: str) -> None:
    found = nearest_factor(factor, 1e-6)
    assert found is not None
    assert found.words == words


def test_the_way_back_of_each_conversion_leads_to_its_own_words() -> None:
    for one in [*factors(), *affine()]:
        assert the_other_way(the_other_way(one.words)) == one.words
        assert the_other_way(one.words) == one.inverse().words
