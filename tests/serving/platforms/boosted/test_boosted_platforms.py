"""XGBoost and LightGBM models, against what the libraries themselves answer."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from tests.support.models.loading import (
    discover,
    load_files,
    load_published,
    load_unpublished,
    outputs,
    unpublished_loader,
)
from tests.support.models.versions import Draft, fill, publish

from tidegate_serving.contract.errors import InvalidInput, ModelFailed, Unsupported
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec

RANDOM = np.random.default_rng(0)
ROWS = 300
CARRIERS = ("AA", "UA", "é")
FRAME = pd.DataFrame(
    {
        "distance": RANDOM.normal(1000, 300, ROWS),
        "carrier": pd.Categorical(RANDOM.choice(CARRIERS, ROWS)),
        "gust": np.where(RANDOM.random(ROWS) < 0.1, np.nan, RANDOM.normal(10, 3, ROWS)),
    }
)
LATE = ((FRAME["distance"] > 1000) ^ (FRAME["carrier"] == "é")).to_numpy().astype(int)
KIND = RANDOM.integers(0, 3, ROWS)
MATRIX = FRAME[["distance", "gust"]].to_numpy()
ADDED = {f"{folder}/{file}": "{}" for folder in ("profile", "expectations") for file in ("a.json", "b.txt")}
Train = Callable[[Any, Any, str], Any]


def train_xgboost(data: Any, truth: Any, objective: str) -> Any:
    import xgboost

    parameters = {"objective": objective, "nthread": 1, "max_depth": 4}
    if objective.startswith("multi"):
        parameters["num_class"] = 3
    return xgboost.train(parameters, xgboost.DMatrix(data, truth, enable_categorical=True), 10)


def train_lightgbm(data: Any, truth: Any, objective: str) -> Any:
    import lightgbm

    parameters = {"objective": objective, "num_threads": 1, "verbose": -1, "min_data_in_leaf": 2}
    if objective.startswith("multi"):
        parameters["num_class"] = 3
    return lightgbm.train(parameters, lightgbm.Dataset(data, truth), 10)


def said_by(model: Any, data: Any, **options: Any) -> Any:
    """The library's own answer."""
    if "xgboost" in type(model).__module__:
        import xgboost

        return model.predict(xgboost.DMatrix(data, enable_categorical=True), **options)
    return model.predict(data, num_threads=1, **options)


PLATFORMS = [
    pytest.param("xgboost", train_xgboost, "model.ubj", "binary:logistic", id="xgboost-ubj"),
    pytest.param("xgboost", train_xgboost, "model.json", "binary:logistic", id="xgboost-json"),
    pytest.param("lightgbm", train_lightgbm, "model.txt", "binary", id="lightgbm"),
]


def saved(model: Any, path: Path) -> Path:
    path.parent.mkdir(parents=True, exist_ok=True)
    model.save_model(str(path))
    return path.parent


def columns(frame: pd.DataFrame, dtype: str) -> dict[str, Any]:
    words = np.array([str(word).encode() for word in frame["carrier"]], dtype=object)
    return {"carrier": words, **{name: frame[name].to_numpy().astype(dtype) for name in ("gust", "distance")}}


@pytest.mark.parametrize(("platform", "train", "file", "objective"), PLATFORMS)
def test_named_columns_and_categories_are_discovered_and_answer_alike(
    tmp_path: Path, platform: str, train: Train, file: str, objective: str
) -> None:
    model = train(FRAME, LATE, objective)
    version = load_unpublished(saved(model, tmp_path / file), platform)
    signature = version.manifest.signatures[SERVING_DEFAULT]
    dtype = signature.inputs[0].dtype
    assert [(spec.name, spec.dtype) for spec in signature.inputs] == [
        ("distance", dtype),
        ("carrier", "string"),
        ("gust", dtype),
    ]
    assert [(spec.name, spec.shape) for spec in signature.outputs] == [("probability", (-1,))]
    found = outputs(version, columns(FRAME, dtype))["probability"]
    assert np.ptp(found) > 0.1
    np.testing.assert_allclose(found, said_by(model, FRAME), rtol=1e-5)


