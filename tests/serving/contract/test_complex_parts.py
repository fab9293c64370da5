"""Complex numbers where there are none, in JSON and in the log: lists of a real and an imaginary part."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tidegate_operators.steps.publication_checks import check_example
from tidegate_pipelines.rows import arrays_of, plain_values
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import FirstAxis, Signature, TensorSpec
from tidegate_serving.contract.tensors import from_parts, to_parts
from tidegate_serving.platforms.example import default_array, example_inputs
from tidegate_validation.sandbox.examples import default_signature

WAVES = Signature((TensorSpec("z", "complex64", (-1, 2)), TensorSpec("w", "complex128")), (TensorSpec("y", "float32"),))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_parts_are_put_together_and_taken_apart(dtype: str) -> None:
    parts = [[[1.5, -2.25], [0.0, np.inf]], [[-0.0, 3.0], [0.5, 0.25]]]
    made = from_parts(parts, dtype)
    assert (made.dtype.name, made.shape, made[0, 0]) == (dtype, (2, 2), 1.5 - 2.25j)
    assert to_parts(made).tolist() == parts
    for wrong in ([1.0, 2.0, 3.0], [[1.0]], 1.0):
        with pytest.raises(ValueError, match="a list of its real and its imaginary part"):
            from_parts(wrong, dtype)


def test_examples_and_defaults_are_pairs() -> None:
    example = {"z": [[1, 2], [0, -1]], "w": [3, 4]}
    check_example(example, {"serving_default": WAVES})
    found = example_inputs(WAVES, example)
    assert found is not None
    assert {name: array.tolist() for name, array in found.items()} == {"z": [[1 + 2j, -1j]], "w": [3 + 4j]}
    with pytest.raises(InvalidInput, match=r"example's value for input w has shape \[\], but .* has \[2\]"):
        check_example({**example, "w": 3}, {"serving_default": WAVES})
    with pytest.raises(InvalidInput, match="example of 'w' is no complex128: 3"):
        example_inputs(WAVES, {**example, "w": 3})
    free = replace(WAVES, first_axis=FirstAxis.FREE, defaults={"w": [[1, 2]]})
    assert default_array(free, "w").tolist() == [1 + 2j]


def test_rows_of_the_command_line_and_of_receipts_are_pairs() -> None:
    arrays = arrays_of({"z": [[[1, 2], [3, 4]]], "w": [[0, 1]]}, WAVES)
    assert [(name, array.dtype, array.tolist()) for name, array in arrays.items()] == [
        ("z", np.dtype("complex64"), [[1 + 2j, 3 + 4j]]),
        ("w", np.dtype("complex128"), [1j]),
    ]
    assert plain_values(arrays["z"]) == [[[1, 2], [3, 4]]]
    with pytest.raises(InvalidInput, match="input 'w' wants complex128: a complex number is a list of its real and"):
        arrays_of({"z": [[[1, 2], [3, 4]]], "w": [1]}, WAVES)


def test_gates_refuse_them() -> None:
    manifest = Manifest(ServableId("m", 1), "tensorflow", {"serving_default": WAVES}, (), "")
    with pytest.raises(InvalidInput, match=r"of m:1 has complex numbers \(z, w\), which gates cannot judge: give"):
        default_signature(manifest)
