"""ONNX graphs with one input per column or one matrix, against what onnxruntime itself answers."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import warnings
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.ensemble import HistGradientBoostingClassifier
from sklearn.tree import DecisionTreeClassifier
from tests.support.models.loading import load_published, outputs
from tests.support.models.tabular import EXAMPLE, FRAME, LATE, RANDOM, SIGNATURE, pipeline, tensors, with_files
from tests.support.models.versions import Draft, publish

from tidegate_serving.contract.errors import InvalidInput, ModelFailed, TidegateError, Unsupported
from tidegate_serving.contract.signature import Signature, TensorSpec


def onnx_bytes(model: Any, *, zipmap: bool = False) -> bytes:
    from skl2onnx import to_onnx
    from skl2onnx.common.data_types import FloatTensorType, StringTensorType

    types = [
        ("carrier", StringTensorType([None, 1])),
        ("distance", FloatTensorType([None, 1])),
        ("gust", FloatTensorType([None, 1])),
    ]
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # the converter hands protobuf booleans for integers
        graph = to_onnx(model, initial_types=types, options={"zipmap": zipmap}, target_opset=18)
    return bytes(graph.SerializeToString())


ONNX = Draft(
    platform="onnx",
    signature=Signature(SIGNATURE.inputs, (TensorSpec("probability", "float32"), TensorSpec("label", "int64"))),
    example=EXAMPLE,
    event_time="at",
    metadata={"onnx.outputs": json.dumps({"probability": "probabilities[:,1]"})},
)


@pytest.fixture(scope="module")
def onnx_model() -> bytes:
    return onnx_bytes(pipeline(HistGradientBoostingClassifier(max_iter=20)).fit(FRAME, LATE))


def test_an_onnx_graph_answers_as_onnxruntime_does(tmp_path: Path, onnx_model: bytes) -> None:
    import onnxruntime

    version = load_published(publish(tmp_path, "m", 1, with_files(ONNX, model__onnx=onnx_model)))
    found = outputs(version, tensors(FRAME))
    feed = {name: FRAME[name].to_numpy()[:, None] for name in ("distance", "gust")}
    session = onnxruntime.InferenceSession(onnx_model, providers=["CPUExecutionProvider"])
    feed["carrier"] = FRAME["carrier"].to_numpy(dtype=object)[:, None]
    label, probabilities = session.run(["label", "probabilities"], feed)
    np.testing.assert_allclose(found["probability"], probabilities[:, 1], rtol=0, atol=1e-6)
    assert found["label"].tolist() == label.tolist()


def test_onnxruntime_is_told_to_report_nothing_unless_somebody_wants_it(
    tmp_path: Path, onnx_model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    load_published(publish(tmp_path, "m", 1, with_files(ONNX, model__onnx=onnx_model)))
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "1"
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "0")
    load_published(publish(tmp_path, "m", 2, with_files(ONNX, model__onnx=onnx_model)))
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "0"


def test_strings_that_are_not_utf8_are_the_clients_fault(tmp_path: Path, onnx_model: bytes) -> None:
    version = load_published(publish(tmp_path, "m", 1, with_files(ONNX, model__onnx=onnx_model)))
    with pytest.raises(InvalidInput, match="'carrier' holds a string that is not UTF-8"):
        outputs(version, tensors(FRAME[:1]) | {"carrier": np.array([b"\xff"], dtype=object)})


def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFailed, match=r"model\.onnx"):
        load_published(publish(tmp_path, "m", 1, with_files(ONNX, model__onnx=b"nonsense")))


def test_a_missing_library_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "onnxruntime", None)
    with pytest.raises(Unsupported, match=r"pip install 'tidegate\[onnx\]'"):
        load_published(publish(tmp_path, "m", 1, with_files(ONNX, model__onnx=b"x")))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"metadata": {}}, "no result 'probability' for output 'probability', it has label, probabilities"),
        ({"metadata": {**(ONNX.metadata or {}), "onnx.threads": "none"}}, r"onnx\.threads"),
        ({"event_time": None}, "has no input 'at'"),
        ({"signature": Signature(SIGNATURE.inputs[1:], ONNX.signature.outputs)}, "wants input 'carrier'"),
        ({"metadata": {"onnx.file": "other.onnx"}}, r"names 'other\.onnx'"),
        (
            {"signature": Signature((TensorSpec("carrier", "int64"), *SIGNATURE.inputs[1:]), ONNX.signature.outputs)},
            r"wants input 'carrier' as tensor\(string\), signature 'serving_default' has int64",
        ),
    ],
)
def test_an_onnx_graph_that_does_not_fit_is_refused_at_load(
    tmp_path: Path, onnx_model: bytes, changes: dict[str, Any], match: str
) -> None:
    with pytest.raises(TidegateError, match=match):
        load_published(publish(tmp_path, "m", 1, replace(ONNX, files={"model.onnx": onnx_model}, **changes)))


def test_a_zipmap_becomes_a_matrix(tmp_path: Path) -> None:
    model = pipeline(DecisionTreeClassifier(max_depth=3)).fit(FRAME.fillna(0), LATE)
    whole = with_files(ONNX, model__onnx=onnx_bytes(model, zipmap=True))
    rules = {"onnx.outputs": json.dumps({"probability": "output_probability[:,1]", "label": "output_label"})}
    frame = FRAME.fillna(0)
    version = load_published(publish(tmp_path, "m", 1, replace(whole, metadata=rules)))
    found = outputs(version, tensors(frame))["probability"]
    np.testing.assert_allclose(found, model.predict_proba(frame)[:, 1], rtol=1e-5)


@pytest.mark.parametrize("size", [1, 4])
def test_an_onnx_graph_of_a_fixed_batch_answers_any_number_of_rows(tmp_path: Path, size: int) -> None:
    from onnx import TensorProto, helper

    nodes = [
        helper.make_node("ReduceSum", ["x", "axis"], ["sum"], keepdims=0),
        helper.make_node("Identity", ["x"], ["same"]),
    ]
    shapes = {"sum": [size], "same": [size, 3]}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [size, 3])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in shapes.items()],
        [helper.make_tensor("axis", TensorProto.INT64, [1], [1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    signature = Signature(
        (TensorSpec("x", "float32", (-1, 3)),), (TensorSpec("sum", "float32"), TensorSpec("same", "float32", (-1, 3)))
    )
    whole = Draft(platform="onnx", signature=signature, example={"x": [1.0, 2.0, 3.0]})
    version = load_published(publish(tmp_path, "m", 1, with_files(whole, model__onnx=model.SerializeToString())))
    for rows in (0, 1, 4, 7):
        block = RANDOM.normal(size=(rows, 3)).astype("f4")
        found = outputs(version, {"x": block})
        np.testing.assert_allclose(found["sum"], block.sum(1), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(found["same"], block)


@pytest.mark.parametrize("device", ["cuda", "tensorrt:1"])
def test_a_device_that_onnxruntime_was_built_without_is_refused(tmp_path: Path, onnx_model: bytes, device: str) -> None:
    directory = publish(tmp_path, "m", 1, with_files(ONNX, model__onnx=onnx_model))
    with pytest.raises(
        InvalidInput, match=r"knows the processor only .*: install onnxruntime-gpu in its place, or use"
    ):
        load_published(directory, settings={"onnx": {"device": device}})


CUT_SHORT = """
import os, sys
from pathlib import Path
import numpy as np
from tests.serving.platforms.onnx.test_onnx_platform import weights_beside
from tests.support.models.loading import load_published, outputs
version = load_published(directory := weights_beside(Path(sys.argv[1])))
os.truncate(directory / "deep/weights.bin", 0)
print(outputs(version, {"x": np.zeros((1, 10_000), "f4")})["y"].sum())
"""


def weights_beside(root: Path) -> Path:
    """A published graph that adds ten thousand ones, which lie in a file of their own."""
    import onnx
    from onnx import helper, numpy_helper

    shape = [None, 10_000]
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name in ("x", "y"))
    weights = numpy_helper.from_array(np.ones(10_000, "f4"), "w")
    graph = helper.make_graph([helper.make_node("Add", ["x", "w"], ["y"])], "g", [x], [y], [weights])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    folder = root / "made"
    (folder / "deep").mkdir(parents=True)
    onnx.save(model, folder / "m.onnx", save_as_external_data=True, location="deep/weights.bin", size_threshold=0)
    signature = Signature((TensorSpec("x", "float32", (-1, 10_000)),), (TensorSpec("y", "float32", (-1, 10_000)),))
    files = {name: (folder / name).read_bytes() for name in ("m.onnx", "deep/weights.bin")}
    example = {"x": [0.0] * 10_000}
    return publish(root, "m", 1, Draft(platform="onnx", signature=signature, files=files, example=example))


def test_weights_beside_a_graph_that_are_cut_short_end_nobody(tmp_path: Path) -> None:
    command = [sys.executable, "-c", CUT_SHORT, str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "10000.0\n", done
