"""Signatures hold, on the way in and on the way out."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
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


@pytest.mark.parametrize("kind", ["uint8", "uint64", "int8", "int64"])
def test_whole_numbers_may_come_in_any_dtype_that_holds_them(kind: str) -> None:
    signature = Signature((TensorSpec("x", "float32"),), (TensorSpec("v", kind),))
    for given in ([0, 1, 127], np.array([0, 1, 127], "u4"), np.array([], "i8")):
        found = check_outputs(ID, signature, len(given), {"v": given})["v"]
        assert (found.dtype.name, found.tolist()) == (kind, list(given))
    with pytest.raises(ModelFailed, match=f"which {kind} does not hold"):
        check_outputs(ID, signature, 1, {"v": [-1] if kind.startswith("u") else np.array([2**64 - 1], "u8")})


def test_a_mask_that_hides_nothing_is_as_none() -> None:
    found = check_outputs(ID, SIGNATURE, 3, {**GOOD_OUT, "y": np.ma.array([1.0, 2.0, 3.0], mask=False)})
    assert found["y"].tolist() == [1.0, 2.0, 3.0]


def test_what_a_model_told_numpy_to_raise_is_not_raised_for_its_outputs() -> None:
    with np.errstate(all="raise"):
        assert check_outputs(ID, SIGNATURE, 3, {**GOOD_OUT, "y": np.full(3, 1e300)})["y"].tolist() == [np.inf] * 3


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
        (
            {"y": np.broadcast_to(np.float64(1), 2**40)},
            r"output 'y' of shape \[1099511627776\] for 3 rows, its signature says",
        ),
        ({"v": np.zeros((3, 2), "f4")}, "output 'v' of dtype float32, its signature says int32: return an array or a"),
        ({"v": np.full((3, 2), 2**40 + 5)}, "output 'v' with 1099511627781, which int32 does not hold: publish"),
        ({"v": np.full((3, 2), 2**31, "u4")}, "output 'v' with 2147483648, which int32 does not hold"),
        (
            {"y": np.ma.array([1.0, 2.0, 3.0], mask=[False, True, False])},
            r"output 'y' with masked values: say .* \.filled\(0\)",
        ),
        ({"v": np.zeros((3, 3), "i4")}, r"output 'v' of shape \[3, 3\]"),
        ({"t": np.zeros(3)}, "output 't' of dtype float64, its signature says string"),
        ({"t": ["a", None, "b"]}, "output 't' with None in it: give text for every row"),
        ({"t": np.array(["a", np.nan, "b"], dtype=object)}, "output 't' with nan in it"),
        ({"t": np.array(["a", np.arange(2), "b"], dtype=object)}, r"output 't' with \[0 1\] in it"),
        ({"t": np.array(["a", pd.NA, "b"], dtype=object)}, "output 't' with <NA> in it: give text for every row"),
        ({"t": ["a", "\udcff", "b"]}, "output 't' with 'utf-8' codec can't encode"),
    ],
)
def test_bad_outputs_are_the_models_fault(changes: dict[str, Any], match: str) -> None:
    outputs = {name: array for name, array in {**GOOD_OUT, **changes}.items() if array is not None}
    with pytest.raises(ModelFailed, match=match):
        check_outputs(ID, SIGNATURE, 3, outputs)
