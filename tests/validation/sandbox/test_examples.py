"""Rows of a table as a version's inputs."""

from __future__ import annotations

from datetime import datetime
from typing import Any

import pyarrow as pa
import pytest

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_validation.sandbox.examples import example_of, examples_of, groups_of


def test_a_moment_in_nanoseconds_becomes_seconds() -> None:
    table = pa.table({"sent_at": pa.array([1_500_000_000_123_456_789], pa.timestamp("ns"))})
    signature = Signature((TensorSpec("sent_at", "float64"),), (TensorSpec("y", "float32"),))
    assert examples_of(signature, table).arrays["sent_at"].tolist() == [1_500_000_000.0]


def test_ids_of_64_bits_keep_all_their_digits() -> None:
    ids = [2**64 - 1, 2**53 + 1, None]
    signature = Signature((TensorSpec("id", "uint64"),), (TensorSpec("y", "float32"),))
    found = examples_of(signature, pa.table({"id": pa.array(ids, pa.uint64())}))
    assert found.arrays["id"].tolist() == [2**64 - 1, 2**53 + 1]


def signature(dtype: str, *inner: int) -> Signature:
    return Signature((TensorSpec("x", dtype, (-1, *inner)),), (TensorSpec("y", "float32"),))


@pytest.mark.parametrize(
    ("dtype", "values", "bad"),
    [
        ("uint8", [3, 300], "300"),
        ("uint64", [-1], "-1"),
        ("int64", [3.0, 3.7], "3.7"),
        ("int64", [2.0**63], "9.2"),
        ("int32", [datetime(2040, 1, 1)], "2208988800"),
        ("bool", ["Y", "N"], "'Y'"),
        ("bool", ["false"], "'false'"),
        ("bool", [2], "2"),
        ("float32", [1e300], "1e[+]300"),
        ("int64", ["3.7"], "3.7"),
        ("float32", ["high"], "high"),
    ],
)
def test_a_value_that_the_dtype_does_not_hold_is_refused(dtype: str, values: list[Any], bad: str) -> None:
    with pytest.raises(InvalidInput, match=f"column 'x' .*{bad}"):
        examples_of(signature(dtype), pa.table({"x": values}))


@pytest.mark.parametrize(
    ("dtype", "values", "found"),
    [
        ("uint8", [3.0, float("nan"), None, 255], [3, 255]),
        ("int64", ["12", "-3"], [12, -3]),
        ("bool", [0, 1.0, None], [False, True]),
        ("float32", [True, None], [1.0, pytest.approx(float("nan"), nan_ok=True)]),
        ("float64", ["1.5", None], [1.5, pytest.approx(float("nan"), nan_ok=True)]),
    ],
)
def test_values_that_stay_what_they_are_become_the_dtype(dtype: str, values: list[Any], found: list[Any]) -> None:
    assert examples_of(signature(dtype), pa.table({"x": values})).arrays["x"].tolist() == found


def test_rows_of_open_axes_are_grouped_by_size() -> None:
    lists = [[1, 2, 3], [4], None, [5, 6, 7]]
    three, one = groups_of(signature("int64", -1), pa.table({"x": lists}))
    assert (three.arrays["x"].tolist(), three.rows.tolist()) == ([[1, 2, 3], [5, 6, 7]], [0, 3])
    assert (one.arrays["x"].tolist(), one.rows.tolist()) == ([[4]], [1])
    with pytest.raises(InvalidInput, match=r"column 'x' has rows of shape \[3\] and \[1\]"):
        examples_of(signature("int64", -1), pa.table({"x": lists}))
    (none,) = groups_of(signature("int64", -1), pa.table({"x": pa.array([], pa.list_(pa.int64()))}))
    assert none.arrays["x"].shape == (0, 1)
    example = example_of(signature("string", -1), {"x": ["a", "b"]})
    assert example is not None
    assert example.arrays["x"].tolist() == [[b"a", b"b"]]


def test_a_missing_list_is_left_out_and_unequal_ones_are_refused() -> None:
    found = examples_of(signature("float32", 2, 1), pa.table({"x": [[[1.0], [2.0]], None]}))
    assert (found.arrays["x"].tolist(), found.rows.tolist()) == ([[[1.0], [2.0]]], [0])
    assert examples_of(signature("string", 2), pa.table({"x": [["a", "b"], None]})).arrays["x"].tolist() == [
        [b"a", b"b"]
    ]
    with pytest.raises(InvalidInput, match="column 'x' holds lists of unequal length"):
        examples_of(signature("float32", 2), pa.table({"x": [[1.0, 2.0], [1.0]]}))
    with pytest.raises(InvalidInput, match=r"column 'x' holds a row of shape \[2, 1\].*\[-1, 3\]"):
        examples_of(signature("float32", -1, 3), pa.table({"x": [[[1.0], [2.0]]]}))
