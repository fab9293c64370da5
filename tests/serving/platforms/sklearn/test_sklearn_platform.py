"""scikit-learn models with one input per column, against what scikit-learn itself answers."""

from __future__ import annotations

import json
import pickle
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.ensemble import HistGradientBoostingClassifier, RandomForestRegressor
from sklearn.linear_model import LinearRegression, LogisticRegression
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from tests.support.models.loading import load_published, outputs
from tests.support.models.skops_files import skops_bytes
from tests.support.models.tabular import EXAMPLE, FRAME, LATE, RANDOM, ROWS, SIGNATURE, pipeline, tensors, with_files
from tests.support.models.versions import Draft, publish

from tidegate_serving.contract.errors import InvalidInput, ModelFailed, PermissionRefused, Unsupported
from tidegate_serving.contract.signature import Signature, TensorSpec

OUTPUTS = {"sklearn.outputs": json.dumps({"probability": "predict_proba[:,1]", "late": "predict"})}
TABULAR = Draft(platform="sklearn", signature=SIGNATURE, example=EXAMPLE, event_time="at", metadata=OUTPUTS)


def test_a_skops_pipeline_answers_as_scikit_learn_does(tmp_path: Path) -> None:
    model = pipeline(HistGradientBoostingClassifier(max_iter=20)).fit(FRAME, LATE)
    version = load_published(publish(tmp_path, "m", 1, with_files(TABULAR, model__skops=skops_bytes(model))))
    found = outputs(version, tensors(FRAME))
    np.testing.assert_allclose(found["probability"], model.predict_proba(FRAME)[:, 1], rtol=0, atol=1e-12)
    assert found["late"].tolist() == model.predict(FRAME).tolist()


def test_an_array_estimator_gets_columns_in_the_signatures_order(tmp_path: Path) -> None:
    signature = Signature((TensorSpec("b", "float64"), TensorSpec("a", "float64")), (TensorSpec("predict", "float64"),))
    data = RANDOM.normal(size=(ROWS, 2))
    model = RandomForestRegressor(5, random_state=0).fit(data, data @ [1, 10])
    whole = Draft(platform="sklearn", signature=signature, example={"a": 1.0, "b": 2.0})
    version = load_published(publish(tmp_path, "m", 1, with_files(whole, model__skops=skops_bytes(model))))
    found = outputs(version, {"b": data[:, 0], "a": data[:, 1]})
    np.testing.assert_array_equal(found["predict"], model.predict(data))


def test_an_array_estimator_gets_a_matrix_as_it_is(tmp_path: Path) -> None:
    signature = Signature((TensorSpec("x", "float32", (-1, 3)),), (TensorSpec("predict_proba", "float32", (-1, 2)),))
    data = RANDOM.normal(size=(ROWS, 3)).astype("f4")
    model = make_pipeline(StandardScaler(), LogisticRegression()).fit(data, data[:, 0] > 0)
    whole = Draft(platform="sklearn", signature=signature, example={"x": [1.0, 2.0, 3.0]})
    version = load_published(publish(tmp_path, "m", 1, with_files(whole, model__skops=skops_bytes(model))))
    np.testing.assert_allclose(outputs(version, {"x": data})["predict_proba"], model.predict_proba(data), rtol=1e-6)


def test_whole_numbers_beside_a_fraction_stay_whole(tmp_path: Path) -> None:
    shops = pd.DataFrame({"shop": [2**60, 2**60 + 1, 2**60], "price": [1.5, 2.5, 3.5]})
    model = make_pipeline(make_column_transformer((OneHotEncoder(), ["shop"])), LinearRegression()).fit(
        shops, [0, 1, 0]
    )
    takes = (TensorSpec("shop", "int64"), TensorSpec("price", "float64"))
    whole = Draft("sklearn", signature=Signature(takes, (TensorSpec("predict", "float64"),)), example={})
    version = load_published(publish(tmp_path, "m", 1, with_files(whole, model__skops=skops_bytes(model))))
    asked = {str(name): shops[name].to_numpy() for name in shops}
    np.testing.assert_allclose(outputs(version, asked)["predict"], [0, 1, 0], atol=1e-9)


CITIES = pd.DataFrame({"city": ["Paris", None, "Oslo", None, "Rome", "Paris"], "kind": ["a", "b", "", "b", "a", ""]})
IN_CITIES = Signature((TensorSpec("city", "string"), TensorSpec("kind", "string")), (TensorSpec("predict", "float64"),))