@pytest.mark.parametrize(("platform", "train", "file", "objective"), PLATFORMS)
def test_an_unknown_category_counts_as_missing(
    tmp_path: Path, platform: str, train: Train, file: str, objective: str
) -> None:
    model = train(FRAME, LATE, objective)
    version = load_unpublished(saved(model, tmp_path / file), platform)
    inputs = columns(FRAME[:20], version.manifest.signatures[SERVING_DEFAULT].inputs[0].dtype)
    inputs["carrier"] = np.array([b"never seen"] * 20, dtype=object)
    missing = FRAME[:20].assign(carrier=pd.Categorical([None] * 20, FRAME["carrier"].cat.categories))
    np.testing.assert_allclose(outputs(version, inputs)["probability"], said_by(model, missing), rtol=1e-5)


@pytest.mark.parametrize(
    ("platform", "train", "file", "objective"),
    [
        pytest.param("xgboost", train_xgboost, "model.ubj", "multi:softprob", id="xgboost"),
        pytest.param("lightgbm", train_lightgbm, "model.txt", "multiclass", id="lightgbm"),
    ],
)
def test_a_model_without_names_takes_a_matrix(
    tmp_path: Path, platform: str, train: Train, file: str, objective: str
) -> None:
    model = train(MATRIX, KIND, objective)
    version = load_unpublished(saved(model, tmp_path / file), platform)
    signature = version.manifest.signatures[SERVING_DEFAULT]
    assert [(spec.name, spec.shape) for spec in signature.inputs] == [("x", (-1, 2))]
    assert [(spec.name, spec.shape) for spec in signature.outputs] == [("predict", (-1, 3))]
    found = outputs(version, {"x": MATRIX.astype(signature.inputs[0].dtype)})["predict"]
    np.testing.assert_allclose(found, said_by(model, MATRIX), rtol=1e-5)


@pytest.mark.parametrize(
    ("platform", "train", "file", "objective", "options"),
    [
        (
            "xgboost",
            train_xgboost,
            "model.ubj",
            "binary:logistic",
            {"margin": {"output_margin": True}, "leaf": {"pred_leaf": True}, "contributions": {"pred_contribs": True}},
        ),
        (
            "lightgbm",
            train_lightgbm,
            "model.txt",
            "binary",
            {"margin": {"raw_score": True}, "leaf": {"pred_leaf": True}, "contributions": {"pred_contrib": True}},
        ),
    ],
)
def test_further_results_by_name_beside_an_event_time(
    tmp_path: Path, platform: str, train: Train, file: str, objective: str, options: dict[str, Any]
) -> None:
    model = train(FRAME[["distance", "gust"]], LATE, objective)
    saved(model, tmp_path / "made" / file)
    dtype = "float64"
    inputs = tuple(TensorSpec(name, dtype) for name in ("gust", "at", "distance"))
    results = (
        TensorSpec("margin", dtype),
        TensorSpec("leaf", dtype, (-1, 10)),
        TensorSpec("distance_adds", dtype),
    )
    draft = Draft(
        platform=platform,
        files={
            file: (tmp_path / "made" / file).read_bytes(),
            **ADDED,
        },
        signature=Signature(inputs, results),
        example={"gust": None, "distance": 1.0, "at": 1.0},
        event_time="at",
        metadata={f"{platform}.outputs": '{"distance_adds": "contributions[:,0]"}', f"{platform}.threads": "2"},
    )
    version = load_published(publish(tmp_path, "m", 1, draft))
    found = outputs(version, {name: FRAME.get(name, FRAME["gust"]).to_numpy() for name in ("gust", "at", "distance")})
    told = {name: said_by(model, FRAME[["distance", "gust"]], **kind) for name, kind in options.items()}
    np.testing.assert_allclose(found["margin"], told["margin"], rtol=1e-5)
    np.testing.assert_array_equal(found["leaf"], told["leaf"])
    np.testing.assert_allclose(found["distance_adds"], told["contributions"][:, 0], rtol=1e-5)


