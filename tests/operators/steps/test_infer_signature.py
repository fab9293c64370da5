"""Signatures read off real ONNX and scikit-learn models."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import joblib
import numpy as np
import onnx
import pandas as pd
import pyarrow as pa
import pytest
from onnx import TensorProto, helper
from sklearn.feature_extraction.text import CountVectorizer
from sklearn.linear_model import LinearRegression, LogisticRegression, RidgeClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder
from tests.support.models.skops_files import write_skops

from tidegate_operators.steps.infer_signature import infer_signature
from tidegate_operators.steps.publish import read_signatures
from tidegate_serving.contract.errors import InvalidInput, ModelFailed, NotFound, Unsupported
from tidegate_serving.contract.signature import Signature, TensorSpec

FRAME = pd.DataFrame({"size": np.linspace(0, 1, 40), "age": np.arange(40), "late": [0, 1] * 20})
TABLE = pa.Table.from_pandas(FRAME, preserve_index=False)


def graph(path: Path, output_type: Any = None) -> Path:
    """y = column + embedding's first values; inputs are a column [N, 1] and a block [N, 3]."""
    inputs = [
        helper.make_tensor_value_info("column", TensorProto.FLOAT, ["N", 1]),
        helper.make_tensor_value_info("block", TensorProto.DOUBLE, ["N", 3]),
        helper.make_tensor_value_info("name", TensorProto.STRING, ["N", 1]),
    ]
    nodes = [helper.make_node("Identity", ["column"], ["y"]), helper.make_node("Identity", ["block"], ["echo"])]
    outputs = [
        helper.make_tensor_value_info("y", TensorProto.FLOAT, ["N", 1]),
        helper.make_tensor_value_info("echo", TensorProto.DOUBLE, ["N", 3]),
    ]
    model = helper.make_model(
        helper.make_graph(nodes, "g", inputs, outputs), opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )
    path.write_bytes(model.SerializeToString())
    return path


def estimator(path: Path, kind: Any, target: str) -> Path:
    return estimator_of(path, kind, FRAME[target])


def estimator_of(path: Path, kind: Any, target: Any) -> Path:
    write_skops(kind.fit(FRAME[["size", "age"]], target), path)
    return path


def test_onnx_columns_lose_their_axis_of_one_and_blocks_keep_theirs(tmp_path: Path) -> None:
    inferred = infer_signature([graph(tmp_path / "m.onnx")], "onnx", None, None, "at")
    assert inferred.signatures["serving_default"] == Signature(
        inputs=(
            TensorSpec("column", "float32"),
            TensorSpec("block", "float64", (-1, 3)),
            TensorSpec("name", "string"),
            TensorSpec("at", "int64"),
        ),
        outputs=(TensorSpec("y", "float32"), TensorSpec("echo", "float64", (-1, 3))),
    )


def test_the_model_is_found_inside_a_directory(tmp_path: Path) -> None:
    graph(tmp_path / "m.onnx")
    assert infer_signature([tmp_path], "onnx", None, None, None).signatures["serving_default"].outputs


def test_a_binary_classifier_gives_one_probability(tmp_path: Path) -> None:
    path = estimator(tmp_path / "m.skops", LogisticRegression(), "late")
    inferred = infer_signature([path], "sklearn", TABLE, "late", None)
    assert inferred.signatures["serving_default"] == Signature(
        inputs=(TensorSpec("size", "float64"), TensorSpec("age", "int64")),
        outputs=(TensorSpec("probability", "float64"),),
    )
    assert json.loads(inferred.metadata["sklearn.outputs"]) == {"probability": "predict_proba[:,1]"}


def test_outputs_have_the_dtype_and_the_shape_of_what_the_estimator_answers(tmp_path: Path) -> None:
    words = FRAME.assign(kind=np.where(FRAME["late"] == 1, "late", "on time"))
    path = estimator_of(tmp_path / "m.skops", RidgeClassifier(), words["kind"])
    inferred = infer_signature([path], "sklearn", TABLE, "late", None)
    assert inferred.signatures["serving_default"].outputs == (TensorSpec("predict", "string"),)
    path = estimator_of(tmp_path / "n.skops", LinearRegression(), FRAME[["late", "age"]])
    holes = pa.Table.from_pandas(FRAME.assign(size=FRAME["size"].where(FRAME["age"] > 3)), preserve_index=False)
    inferred = infer_signature([path], "sklearn", holes, "late", None)
    assert inferred.signatures["serving_default"].outputs == (TensorSpec("predict", "float64", (-1, 2)),)
    with pytest.raises(InvalidInput, match="has no rows"):
        infer_signature([path], "sklearn", TABLE[:0], "late", None)


