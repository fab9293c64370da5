"""scikit-learn and ONNX models with one input per column, against what the libraries themselves answer."""

from __future__ import annotations

import json
import os
import pickle
import sys
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
import skops.io
from sklearn.compose import ColumnTransformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.linear_model import LogisticRegression
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.tree import DecisionTreeClassifier
from tests.support.versions import Draft, publish

from tidegate_serving.contract.desired_state import VersionReference
from tidegate_serving.contract.errors import InvalidInput, ModelFailed, PermissionRefused, TidegateError, Unsupported
from tidegate_serving.contract.manifest import Manifest, read_manifest
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_serving.platforms.loader import Loaded
from tidegate_serving.platforms.platform import PlatformOptions
from tidegate_serving.platforms.registry import installed_platforms
from tidegate_serving.platforms.tensor_checks import check_outputs
from tidegate_serving.platforms.version_loader import VersionLoader

RANDOM = np.random.default_rng(0)
ROWS = 200
FRAME = pd.DataFrame(
    {
        "carrier": RANDOM.choice(["AA", "UA", "é"], ROWS),
        "distance": RANDOM.normal(1000, 300, ROWS).astype("f4"),
        "gust": np.where(RANDOM.random(ROWS) < 0.1, np.nan, RANDOM.normal(10, 3, ROWS)).astype("f4"),
    }
)
LATE = (FRAME["distance"] + RANDOM.normal(0, 100, ROWS) > 1000).to_numpy()
SIGNATURE = Signature(
    inputs=(
        TensorSpec("carrier", "string"),
        TensorSpec("distance", "float32"),
        TensorSpec("gust", "float32"),
        TensorSpec("at", "int64"),
    ),
    outputs=(TensorSpec("probability", "float64"), TensorSpec("late", "bool")),
)
EXAMPLE = {"carrier": "AA", "distance": 900.0, "gust": None, "at": 1370000000}
OUTPUTS = {"sklearn.outputs": json.dumps({"probability": "predict_proba[:,1]", "late": "predict"})}
TABULAR = Draft(platform="sklearn", signature=SIGNATURE, example=EXAMPLE, event_time="at", metadata=OUTPUTS)


def pipeline(model: Any) -> Pipeline:
    columns = ColumnTransformer(
        [("carrier", OneHotEncoder(handle_unknown="ignore", sparse_output=False), ["carrier"])], remainder="passthrough"
    )
    return make_pipeline(columns, model)


def tensors(frame: pd.DataFrame) -> dict[str, Any]:
    strings = np.array([text.encode() for text in frame["carrier"]], dtype=object)
    numbers = {name: frame[name].to_numpy() for name in ("distance", "gust")}
    return {"carrier": strings, **numbers, "at": np.full(len(frame), 1370000000)}


def load(directory: Path, *, allow_pickle: bool = False) -> Loaded:
    def admit(manifest: Manifest, digest: str) -> None:
        """Everybody."""

    manifest, digest = read_manifest(directory)
    registry = installed_platforms(PlatformOptions(allow_pickle=allow_pickle))
    path = VersionReference(manifest.id.version, directory, digest, manifest.platform)
    return VersionLoader(manifest.id, path, registry, admit).load()


def checked(version: Loaded, inputs: dict[str, Any], rows: int = ROWS) -> dict[str, Any]:
    signature = version.manifest.signatures["serving_default"]
    answer = version.servable.predict("serving_default", inputs)
    assert isinstance(answer, dict)
    return check_outputs(version.manifest.id, signature, rows, answer)


def draft(base: Draft, **files: bytes) -> Draft:
    return Draft(
        platform=base.platform,
        files={name.replace("__", "."): content for name, content in files.items()},
        signature=base.signature,
        example=base.example,
        event_time=base.event_time,
        metadata=base.metadata,
    )


def test_a_skops_pipeline_answers_as_scikit_learn_does(tmp_path: Path) -> None:
    model = pipeline(HistGradientBoostingClassifier(max_iter=20)).fit(FRAME, LATE)
    version = load(publish(tmp_path, "m", 1, draft(TABULAR, model__skops=skops.io.dumps(model))))
    outputs = checked(version, tensors(FRAME))
    np.testing.assert_allclose(outputs["probability"], model.predict_proba(FRAME)[:, 1], rtol=0, atol=1e-12)
    assert outputs["late"].tolist() == model.predict(FRAME).tolist()


