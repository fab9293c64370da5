"""Graphs whose whole numbers are scaled by all rows of a call."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import onnx
import pyarrow as pa
import pytest
from onnx import TensorProto, helper, numpy_helper
from onnxruntime.quantization import quantize_dynamic
from tests.support.models.versions import Draft, publish
from tests.validation.robustness.examined import LIMITS

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_validation.case import Case, Version
from tidegate_validation.robustness.gate import examine
from tidegate_validation.robustness.input_domain import input_domains
from tidegate_validation.robustness.stages.batches import is_quantised_dynamically

WIDTH = 8


def graph(root: Path, *, quantised: bool, by_batch: bool) -> bytes:
    """A layer of weights; by ONNX Runtime's dynamic quantisation, or less the most of its batch, as asked."""
    random = np.random.default_rng(1)
    tensors = [numpy_helper.from_array(random.normal(0, 1, (WIDTH, 1)).astype(np.float32), "weights")]
    nodes = [helper.make_node("MatMul", ["x", "weights"], ["y" if not by_batch else "whole"])]
    if by_batch:
        tensors.append(numpy_helper.from_array(np.array([0], np.int64), "axis"))
        nodes += [
            helper.make_node("ReduceMax", ["whole", "axis"], ["most"], keepdims=1),
            helper.make_node("Sub", ["whole", "most"], ["y"]),
        ]
    x, y = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, width])
        for name, width in (("x", WIDTH), ("y", 1))
    )
    made = helper.make_model(
        helper.make_graph(nodes, "g", [x], [y], tensors), opset_imports=[helper.make_opsetid("", 18)], ir_version=9
    )
    path = root / "whole.onnx"
    onnx.save(made, path)
    if quantised:
        quantize_dynamic(path, path := root / "int8.onnx")
    return path.read_bytes()


@pytest.mark.parametrize(("quantised", "by_batch"), [(True, False), (False, True), (False, False)])
def test_a_graph_that_is_quantised_dynamically_is_told_why_its_rows_depend_on_the_batch(
    tmp_path: Path, quantised: bool, by_batch: bool
) -> None:
    signature = Signature((TensorSpec("x", "float32", (-1, WIDTH)),), (TensorSpec("y", "float32", (-1, 1)),))
    files = {"model.onnx": graph(tmp_path, quantised=quantised, by_batch=by_batch)}
    draft = Draft(platform="onnx", signature=signature, files=files, example={"x": [0.5] * WIDTH})
    version = Version.read(publish(tmp_path, "m", 1, draft))
    rows = np.random.default_rng(2).normal(0, 1, (300, WIDTH)).astype(np.float32)
    table = pa.table({"x": pa.FixedSizeListArray.from_arrays(rows.reshape(-1), WIDTH)})
    findings = examine(Case(version, None, table, ""), input_domains(signature, None, table, None), LIMITS)
    found = [one for one in findings if (one.check, one.subject) == ("batch", "batch size")]
    outcome = Outcome.FAIL if quantised or by_batch else Outcome.PASS
    assert [one.outcome for one in found] == [outcome], found
    assert ("its ONNX graph is quantised dynamically" in found[0].sentence) == quantised


def test_what_is_no_graph_is_not_quantised(tmp_path: Path) -> None:
    (tmp_path / "folder.onnx").mkdir()
    (tmp_path / "empty.onnx").touch()
    assert not is_quantised_dynamically(tmp_path)
    (tmp_path / "folder.onnx" / "int8.onnx").write_bytes(graph(tmp_path, quantised=True, by_batch=False))
    assert is_quantised_dynamically(tmp_path)
