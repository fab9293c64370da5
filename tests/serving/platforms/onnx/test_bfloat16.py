"""Graphs of bfloat16 are asked and answer in float32: the graph gets the nearest, as TensorFlow rounds."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from ml_dtypes import bfloat16
from onnx import TensorProto, helper
from tests.support.models.loading import load_published, outputs
from tests.support.models.versions import Draft, publish

from tidegate_operators.steps.infer_signature import infer_signature
from tidegate_serving.contract.errors import Unsupported
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_serving.platforms.onnx.bfloat16 import narrowed, widened
from tidegate_serving.platforms.onnx.signature import declared_signature

ODD = np.array([[1.0, -1.0], [3.14159274, 1e38], [np.inf, -np.inf], [0.0, 1.00390625]], np.float32)


def graph(beside: int = TensorProto.INT64) -> bytes:
    """`y` is twice `x` in bfloat16, and `same` what came beside it."""
    kind = TensorProto.BFLOAT16
    nodes = [
        helper.make_node("Cast", ["x"], ["wide"], to=TensorProto.FLOAT),
        helper.make_node("Add", ["wide", "wide"], ["sum"]),
        helper.make_node("Cast", ["sum"], ["y"], to=kind),
        helper.make_node("Identity", ["beside"], ["same"]),
    ]
    inputs = [helper.make_tensor_value_info(name, of, ["n", 2]) for name, of in (("x", kind), ("beside", beside))]
    outputs = [helper.make_tensor_value_info(name, of, ["n", 2]) for name, of in (("y", kind), ("same", beside))]
    made = helper.make_model(
        helper.make_graph(nodes, "twice", inputs, outputs), opset_imports=[helper.make_opsetid("", 17)], ir_version=8
    )
    return bytes(made.SerializeToString())


SIGNATURE = Signature(
    (TensorSpec("x", "float32", (-1, 2)), TensorSpec("beside", "int64", (-1, 2))),
    (TensorSpec("y", "float32", (-1, 2)), TensorSpec("same", "int64", (-1, 2))),
)


def test_floats_go_in_and_come_out(tmp_path: Path) -> None:
    draft = Draft(platform="onnx", files={"model.onnx": graph()}, signature=SIGNATURE, example={})
    version = load_published(publish(tmp_path, "m", 1, draft))
    numbers = np.arange(2 * len(ODD)).reshape(-1, 2)
    found = outputs(version, {"x": ODD, "beside": numbers})
    np.testing.assert_array_equal(found["y"], widened(narrowed(2 * widened(narrowed(ODD)))))
    assert found["y"][1, 0] == 6.28125
    assert found["same"].tolist() == numbers.tolist()
    assert outputs(version, {"x": ODD[:0], "beside": numbers[:0]})["y"].shape == (0, 2)


def test_texts_beside_them_are_refused_with_what_to_do(tmp_path: Path) -> None:
    draft = Draft(platform="onnx", files={"model.onnx": graph(TensorProto.STRING)}, signature=SIGNATURE, example={})
    with pytest.raises(Unsupported, match="'beside' is of texts, beside tensors of bfloat16: export the model with"):
        load_published(publish(tmp_path, "m", 1, draft))


def test_its_signature_is_read_off_it(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(graph())
    assert (
        infer_signature([tmp_path / "model.onnx"], "onnx", None, None, None).signatures["serving_default"] == SIGNATURE
    )


def test_each_becomes_the_nearest_and_the_even_one_of_two() -> None:
    some = np.random.default_rng(3).integers(0, 1 << 32, 100_000, dtype=np.uint32).view(np.float32)
    some = np.concatenate([some[~np.isnan(some)], ODD.ravel()])
    assert (narrowed(some) == some.astype(bfloat16).view(np.uint16)).all()
    assert np.isnan(widened(narrowed(np.array([np.nan, -np.nan], np.float32)))).all()


def test_who_runs_the_graph_without_us_is_told_that_numpy_lacks_the_type(tmp_path: Path) -> None:
    (tmp_path / "model.onnx").write_bytes(graph())
    with pytest.raises(Unsupported, match=r"'x' is tensor\(bfloat16\): export the model with tensors of numpy's types"):
        declared_signature(tmp_path / "model.onnx")
