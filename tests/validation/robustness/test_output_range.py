"""The policy's range of an output: what lies outside, in which row, and ranges that make no sense."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.policy import Policy
from tidegate_validation.robustness.output_range import OutputRange

SHARES = OutputRange(minimum=0, maximum=1, sums_to_one=True)


@pytest.mark.parametrize(
    ("allowed", "output", "outside"),
    [
        (OutputRange(), [-1e30, 1e30], None),
        (OutputRange(minimum=0), [0.0, 5.0], None),
        (OutputRange(minimum=0), [0.0, -0.5], (1, "is -0.5, below the minimum of 0")),
        (OutputRange(maximum=1), [1.0, 1.0, 1.25], (2, "is 1.25, above the maximum of 1")),
        (OutputRange(maximum=1), [1.0 + 1e-7], None),
        (OutputRange(maximum=1), [], None),
        (SHARES, [[0.2, 0.8], [0.5, 0.5]], None),
        (SHARES, [[0.2, 0.8], [0.5, 0.6]], (1, "sums to 1.1 instead of 1")),
        (SHARES, [[0.2, 0.8], [-0.5, 1.5]], (1, "is -0.5, below the minimum of 0")),
    ],
)
def test_the_first_row_outside_is_found(allowed: OutputRange, output: Any, outside: object) -> None:
    assert allowed.first_outside(np.array(output)) == outside


def test_texts_have_no_range() -> None:
    assert OutputRange(minimum=0).first_outside(np.array([b"late"], dtype=object)) == (0, "holds no numbers")


def test_a_policy_names_ranges_by_output() -> None:
    policy = Policy.from_dict({"robustness": {"output_range": {"p": {"maximum": 1}}}}, where="policy.toml")
    assert policy.robustness.output_range == {"p": OutputRange(maximum=1.0)}
    assert policy.digest() != Policy().digest()


def test_a_range_without_numbers_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"minimum is 2\.0 and maximum 1\.0"):
        Policy.from_dict({"robustness": {"output_range": {"p": {"minimum": 2, "maximum": 1}}}}, where="policy.toml")