@pytest.mark.parametrize(
    ("inputs", "match"),
    [
        ((TensorSpec("distance", "float64"),), "was trained on 'gust'"),
        (tuple(TensorSpec(name, "float64") for name in ("distance", "gust", "tide")), "was not trained on 'tide'"),
        ((TensorSpec("x", "float64", (-1, 3)),), r"takes 2 features: use \[-1, 2\]"),
        ((TensorSpec("distance", "float64", (-1, 2)), TensorSpec("gust", "float64")), "use one column"),
        ((TensorSpec("distance", "string"), TensorSpec("gust", "float64")), "'distance' of m:1 is a string"),
    ],
)
@pytest.mark.parametrize(("platform", "train", "file", "objective"), PLATFORMS[1:])
def test_a_signature_that_does_not_fit_is_refused_at_load(
    tmp_path: Path, platform: str, train: Train, file: str, objective: str, inputs: tuple[TensorSpec, ...], match: str
) -> None:
    saved(train(FRAME[["distance", "gust"]], LATE, objective), tmp_path / "made" / file)
    files = {file: (tmp_path / "made" / file).read_bytes()}
    signature = Signature(inputs, (TensorSpec("predict", "float64"),))
    with pytest.raises(InvalidInput, match=match):
        load_published(publish(tmp_path, "m", 1, Draft(platform, files, signature, example={})))


@pytest.mark.parametrize(("estimator", "rounds"), [(True, (0, 3)), (False, (0, 0))])
def test_a_model_that_stopped_early_answers_as_what_saved_it_does(
    tmp_path: Path, estimator: bool, rounds: tuple[int, int]
) -> None:
    model = train_xgboost(MATRIX, LATE, "binary:logistic")
    model.set_attr(best_iteration="2", scikit_learn="{}" if estimator else None)
    version = load_unpublished(saved(model, tmp_path / "model.ubj"), "xgboost")
    found = outputs(version, {"x": MATRIX.astype("f4")})["probability"]
    np.testing.assert_allclose(found, said_by(model, MATRIX, iteration_range=rounds), rtol=1e-6)


def test_categories_are_told_from_columns_that_never_vary(tmp_path: Path) -> None:
    frame = FRAME.assign(same=pd.Categorical(["one"] * ROWS), flat=1.0)
    frame = frame[["same", "carrier", "flat", "distance"]]
    model = train_lightgbm(frame, LATE, "binary")
    version = load_unpublished(saved(model, tmp_path / "model.txt"), "lightgbm")
    words = {name: np.array([word.encode() for word in frame[name]], dtype=object) for name in ("same", "carrier")}
    numbers = {name: frame[name].to_numpy() for name in ("flat", "distance")}
    found = outputs(version, {**words, **numbers})["probability"]
    np.testing.assert_allclose(found, said_by(model, frame), rtol=1e-6)


@pytest.mark.parametrize(("platform", "file"), [("xgboost", "model.ubj"), ("lightgbm", "model.txt")])
def test_the_estimate_is_a_multiple_of_the_models_files(tmp_path: Path, platform: str, file: str) -> None:
    fill(tmp_path, {file: "x" * 100, **ADDED})
    assert unpublished_loader(tmp_path, platform).estimate() == {"ram": 400}


@pytest.mark.parametrize(("platform", "train", "file", "objective"), PLATFORMS)
def test_what_is_no_model_is_named(tmp_path: Path, platform: str, train: Train, file: str, objective: str) -> None:
    with pytest.raises(ModelFailed, match=f"{file} is no .* model"):
        load_files(tmp_path, platform, {file: "nonsense"})
    whole = saved(train(MATRIX, LATE, objective), tmp_path / "cut" / file)
    (whole / file).write_bytes((whole / file).read_bytes()[:-600])
    with pytest.raises(ModelFailed, match=file):
        load_unpublished(whole, platform)


@pytest.mark.parametrize(("platform", "file"), [("xgboost", "model.ubj"), ("lightgbm", "model.txt")])
def test_a_missing_library_names_its_extra(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, platform: str, file: str
) -> None:
    monkeypatch.setitem(sys.modules, platform, None)
    (tmp_path / file).write_text("x")
    with pytest.raises(Unsupported, match=rf"pip install 'tidegate\[{platform}\]'"):
        discover(tmp_path, platform)
