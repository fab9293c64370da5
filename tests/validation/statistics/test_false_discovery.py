"""P-values of many tests are adjusted as Benjamini and Hochberg do."""

from __future__ import annotations

import numpy as np
import pytest

from tidegate_validation.statistics.false_discovery import benjamini_hochberg


def test_correction_is_benjamini_and_hochbergs() -> None:
    from scipy.stats import false_discovery_control

    p_values = np.random.default_rng(0).random(40) ** 3
    assert benjamini_hochberg(p_values.tolist()) == pytest.approx(false_discovery_control(p_values).tolist())
    assert benjamini_hochberg([]) == []