def test_an_array_estimator_gets_columns_in_the_signatures_order(tmp_path: Path) -> None:
    signature = Signature((TensorSpec("b", "float64"), TensorSpec("a", "float64")), (TensorSpec("predict", "float64"),))
    data = RANDOM.normal(size=(ROWS, 2))
    model = RandomForestRegressor(5, random_state=0).fit(data, data @ [1, 10])
    whole = Draft(platform="sklearn", signature=signature, example={"a": 1.0, "b": 2.0})
    version = load(publish(tmp_path, "m", 1, draft(whole, model__skops=skops.io.dumps(model))))
    outputs = checked(version, {"b": data[:, 0], "a": data[:, 1]})
    np.testing.assert_array_equal(outputs["predict"], model.predict(data))


def test_an_array_estimator_gets_a_matrix_as_it_is(tmp_path: Path) -> None:
    signature = Signature((TensorSpec("x", "float32", (-1, 3)),), (TensorSpec("predict_proba", "float32", (-1, 2)),))
    data = RANDOM.normal(size=(ROWS, 3)).astype("f4")
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(data, data[:, 0] > 0)
    whole = Draft(platform="sklearn", signature=signature, example={"x": [1.0, 2.0, 3.0]})
    version = load(publish(tmp_path, "m", 1, draft(whole, model__skops=skops.io.dumps(model))))
    np.testing.assert_allclose(checked(version, {"x": data})["predict_proba"], model.predict_proba(data), rtol=1e-6)


def test_pickle_needs_permission(tmp_path: Path) -> None:
    model = pipeline(HistGradientBoostingClassifier(max_iter=5)).fit(FRAME, LATE)
    directory = publish(tmp_path, "m", 1, draft(TABULAR, model__pkl=pickle.dumps(model)))
    with pytest.raises(PermissionRefused, match=r"model\.pkl is a pickle.*--allow-pickle"):
        load(directory)
    assert checked(load(directory, allow_pickle=True), tensors(FRAME))["late"].tolist() == model.predict(FRAME).tolist()


def test_skops_files_may_not_bring_functions(tmp_path: Path) -> None:
    model = make_pipeline(FunctionTransformer(np.log1p), LogisticRegression()).fit(np.ones((2, 1)), [0, 1])
    evil = make_pipeline(FunctionTransformer(pd.read_pickle), LogisticRegression())
    signature = Signature((TensorSpec("x", "float64"),), (TensorSpec("predict", "int64"),))
    whole = Draft(platform="sklearn", signature=signature, example={"x": 1.0})
    load(publish(tmp_path, "good", 1, draft(whole, model__skops=skops.io.dumps(model))))
    with pytest.raises(PermissionRefused, match="read_pickle"):
        load(publish(tmp_path, "evil", 1, draft(whole, model__skops=skops.io.dumps(evil))))


@pytest.mark.parametrize(
    ("changes", "match"),
    [
        ({"metadata": {"sklearn.outputs": "{"}}, r"sklearn\.outputs"),
        ({"metadata": {"sklearn.outputs": '{"late": "predict["}'}}, r"neither NAME|sklearn\.outputs"),
        ({"metadata": {}}, "no method 'probability' for output 'probability'"),
        ({"metadata": {"sklearn.outputs": '{"late": "fit", "probability": "predict"}'}}, "no method 'fit'"),
        ({"event_time": None}, "not fitted on column 'at'"),
        (
            {"signature": Signature(SIGNATURE.inputs[1:], SIGNATURE.outputs)},
            "fitted on column 'carrier', which signature 'serving_default' does not have",
        ),
    ],
)
def test_a_signature_that_does_not_fit_is_refused_at_load(tmp_path: Path, changes: dict[str, Any], match: str) -> None:
    model = pipeline(HistGradientBoostingClassifier(max_iter=5)).fit(FRAME, LATE)
    values = {name: getattr(TABULAR, name) for name in ("platform", "signature", "example", "event_time", "metadata")}
    files = {"model.skops": skops.io.dumps(model)}
    with pytest.raises(InvalidInput, match=match):
        load(publish(tmp_path, "m", 1, Draft(files=files, **{**values, **changes})))


@pytest.mark.parametrize(("file", "platform"), [("model__skops", "sklearn"), ("model__onnx", "onnx")])
def test_a_file_that_is_no_model_is_named(tmp_path: Path, file: str, platform: str) -> None:
    whole = Draft(platform=platform, signature=SIGNATURE, example=EXAMPLE, event_time="at", metadata=OUTPUTS)
    with pytest.raises(ModelFailed, match=file.replace("__", r"\.")):
        load(publish(tmp_path, "m", 1, draft(whole, **{file: b"nonsense"})))