def test_a_regressor_gives_what_it_predicts(tmp_path: Path) -> None:
    path = estimator(tmp_path / "m.skops", LinearRegression(), "age")
    inferred = infer_signature([path], "sklearn", TABLE, "age", None)
    assert inferred.signatures["serving_default"].outputs == (TensorSpec("predict", "float64"),)
    assert inferred.metadata == {}


def test_many_classes_give_a_column_each(tmp_path: Path) -> None:
    model = LogisticRegression().fit(FRAME[["size", "age"]], np.array(["b", "c", "a"])[np.arange(40) % 3])
    write_skops(model, tmp_path / "m.skops")
    inferred = infer_signature([tmp_path], "sklearn", TABLE, "late", None)
    assert inferred.signatures["serving_default"].outputs == (TensorSpec("predict_proba", "float64", (-1, 3)),)
    assert json.loads(inferred.metadata["classes"]) == ["a", "b", "c"]


def test_an_empty_text_stands_for_one_that_the_training_data_misses(tmp_path: Path) -> None:
    rows = {"size": [1.0, 2.0, 3.0], "some": ["a", None, "b"], "all": ["a", "b", ""], "both": ["a", None, ""]}
    model = make_pipeline(OneHotEncoder(), LinearRegression()).fit(pd.DataFrame(rows), [1.0, 2.0, 3.0])
    write_skops(model, tmp_path / "m.skops")
    kinds = {"some": pa.dictionary(pa.int32(), pa.string()), "both": pa.large_string()}
    table = pa.table({name: pa.array(values, kinds.get(name)) for name, values in rows.items()})
    found = infer_signature([tmp_path / "m.skops"], "sklearn", table, None, None)
    assert json.loads(found.metadata["sklearn.missing"]) == ["some"]


def test_an_estimator_of_a_matrix_needs_no_training_data(tmp_path: Path) -> None:
    write_skops(LogisticRegression().fit(FRAME[["size", "age"]].to_numpy(), FRAME["late"]), tmp_path / "m.skops")
    inferred = infer_signature([tmp_path / "m.skops"], "sklearn", None, None, "at")
    assert inferred.signatures["serving_default"].inputs == (
        TensorSpec("x", "float64", (-1, 2)),
        TensorSpec("at", "int64"),
    )


def test_a_matrix_may_be_a_column_of_lists(tmp_path: Path) -> None:
    matrix = FRAME[["size", "age"]].to_numpy()
    write_skops(LogisticRegression().fit(matrix, FRAME["late"]), tmp_path / "m.skops")
    table = pa.table({"id": range(40), "vector": list(matrix.astype("f4")), "late": FRAME["late"]})
    inferred = infer_signature([tmp_path / "m.skops"], "sklearn", table, "late", None)
    assert inferred.signatures["serving_default"].inputs == (TensorSpec("vector", "float32", (-1, 2)),)
    assert inferred.signatures["serving_default"].outputs == (TensorSpec("probability", "float64"),)


def test_a_saved_model_tells_all_its_signatures(saved_models: Path) -> None:
    inferred = infer_signature([saved_models / "half_plus_two/1"], "tensorflow", None, None, "at")
    assert {name: signature.input_names for name, signature in inferred.signatures.items()} == {
        "serving_default": ("x", "at"),
        "classify_x_to_y": ("inputs",),
        **{f"regress_{name}": ("inputs",) for name in ("x_to_y", "x_to_y2", "x2_to_y3")},
    }


def test_a_table_brings_its_example_along(tmp_path: Path) -> None:
    (tmp_path / "airports.json").write_text('{"JFK": {"delay": 1.5}}')
    (tmp_path / "notes.txt").write_text("by hand")
    inferred = infer_signature([tmp_path / "airports.json", tmp_path / "notes.txt"], "table", None, None, None)
    assert inferred.example == {"key": "JFK"}
    assert inferred.signatures["serving_default"].outputs == (TensorSpec("delay", "float64"),)


def test_training_data_without_a_fitted_column_is_refused_by_name(tmp_path: Path) -> None:
    path = estimator(tmp_path / "m.skops", LogisticRegression(), "late")
    with pytest.raises(InvalidInput, match="fitted on age"):
        infer_signature([path], "sklearn", TABLE.drop_columns(["age"]), "late", None)


def test_a_model_of_texts_reads_the_one_column_of_text(tmp_path: Path) -> None:
    """Whatever else the training data has, a time stamp say, it cannot read."""
    texts = pa.array([f"{word} parcel" for word in ("late", "fine")] * 20)
    table = TABLE.append_column("note", texts).append_column("sent", pa.array([0] * 40, pa.timestamp("us")))
    model = make_pipeline(CountVectorizer(), LogisticRegression()).fit(texts.to_pylist(), FRAME["late"])
    write_skops(model, tmp_path / "m.skops")
    inferred = infer_signature([tmp_path], "sklearn", table, "late", None)
    assert inferred.signatures["serving_default"].inputs == (TensorSpec("note", "string"),)
    with pytest.raises(InvalidInput, match=r"takes one text, .* several \(note, more\): leave out"):
        infer_signature([tmp_path], "sklearn", table.append_column("more", texts), "late", None)
    with pytest.raises(InvalidInput, match=r"are text there are none \(it has size, age, sent\)"):
        infer_signature([tmp_path], "sklearn", table.drop_columns(["note"]), "late", None)


