"""Which conversion an estimated factor is taken for, and which factors are left as they were estimated."""

from __future__ import annotations

import pytest

from tidegate_validation.skew.diagnosis.units import nearest_factor, only_common


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
