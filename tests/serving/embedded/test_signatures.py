"""What is found out about a callable: inputs as said, shown or annotated, outputs by a trial, and how it is called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.signature import FirstAxis, TensorSpec
from tidegate_serving.embedded.callables import callable_of, how_to_call
from tidegate_serving.embedded.signatures import signature_of, to_spec

Array = np.ndarray[Any, Any]


@pytest.mark.parametrize(
    ("given", "dtype", "shape"),
    [
        ("float32", "float32", (-1,)),
        (np.int16, "int16", (-1,)),
        (np.dtype("uint8"), "uint8", (-1,)),
        (float, "float64", (-1,)),
        (int, "int64", (-1,)),
        (bool, "bool", (-1,)),
        (str, "string", (-1,)),
        (("string", (-1, 2)), "string", (-1, 2)),
        ((np.float32, [-1, 4]), "float32", (-1, 4)),
        (TensorSpec("x", "bool", (-1, 3)), "bool", (-1, 3)),
    ],
)
def test_an_input_is_said_in_many_ways(given: Any, dtype: str, shape: tuple[int, ...]) -> None:
    assert to_spec("x", given) == TensorSpec("x", dtype, shape)


@pytest.mark.parametrize("given", ["complex256", "flaot32", object(), ("float32", (-2,))])
def test_what_is_no_type_is_refused(given: Any) -> None:
    with pytest.raises(InvalidInput, match="'x'"):
        to_spec("x", given)


def test_shapes_without_a_batch_run_alone() -> None:
    inputs = {"m": ("float32", (2, 2)), "k": ("int32", ())}
    found = signature_of(lambda m, k: {"y": m * k}, inputs=inputs, outputs={"y": ("float32", (2, 2))})
    assert (found.first_axis, found.inputs[1].shape) == (FirstAxis.FREE, ())
    with pytest.raises(InvalidInput, match="'m' has no batch on its first axis: say the outputs too"):
        signature_of(lambda m, k: {"y": m * k}, inputs=inputs)


def test_outputs_are_found_by_a_trial() -> None:
    def model(x: Array, name: Array) -> dict[str, Any]:
        return {"y": x @ np.ones((3, 2), "f4"), "label": [text.decode() for text in name], "n": x.sum(1) > 0}

    found = signature_of(model, inputs={"x": ("float32", (-1, 3)), "name": "string"})
    assert found.outputs == (
        TensorSpec("y", "float32", (-1, 2)),
        TensorSpec("label", "string"),
        TensorSpec("n", "bool"),
    )


def test_an_example_says_inputs_and_outputs() -> None:
    seen: list[Array] = []

    def model(x: Array) -> Any:
        seen.append(x)
        return x / x.max()

    example = {"x": [[1, 2], [3, 4], [5, 6]]}
    found = signature_of(model, example=example)
    assert (found.inputs, found.outputs) == (
        (TensorSpec("x", "int64", (-1, 2)),),
        (TensorSpec("output", "float64", (-1, 2)),),
    )
    assert seen[0].tolist() == example["x"]


def test_an_unknown_inner_size_stays_unknown() -> None:
    found = signature_of(lambda x: {"y": x}, inputs={"x": ("float32", (-1, -1))})
    assert found.outputs == (TensorSpec("y", "float32", (-1, -1)),)


def test_annotations_say_dtypes() -> None:
    def model(x: np.float32, name: str) -> dict[str, Any]:
        return {"y": x}

    model.__annotations__ = {"x": np.float32, "name": "str"}
    assert signature_of(model).inputs == (TensorSpec("x", "float32"), TensorSpec("name", "string"))


def test_what_is_said_is_not_tried() -> None:
    def model(x: Array) -> Any:
        raise AssertionError("called")

    found = signature_of(model, inputs={"x": "float32"}, outputs={"y": "float32"})
    assert found.outputs == (TensorSpec("y", "float32"),)


def fails(x: Array) -> Any:
    raise ValueError("zeros are no prices")


@pytest.mark.parametrize(
    ("model", "given", "why"),
    [
        (lambda x: x, {}, r"dtype of input 'x' is not known: pass inputs="),
        (lambda inputs: inputs, {}, "dtype of input 'inputs' is not known"),
        (lambda x: x, {"example": {"x": 1.0}}, r"example of 'x' is 1.0: give a batch, such as \[1.0\]"),
        (
            fails,
            {"inputs": {"x": "float32"}},
            "raised ValueError: zeros are no prices; pass outputs=",
        ),
        (
            lambda x: x.sum(),
            {"inputs": {"x": "float32"}},
            r"of shape \[\]: the first axis must be",
        ),
        (lambda a, b: a, {"inputs": {"x": "float32"}}, "takes a, b, but its inputs are x"),
    ],
)
def test_what_cannot_be_found_out_is_asked_for(model: Callable[..., Any], given: dict[str, Any], why: str) -> None:
    with pytest.raises(InvalidInput, match=why):
        signature_of(model, **given)


class Estimator:
    def predict(self, X: Array, check: bool = True) -> Any:  # noqa: N803
        return X.sum(axis=1)


@pytest.mark.parametrize(
    ("model", "inputs"),
    [
        (lambda x: {"y": x}, ["x"]),
        (lambda **given: {"y": given["x"]}, ["x"]),
        (lambda inputs: {"y": inputs["x"]}, ["x"]),
        (lambda x, scale=1: {"y": x * scale}, ["x"]),
        (lambda features: features, ["x"]),
        (np.negative, ["x"]),
    ],
)
def test_a_callable_gets_its_inputs_as_it_takes_them(model: Callable[..., Any], inputs: list[str]) -> None:
    answer = how_to_call(model, inputs)({"x": np.array([1.0])})
    value = answer["y"] if isinstance(answer, dict) else answer
    assert abs(value).tolist() == [1.0]


def test_an_estimator_gets_its_matrix() -> None:
    found = signature_of(callable_of(Estimator()), inputs={"features": ("float64", (-1, 4))})
    assert found.outputs == (TensorSpec("output", "float64"),)


def test_what_cannot_be_asked_is_refused() -> None:
    nothing: Any = [1, 2]
    with pytest.raises(InvalidInput, match=r"list \[1, 2\] cannot be called and has no method predict"):
        callable_of(nothing)
