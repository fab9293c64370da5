"""Signatures read off graphs whose shapes and types are not all that plain, and what such graphs answer."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper
from tests.support.models.loading import discover, load_unpublished, outputs

from tidegate_serving.contract.errors import InvalidInput, Unsupported
from tidegate_serving.contract.signature import SERVING_DEFAULT, FirstAxis, TensorSpec

X = np.random.default_rng(0).normal(size=(5, 3)).astype("f4")
FLOAT, INT = TensorProto.FLOAT, TensorProto.INT64


def tensor(name: str, shape: Sequence[Any] | None, kind: int = FLOAT) -> Any:
    return helper.make_tensor_value_info(name, kind, shape)


def graph(
    folder: Path, inputs: Sequence[Any], outputs: Sequence[Any], *nodes: Any, constants: Any = (), opset: int = 17
) -> Path:
    made = helper.make_graph(list(nodes), "g", list(inputs), list(outputs), list(constants))
    model = helper.make_model(
        made, opset_imports=[helper.make_opsetid("", opset), helper.make_opsetid("ai.onnx.ml", 1)], ir_version=9
    )
    (folder / "m.onnx").write_bytes(model.SerializeToString())
    return folder


def specs(folder: Path) -> list[TensorSpec]:
    return list(discover(folder, "onnx").signatures[SERVING_DEFAULT].outputs)


RELU = helper.make_node("Relu", ["x"], ["y"])
ROWS_OF_3 = [tensor("x", ["n", 3])]


@pytest.mark.parametrize(("width", "found"), [(3, 3), ("k", -1)])
def test_an_output_of_unknown_rank_is_tried_and_stays_open_where_inputs_are(
    tmp_path: Path, width: Any, found: int
) -> None:
    axis = helper.make_tensor("axis", INT, [1], [1])
    nodes = [helper.make_node("Unsqueeze", ["x", "axis"], ["three"]), helper.make_node("Squeeze", ["three"], ["y"])]
    folder = graph(tmp_path, [tensor("x", ["n", width])], [tensor("y", None)], *nodes, constants=[axis])
    assert specs(folder) == [TensorSpec("y", "float32", (-1, found))]
    np.testing.assert_array_equal(outputs(load_unpublished(folder, "onnx"), {"x": X})["y"], X)


@pytest.mark.parametrize(
    ("output", "node", "why"),
    [
        (tensor("z", []), helper.make_node("ReduceMean", ["x"], ["z"], keepdims=0), "has no axes"),
        (
            tensor("z", ["m", 3]),
            helper.make_node("ReduceMean", ["x"], ["z"], axes=[0]),
            "had 1 rows in a trial with 2: the first axis must be the batch",
        ),
        (
            tensor("z", [2], INT),
            helper.make_node("Shape", ["x"], ["z"]),
            "had 2 rows in a trial with 3: the first axis must be the batch",
        ),
        (
            tensor("z", ["n", 3], TensorProto.FLOAT8E4M3FN),
            helper.make_node("Cast", ["x"], ["z"], to=TensorProto.FLOAT8E4M3FN),
            r"is tensor\(float8e4m3fn\), which cannot be served",
        ),
        (
            helper.make_tensor_sequence_value_info("z", FLOAT, ["n", 3]),
            helper.make_node("SequenceConstruct", ["x"], ["z"]),
            r"is seq\(tensor\(float\)\), which cannot be served",
        ),
    ],
)
def test_an_output_that_cannot_be_served_is_left_out(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, output: Any, node: Any, why: str
) -> None:
    both, alone = tmp_path / "both", tmp_path / "alone"
    both.mkdir()
    alone.mkdir()
    graph(both, ROWS_OF_3, [output, tensor("y", ["n", 3])], node, RELU)
    assert [spec.name for spec in specs(both)] == ["y"]
    assert "left out of its signature: output 'z'" in caplog.text
    assert outputs(load_unpublished(both, "onnx"), {"x": X}).keys() == {"y"}
    assert re.search(f"output 'z' {why}", caplog.text)
    graph(alone, ROWS_OF_3, [output], node)
    if "cannot be served" in why:
        with pytest.raises(Unsupported, match="no output that can be served"):
            specs(alone)
    else:
        assert discover(alone, "onnx").signatures[SERVING_DEFAULT].first_axis is FirstAxis.FREE
        assert outputs(load_unpublished(alone, "onnx"), {"x": X})["z"].size in (1, 2, 3)


def test_a_map_per_row_becomes_a_matrix_also_in_pieces(tmp_path: Path) -> None:
    kind = helper.make_sequence_type_proto(helper.make_map_type_proto(INT, helper.make_tensor_type_proto(FLOAT, [])))
    zip_map = helper.make_node("ZipMap", ["x"], ["z"], domain="ai.onnx.ml", classlabels_int64s=[7, 3, 5])
    for name, rows in (("open", "n"), ("fixed", 2)):
        folder = tmp_path / name
        folder.mkdir()
        graph(
            folder, [tensor("x", [rows, 3])], [helper.make_value_info("z", kind), tensor("y", [rows, 3])], zip_map, RELU
        )
        assert specs(folder)[0] == TensorSpec("z", "float32", (-1, 3))
        found = outputs(load_unpublished(folder, "onnx"), {"x": X})["z"]
        np.testing.assert_array_equal(found, X[:, [1, 2, 0]])  # classes 3, 5 and 7


def test_a_graph_that_cannot_answer_zeros_is_taken_at_its_word(tmp_path: Path) -> None:
    weights = helper.make_tensor("w", FLOAT, [4, 2], np.ones(8))
    node = helper.make_node("MatMul", ["x", "w"], ["y"])
    folder = graph(tmp_path, [tensor("x", ["n", "k"])], [tensor("y", ["n", 2])], node, constants=[weights])
    assert specs(folder) == [TensorSpec("y", "float32", (-1, 2))]
    assert outputs(load_unpublished(folder, "onnx"), {"x": np.ones((3, 4), "f4")})["y"].tolist() == [[4.0, 4.0]] * 3


@pytest.mark.parametrize(
    ("shapes", "given"),
    [
        ({"x": []}, {"x": np.float32(3)}),
        ({"x": ["n", 3], "w": [3, 2]}, {"x": X, "w": np.ones((3, 2), "f4")}),
        ({"x": ["n", 3], "w": ["m"]}, {"x": X, "w": np.ones(2, "f4")}),
        ({"x": ["n", 3], "w": []}, {"x": X, "w": np.float32(2)}),
    ],
)
def test_inputs_without_a_common_batch_run_alone(tmp_path: Path, shapes: Any, given: Any) -> None:
    """Each comes back with the shape that it has."""
    nodes = [helper.make_node("Identity", [name], [f"y_{name}"]) for name in shapes]
    gives = [tensor(f"y_{name}", shape) for name, shape in shapes.items()]
    folder = graph(tmp_path, [tensor(*item) for item in shapes.items()], gives, *nodes)
    assert discover(folder, "onnx").signatures[SERVING_DEFAULT].first_axis is FirstAxis.FREE
    found = outputs(load_unpublished(folder, "onnx"), {name: np.asarray(value) for name, value in given.items()})
    for name, value in given.items():
        np.testing.assert_array_equal(found[f"y_{name}"], value)


@pytest.mark.parametrize(
    ("inputs", "why"),
    [
        (
            [tensor("x", ["n", 3], TensorProto.FLOAT8E4M3FN)],
            r"'x' is tensor\(float8e4m3fn\): export the model with tensors",
        ),
    ],
)
def test_an_input_that_cannot_be_served_is_refused(tmp_path: Path, inputs: Any, why: str) -> None:
    nodes = [helper.make_node("Identity", [one.name], [f"y_{one.name}"]) for one in inputs]
    gives = [helper.make_tensor_value_info(f"y_{one.name}", one.type.tensor_type.elem_type, None) for one in inputs]
    with pytest.raises(InvalidInput, match=f"input {why}"):
        specs(graph(tmp_path, inputs, gives, *nodes, opset=19))