def test_an_empty_text_is_missing_where_the_metadata_say_so(tmp_path: Path) -> None:
    model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LinearRegression()).fit(CITIES, range(6))
    whole = Draft(platform="sklearn", signature=IN_CITIES, example={"city": "Oslo", "kind": "a"})
    whole = replace(whole, metadata={"sklearn.missing": '["city"]'})
    version = load_published(publish(tmp_path, "m", 1, with_files(whole, model__skops=skops_bytes(model))))
    texts = {name: [text if isinstance(text, str) else "" for text in CITIES[name]] for name in ("city", "kind")}
    asked = {name: np.array([text.encode() for text in column], object) for name, column in texts.items()}
    told = model.predict(CITIES)
    np.testing.assert_allclose(outputs(version, asked)["predict"], told, rtol=1e-12)
    alone = [outputs(version, {name: column[[row]] for name, column in asked.items()})["predict"] for row in range(6)]
    np.testing.assert_allclose(np.concatenate(alone), told, rtol=1e-12)


@pytest.mark.parametrize("text", ["city", '{"city": 1}', "[1]"])
def test_metadata_of_missing_texts_are_a_list_of_names(tmp_path: Path, text: str) -> None:
    model = make_pipeline(OneHotEncoder(handle_unknown="ignore"), LinearRegression()).fit(CITIES, range(6))
    whole = Draft(platform="sklearn", signature=IN_CITIES, example={"city": "Oslo", "kind": "a"})
    whole = replace(whole, metadata={"sklearn.missing": text})
    directory = publish(tmp_path, "m", 1, with_files(whole, model__skops=skops_bytes(model)))
    with pytest.raises(InvalidInput, match=r"metadata 'sklearn\.missing' of m:1 is"):
        load_published(directory)


def test_pickle_needs_permission(tmp_path: Path) -> None:
    model = pipeline(HistGradientBoostingClassifier(max_iter=5)).fit(FRAME, LATE)
    directory = publish(tmp_path, "m", 1, with_files(TABULAR, model__pkl=pickle.dumps(model)))
    with pytest.raises(PermissionRefused, match=r"model\.pkl is a pickle.*set allow_pickle"):
        load_published(directory)
    assert (
        outputs(load_published(directory, allow_pickle=True), tensors(FRAME))["late"].tolist()
        == model.predict(FRAME).tolist()
    )


def test_skops_files_may_not_bring_functions(tmp_path: Path) -> None:
    model = make_pipeline(FunctionTransformer(np.log1p), LogisticRegression()).fit(np.ones((2, 1)), [0, 1])
    evil = make_pipeline(FunctionTransformer(pd.read_pickle), LogisticRegression())
    signature = Signature((TensorSpec("x", "float64"),), (TensorSpec("predict", "int64"),))
    whole = Draft(platform="sklearn", signature=signature, example={"x": 1.0})
    load_published(publish(tmp_path, "good", 1, with_files(whole, model__skops=skops_bytes(model))))
    with pytest.raises(PermissionRefused, match="read_pickle"):
        load_published(publish(tmp_path, "evil", 1, with_files(whole, model__skops=skops_bytes(evil))))


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
    changed = replace(TABULAR, files={"model.skops": skops_bytes(model)}, **changes)
    with pytest.raises(InvalidInput, match=match):
        load_published(publish(tmp_path, "m", 1, changed))


def test_strings_that_are_not_utf8_are_the_clients_fault(tmp_path: Path) -> None:
    model = pipeline(HistGradientBoostingClassifier(max_iter=5)).fit(FRAME, LATE)
    version = load_published(publish(tmp_path, "m", 1, with_files(TABULAR, model__skops=skops_bytes(model))))
    with pytest.raises(InvalidInput, match="'carrier' holds a string that is not UTF-8"):
        outputs(version, tensors(FRAME[:1]) | {"carrier": np.array([b"\xff"], dtype=object)})


def test_a_file_that_is_no_model_is_named(tmp_path: Path) -> None:
    with pytest.raises(ModelFailed, match=r"model\.skops"):
        load_published(publish(tmp_path, "m", 1, with_files(TABULAR, model__skops=b"nonsense")))


def test_a_missing_library_names_its_extra(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "skops", None)
    with pytest.raises(Unsupported, match=r"pip install 'tidegate\[sklearn\]'"):
        load_published(publish(tmp_path, "m", 1, with_files(TABULAR, model__skops=b"x")))
