"""Graphs on a GPU: answers, what they are counted with, bounds that hold, and devices that are not there."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper
from tests.support.models.loading import load_unpublished, outputs, unpublished_loader

from tidegate_serving.contract.errors import ModelFailed, TidegateError
from tidegate_serving.contract.tensors import Array

WIDTH = 2048
HELD = 4 * WIDTH * WIDTH
ON_GPU = {"onnx": {"device": "cuda"}}


@pytest.fixture
def weights() -> Array:
    return np.random.default_rng(0).normal(size=(WIDTH, WIDTH)).astype("f4")


@pytest.fixture
def directory(tmp_path: Path, weights: Array) -> Path:
    nodes = [helper.make_node("MatMul", ["x", "w"], ["product"]), helper.make_node("Tanh", ["product"], ["y"])]
    ends = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", WIDTH]) for name in ("x", "y")]
    graph = helper.make_graph(nodes, "wide", ends[:1], ends[1:], [numpy_helper.from_array(weights, "w")])
    path = tmp_path / "model" / "model.onnx"
    path.parent.mkdir()
    onnx.save(helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9), path)
    return path.parent


@pytest.mark.parametrize("settings", [ON_GPU, {}], ids=["told", "auto"])
def test_a_graph_answers_from_a_gpu_as_numpy_does(
    directory: Path, weights: Array, settings: dict[str, dict[str, str]]
) -> None:
    x = np.random.default_rng(1).normal(size=(5, WIDTH)).astype("f4") / WIDTH
    version = load_unpublished(directory, "onnx", settings=settings)
    np.testing.assert_allclose(outputs(version, {"x": x})["y"], np.tanh(x @ weights), atol=1e-3)
    assert version.servable._session.get_providers()[0] == "CUDAExecutionProvider"  # type: ignore[attr-defined]


def test_a_gpu_is_counted_before_the_load(directory: Path) -> None:
    need = unpublished_loader(directory, "onnx", settings=ON_GPU).estimate()
    assert HELD <= need["gpu:0"] <= 1.3 * HELD
    bounded = {"onnx": {"device": "cuda", "gpu_memory_bytes": "100000000"}}
    need = unpublished_loader(directory, "onnx", settings=bounded).estimate()
    assert need["gpu:0"] == 100_000_000


def test_a_version_that_may_take_less_of_a_gpu_than_it_needs_does_not_serve(directory: Path) -> None:
    bounded = {"onnx": {"device": "cuda", "gpu_memory_bytes": str(HELD // 4)}}
    with pytest.raises(TidegateError, match=r"(?i)memory"):
        load_unpublished(directory, "onnx", settings=bounded)


def test_a_gpu_that_is_not_there_is_refused_and_nothing_else_takes_its_place(directory: Path) -> None:
    with pytest.raises(ModelFailed, match=r"cuda:63"):
        load_unpublished(directory, "onnx", settings={"onnx": {"device": "cuda:63"}})