@pytest.mark.parametrize("name", ["model.joblib", "model.pkl"])
def test_a_pickle_of_ones_own_tells_what_a_skops_file_tells(name: str, tmp_path: Path) -> None:
    joblib.dump(LogisticRegression().fit(FRAME[["size", "age"]], FRAME["late"]), tmp_path / name)
    safe = estimator(tmp_path / "m.skops", LogisticRegression(), "late")
    told = infer_signature([tmp_path / name], "sklearn", TABLE, "late", None, allow_pickle=True)
    assert told == infer_signature([safe], "sklearn", TABLE, "late", None)
    texts = make_pipeline(CountVectorizer(), LogisticRegression()).fit(["good", "bad"], [1, 0])
    joblib.dump(texts, tmp_path / f"texts_{name}")
    alone = infer_signature([tmp_path / f"texts_{name}"], "sklearn", None, None, None, allow_pickle=True)
    assert [spec.dtype for spec in alone.signatures["serving_default"].inputs] == ["string"]
    (tmp_path / "broken.pkl").write_bytes(b"no pickle")
    with pytest.raises(ModelFailed, match=r"broken\.pkl cannot be unpickled"):
        infer_signature([tmp_path / "broken.pkl"], "sklearn", TABLE, "late", None, allow_pickle=True)


def test_what_cannot_be_told_says_what_to_give(tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text("class Model:\n    def predict(self, inputs):\n        return inputs\n")
    with pytest.raises(Unsupported, match="platform 'python': write one as JSON"):
        infer_signature([tmp_path], "python", None, None, None)
    (tmp_path / "model.py").unlink()
    with pytest.raises(InvalidInput, match=r"has no file that ends in \.onnx \(it has none\): publish"):
        infer_signature([tmp_path], "onnx", None, None, None)
    (tmp_path / "model.pkl").write_bytes(b"")
    with pytest.raises(
        InvalidInput, match=r"model\.pkl is a pickle.*set allow_pickle .* if it is your own, save the model with skops"
    ):
        infer_signature([tmp_path / "model.pkl"], "sklearn", TABLE, None, None)
    (tmp_path / "model.pkl").unlink()
    estimator(tmp_path / "m.skops", LogisticRegression(), "late")
    with pytest.raises(InvalidInput, match="give training data"):
        infer_signature([tmp_path], "sklearn", None, None, None)
    (tmp_path / "broken.onnx").write_bytes(b"no graph")
    with pytest.raises(ModelFailed, match=r"(?s)broken\.onnx is no ONNX model.*: export it anew"):
        infer_signature([tmp_path], "onnx", None, None, None)


def test_a_result_that_is_no_tensor_is_refused_by_name(tmp_path: Path) -> None:
    sequence = helper.make_tensor_sequence_value_info("s", TensorProto.FLOAT, None)
    column = helper.make_tensor_value_info("column", TensorProto.FLOAT, ["N", 1])
    nodes = [helper.make_node("SequenceConstruct", ["column"], ["s"])]
    model = helper.make_model(
        helper.make_graph(nodes, "g", [column], [sequence]), opset_imports=[helper.make_opsetid("", 17)], ir_version=9
    )
    onnx.save(model, tmp_path / "m.onnx")
    with pytest.raises(Unsupported, match="'s' is seq"):
        infer_signature([tmp_path], "onnx", None, None, None)


def test_a_signature_file_holds_one_signature_or_several_by_name(tmp_path: Path) -> None:
    one = Signature((TensorSpec("x", "float32"),), (TensorSpec("y", "float32"),))
    path = tmp_path / "signature.json"
    path.write_text(json.dumps(one.to_dict()))
    assert read_signatures(path) == {"serving_default": one}
    path.write_text(json.dumps({"a": one.to_dict(), "b": one.to_dict()}))
    assert read_signatures(path) == {"a": one, "b": one}


@pytest.mark.parametrize(
    ("text", "words"), [("{", "is not JSON"), ("[]", "holds no object"), ('{"inputs": []}', "outputs")]
)
def test_a_signature_file_that_makes_no_sense_is_named(text: str, words: str, tmp_path: Path) -> None:
    path = tmp_path / "signature.json"
    path.write_text(text)
    with pytest.raises(InvalidInput, match=words):
        read_signatures(path)
    with pytest.raises(NotFound, match=r"none\.json is missing"):
        read_signatures(tmp_path / "none.json")
