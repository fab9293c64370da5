"""Signatures hold, on the way in and on the way out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from tidegate_serving.contract.errors import InvalidInput, ModelFailed
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import FirstAxis, Signature, TensorSpec
from tidegate_serving.platforms.tensor_checks import check_inputs, check_outputs

SIGNATURE = Signature(
    inputs=(TensorSpec("x", "float32"), TensorSpec("s", "string"), TensorSpec("m", "int64", (-1, 2, -1))),
    outputs=(TensorSpec("y", "float32"), TensorSpec("t", "string"), TensorSpec("v", "int32", (-1, 2))),
)
GOOD_IN: dict[str, Any] = {
    "x": np.zeros(3, "f4"),
    "s": np.array([b"a", b"b", b"c"], dtype=object),
    "m": np.zeros((3, 2, 5), "i8"),
}
GOOD_OUT: dict[str, Any] = {"y": np.zeros(3, "f4"), "t": ["a", "é", b"\xff"], "v": np.zeros((3, 2), "i4")}
ID = ServableId("m", 1)


def test_good_inputs_count_their_rows() -> None:
    assert check_inputs(SIGNATURE, GOOD_IN) == 3


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"x": None}, "input 'x' is missing"),
        ({"z": np.zeros(3)}, "input 'z' is unknown"),
        ({"x": np.zeros(3)}, "'x' has dtype float64: send float32"),
        ({"s": np.zeros(3)}, "'s' has dtype float64: send string"),
        ({"x": np.zeros((3, 1), "f4")}, r"'x' has shape \[3, 1\]: send \[-1\]"),
        ({"m": np.zeros((3, 3, 5), "i8")}, r"'m' has shape \[3, 3, 5\]: send \[-1, 2, -1\]"),
        ({"x": np.zeros(2, "f4")}, "differ in their number of rows"),
    ],
)
def test_bad_inputs_are_named(changes: dict[str, Any], match: str) -> None:
    inputs = {name: array for name, array in {**GOOD_IN, **changes}.items() if array is not None}
    with pytest.raises(InvalidInput, match=match):
        check_inputs(SIGNATURE, inputs)


def test_good_outputs_come_in_their_dtypes() -> None:
    outputs = check_outputs(ID, SIGNATURE, 3, {**GOOD_OUT, "y": [0.5, 1, np.nan], "extra": 1})
    assert set(outputs) == {"y", "t", "v"}
    assert outputs["y"].dtype == np.float32
    assert outputs["t"].tolist() == [b"a", "é".encode(), b"\xff"]


def test_outputs_of_an_assumed_batch_are_not_held_against_their_shapes() -> None:
    outputs = (TensorSpec("y", "float32", (4, 2)), TensorSpec("z", "float32", (), unknown_rank=True))
    assumed = Signature((TensorSpec("x", "float32", (4,)),), outputs, first_axis=FirstAxis.ASSUMED)
    found = check_outputs(ID, assumed, 7, {"y": np.zeros((2, 7), "f4").T, "z": np.float32(1)})
    assert [(array.shape, array.flags.c_contiguous) for array in found.values()] == [((7, 2), True), ((), True)]


def test_outputs_that_are_as_declared_are_passed_on() -> None:
    v = np.zeros((3, 2), "i4")
    assert check_outputs(ID, SIGNATURE, 3, {**GOOD_OUT, "v": v})["v"] is v


def test_an_array_of_another_class_is_what_it_is_in_memory() -> None:
    class Lying(np.ndarray):
        @property  # type: ignore[misc]
        def shape(self) -> Any:
            return (7,)

        @property
        def dtype(self) -> Any:
            raise RuntimeError

    found = check_outputs(ID, SIGNATURE, 3, {**GOOD_OUT, "y": GOOD_OUT["y"].view(Lying)})
    assert type(found["y"]) is np.ndarray
    assert found["y"].shape == (3,)


def test_outputs_are_contiguous() -> None:
    outputs = check_outputs(ID, SIGNATURE, 3, {**GOOD_OUT, "v": np.zeros((2, 3), "i4").T})
    assert outputs["v"].flags.c_contiguous


class Refusing:
    """No array yet, as a tensor that still gathers gradients."""

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise RuntimeError("detach it first")


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"y": Refusing()}, "gave output 'y', which is no array: detach it first"),
        ({"y": None}, "m:1 gave no output 'y'"),
        ({"y": np.zeros(2)}, r"output 'y' of shape \[2\] for 3 rows"),
        ({"y": np.float32(1)}, r"output 'y' of shape \[\]"),
        ({"y": np.zeros(3, "c8")}, "output 'y' of dtype complex64"),
        ({"y": ["a", "b", "c"]}, "output 'y' of dtype"),
        ({"v": np.zeros((3, 2), "f4")}, "output 'v' of dtype float32, its signature says int32"),
        ({"v": np.zeros((3, 3), "i4")}, r"output 'v' of shape \[3, 3\]"),
        ({"t": np.zeros(3)}, "output 't' of dtype float64, its signature says string"),
        ({"t": ["a", None, "b"]}, "output 't' with None in it: give text for every row"),
        ({"t": np.array(["a", np.nan, "b"], dtype=object)}, "output 't' with nan in it"),
        ({"t": ["a", "\udcff", "b"]}, "output 't' with 'utf-8' codec can't encode"),
    ],
)
def test_bad_outputs_are_the_models_fault(changes: dict[str, Any], match: str) -> None:
    outputs = {name: array for name, array in {**GOOD_OUT, **changes}.items() if array is not None}
    with pytest.raises(ModelFailed, match=match):
        check_outputs(ID, SIGNATURE, 3, outputs)