@pytest.mark.parametrize(("platform", "module"), [("onnx", "onnxruntime"), ("sklearn", "skops")])
def test_a_missing_library_names_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, module: str
) -> None:
    monkeypatch.setitem(sys.modules, module, None)
    suffix = "onnx" if platform == "onnx" else "skops"
    whole = Draft(platform=platform, signature=SIGNATURE, example=EXAMPLE)
    with pytest.raises(Unsupported, match=rf"pip install tidegate\[{platform}\]"):
        load(publish(tmp_path, "m", 1, draft(whole, **{f"model__{suffix}": b"x"})))


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

    version = load(publish(tmp_path, "m", 1, draft(ONNX, model__onnx=onnx_model)))
    outputs = checked(version, tensors(FRAME))
    feed = {name: FRAME[name].to_numpy()[:, None] for name in ("distance", "gust")}
    session = onnxruntime.InferenceSession(onnx_model, providers=["CPUExecutionProvider"])
    feed["carrier"] = FRAME["carrier"].to_numpy(dtype=object)[:, None]
    label, probabilities = session.run(["label", "probabilities"], feed)
    np.testing.assert_allclose(outputs["probability"], probabilities[:, 1], rtol=0, atol=1e-6)
    assert outputs["label"].tolist() == label.tolist()


def test_onnxruntime_is_told_to_report_nothing_unless_somebody_wants_it(
    tmp_path: Path, onnx_model: bytes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ORT_DISABLE_TELEMETRY", raising=False)
    load(publish(tmp_path, "m", 1, draft(ONNX, model__onnx=onnx_model)))
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "1"
    monkeypatch.setenv("ORT_DISABLE_TELEMETRY", "0")
    load(publish(tmp_path, "m", 2, draft(ONNX, model__onnx=onnx_model)))
    assert os.environ["ORT_DISABLE_TELEMETRY"] == "0"


def test_strings_that_are_not_utf8_are_the_clients_fault(tmp_path: Path, onnx_model: bytes) -> None:
    inputs = tensors(FRAME[:1]) | {"carrier": np.array([b"\xff"], dtype=object)}
    with pytest.raises(InvalidInput, match="'carrier' holds a string that is not UTF-8"):
        checked(load(publish(tmp_path, "m", 1, draft(ONNX, model__onnx=onnx_model))), inputs, 1)
    model = pipeline(HistGradientBoostingClassifier(max_iter=5)).fit(FRAME, LATE)
    version = load(publish(tmp_path, "n", 1, draft(TABULAR, model__skops=skops.io.dumps(model))))
    with pytest.raises(InvalidInput, match="'carrier' holds a string that is not UTF-8"):
        checked(version, inputs, 1)


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
    values = {name: getattr(ONNX, name) for name in ("platform", "signature", "example", "event_time", "metadata")}
    with pytest.raises(TidegateError, match=match):
        load(publish(tmp_path, "m", 1, Draft(files={"model.onnx": onnx_model}, **{**values, **changes})))


def test_a_zipmap_becomes_a_matrix(tmp_path: Path) -> None:
    model = pipeline(DecisionTreeClassifier(max_depth=3)).fit(FRAME.fillna(0), LATE)
    whole = draft(ONNX, model__onnx=onnx_bytes(model, zipmap=True))
    rules = {"onnx.outputs": json.dumps({"probability": "output_probability[:,1]", "label": "output_label"})}
    frame = FRAME.fillna(0)
    version = load(publish(tmp_path, "m", 1, Draft(**{**whole.__dict__, "metadata": rules})))
    found = checked(version, tensors(frame))["probability"]
    np.testing.assert_allclose(found, model.predict_proba(frame)[:, 1], rtol=1e-5)


@pytest.mark.parametrize("size", [1, 4])
def test_an_onnx_graph_of_a_fixed_batch_answers_any_number_of_rows(tmp_path: Path, size: int) -> None:
    from onnx import TensorProto, helper

    nodes = [
        helper.make_node("ReduceSum", ["x", "axis"], ["sum"], keepdims=0),
        helper.make_node("Identity", ["x"], ["same"]),
    ]
    outputs = {"sum": [size], "same": [size, 3]}
    graph = helper.make_graph(
        nodes,
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [size, 3])],
        [helper.make_tensor_value_info(name, TensorProto.FLOAT, shape) for name, shape in outputs.items()],
        [helper.make_tensor("axis", TensorProto.INT64, [1], [1])],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=9)
    signature = Signature(
        (TensorSpec("x", "float32", (-1, 3)),), (TensorSpec("sum", "float32"), TensorSpec("same", "float32", (-1, 3)))
    )
    whole = Draft(platform="onnx", signature=signature, example={"x": [1.0, 2.0, 3.0]})
    version = load(publish(tmp_path, "m", 1, draft(whole, model__onnx=model.SerializeToString())))
    for rows in (0, 1, 4, 7):
        block = RANDOM.normal(size=(rows, 3)).astype("f4")
        found = checked(version, {"x": block}, rows)
        np.testing.assert_allclose(found["sum"], block.sum(1), rtol=1e-5, atol=1e-6)
        np.testing.assert_array_equal(found["same"], block)
