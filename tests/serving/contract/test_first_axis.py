"""Signatures whose first axis is no batch: what they may hold, how they are written down, and who refuses them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import FirstAxis, Signature, TensorSpec
from tidegate_serving.platforms.example import default_array, example_inputs
from tidegate_serving.platforms.tensor_checks import check_inputs, check_outputs
from tidegate_validation.sandbox.examples import default_signature

ID = ServableId("m", 1)
X, K = TensorSpec("x", "float32", (-1, 2)), TensorSpec("k", "int32", ())
FREE = Signature((X, K), (TensorSpec("y", "float32", (), unknown_rank=True),), first_axis=FirstAxis.FREE)
ROWS = Signature((X,), (TensorSpec("y", "float32"),))


@pytest.mark.parametrize("spec", [K, TensorSpec("x", "float32", (3,)), TensorSpec("x", "float32", (), True)])
def test_a_batch_needs_a_first_axis_of_any_size(spec: TensorSpec) -> None:
    with pytest.raises(InvalidInput, match=r"the first axis is the batch, -1; .* 'free'"):
        Signature((spec,), (TensorSpec("y", "float32"),))


def test_it_is_written_down_only_where_it_is_no_batch() -> None:
    full = replace(FREE, defaults={"k": 3})
    assert Signature.from_dict(full.to_dict()) == full
    assert full.to_dict()["first_axis"] == "free"
    assert full.to_dict()["outputs"] == [{"name": "y", "dtype": "float32", "shape": [], "unknown_rank": True}]
    assert set(ROWS.to_dict()) == {"method_name", "inputs", "outputs"}
    assert Signature.from_dict(ROWS.to_dict()).first_axis is FirstAxis.BATCH
    with pytest.raises(InvalidInput, match="first axis 'second': use one of batch, assumed, free"):
        Signature.from_dict({**ROWS.to_dict(), "first_axis": "second"})


def test_defaults_belong_to_inputs_and_fit_them() -> None:
    with pytest.raises(InvalidInput, match="default for 'z', which is none of its inputs"):
        replace(FREE, defaults={"z": 1})
    found = default_array(replace(FREE, defaults={"k": 3}), "k")
    assert (found.dtype, found.shape, found.tolist()) == (np.dtype("int32"), (), 3)
    with pytest.raises(InvalidInput, match=r"default of 'k' has shape \[1\]"):
        default_array(replace(FREE, defaults={"k": [3]}), "k")


def test_wholes_are_checked_by_rank_and_have_no_rows() -> None:
    x = np.ones((5, 2), "f4")
    assert check_inputs(FREE, {"x": x, "k": np.array(1, "i4")}) is None
    with pytest.raises(InvalidInput, match=r"'k' has shape \[1\]"):
        check_inputs(FREE, {"x": x, "k": np.array([1], "i4")})
    assert check_outputs(ID, FREE, None, {"y": 2.0})["y"].shape == ()
    two = replace(ROWS, inputs=(X, TensorSpec("z", "float32")), first_axis=FirstAxis.ASSUMED)
    assert check_inputs(two, {"x": x, "z": np.ones(3, "f4")}) is None
    assert check_inputs(two, {"x": x, "z": np.ones(5, "f4")}) == 5
    assert check_outputs(ID, two, 5, {"y": np.ones(2, "f4")})["y"].shape == (2,)


def test_the_example_of_a_whole_is_a_whole() -> None:
    found = example_inputs(FREE, {"x": [[1, 2]], "k": 3})
    assert found is not None
    assert (found["x"].shape, found["k"].shape) == ((1, 2), ())


def test_gates_refuse_what_has_no_rows() -> None:
    manifest = Manifest(ID, "tensorflow", {"serving_default": FREE}, (), "")
    with pytest.raises(InvalidInput, match="signature 'serving_default' of m:1 takes no rows"):
        default_signature(manifest)
    assert default_signature(replace(manifest, signatures={"serving_default": ROWS}))[0] == "serving_default"
