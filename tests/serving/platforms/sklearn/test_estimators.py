"""Estimators of every kind, without a word about their outputs, against what scikit-learn itself answers."""

from __future__ import annotations

import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.cluster import DBSCAN, KMeans
from sklearn.compose import ColumnTransformer
from sklearn.decomposition import PCA
from sklearn.ensemble import HistGradientBoostingClassifier, IsolationForest, RandomForestClassifier
from sklearn.feature_extraction.text import HashingVectorizer, TfidfVectorizer
from sklearn.feature_selection import SelectKBest, f_classif
from sklearn.linear_model import LogisticRegression, Ridge, RidgeClassifier
from sklearn.mixture import GaussianMixture
from sklearn.multiclass import OneVsRestClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, SplineTransformer
from sklearn.tree import DecisionTreeClassifier
from tests.support.models.loading import discover, load_published, load_unpublished, outputs, unpublished_loader
from tests.support.models.skops_files import skops_bytes, write_skops
from tests.support.models.versions import Draft, publish

from tidegate_serving.contract.errors import InvalidInput, PermissionRefused
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec
from tidegate_serving.platforms.sklearn.files import untrusted_types

RANDOM = np.random.default_rng(0)
ROWS = 60
X = RANDOM.normal(size=(ROWS, 4))
Y = X[:, 0]
TWO = Y > 0
WORDS = np.array(["low", "middle", "high"])[np.digitize(Y, [-0.5, 0.5])]
DAYS = np.datetime64("2026-01-01") + np.digitize(Y, [-0.5, 0.5])
PAIR = np.column_stack([WORDS == "low", TWO])
TEXTS = np.array(["late again", "on time", "great food"] * 20, dtype=object)


def saved(estimator: Any, folder: Path) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    write_skops(estimator, folder / "m.skops")
    return folder


@pytest.mark.parametrize(
    ("estimator", "target", "method", "spec"),
    [
        (Ridge(), Y, "predict", TensorSpec("predict", "float64")),
        (Ridge(), np.column_stack([Y, -Y]), "predict", TensorSpec("predict", "float64", (-1, 2))),
        (RidgeClassifier(), WORDS, "predict", TensorSpec("predict", "string")),
        (RidgeClassifier(), TWO, "predict", TensorSpec("predict", "bool")),
        (LogisticRegression(), WORDS, "predict_proba", TensorSpec("predict_proba", "float64", (-1, 3))),
        (DecisionTreeClassifier(), DAYS, "predict_proba", TensorSpec("predict_proba", "float64", (-1, 3))),
        (RandomForestClassifier(3), PAIR * 1, "predict", TensorSpec("predict", "int64", (-1, 2))),
        (
            OneVsRestClassifier(LogisticRegression()),
            PAIR * 1,
            "predict_proba",
            TensorSpec("predict_proba", "float64", (-1, 2)),
        ),
        (GaussianMixture(2, random_state=0), None, "predict_proba", TensorSpec("predict_proba", "float64", (-1, 2))),
        (KMeans(2, n_init=1), None, "predict", TensorSpec("predict", "int32")),
        (IsolationForest(n_estimators=3), None, "predict", TensorSpec("predict", "int64")),
        (PCA(2), None, "transform", TensorSpec("transform", "float64", (-1, 2))),
    ],
)
def test_the_output_is_what_the_estimator_answers(
    tmp_path: Path, estimator: Any, target: Any, method: str, spec: TensorSpec
) -> None:
    estimator.fit(X, target)
    version = load_unpublished(saved(estimator, tmp_path), "sklearn")
    signature = version.manifest.signatures[SERVING_DEFAULT]
    assert signature == Signature((TensorSpec("x", "float64", (-1, 4)),), (spec,))
    told = getattr(estimator, method)(X)
    found = outputs(version, {"x": X})[method]
    if spec.dtype == "string":
        assert [word.decode() for word in found] == told.tolist()
    else:
        np.testing.assert_allclose(found, told, rtol=1e-12)


def test_what_cannot_say_anything_of_new_rows_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="DBSCAN has none of the methods predict_proba, predict"):
        discover(saved(DBSCAN().fit(X), tmp_path), "sklearn")


def test_an_estimator_that_cannot_answer_the_trial_says_what_to_do(tmp_path: Path) -> None:
    words = OneHotEncoder().fit(WORDS[:, None].astype(object))
    with pytest.raises(InvalidInput, match=r"OneHotEncoder was asked with one row.*write a signature as JSON"):
        discover(saved(words, tmp_path), "sklearn")


@pytest.mark.parametrize("shape", [(-1,), (-1, 1)])
def test_words_come_as_a_column_or_as_a_matrix_and_sparse_answers_are_dense(
    tmp_path: Path, shape: tuple[int, ...]
) -> None:
    matrix = WORDS[:, None].astype(object)
    words = OneHotEncoder().fit(matrix)
    signature = Signature((TensorSpec("word", "string", shape),), (TensorSpec("transform", "float64", (-1, 3)),))
    files = {"m.skops": skops_bytes(words)}
    version = load_published(publish(tmp_path, "m", 1, Draft("sklearn", files, signature, example={})))
    sent = np.array([word.encode() for word in WORDS], dtype=object).reshape([ROWS, *shape[1:]])
    np.testing.assert_array_equal(outputs(version, {"word": sent})["transform"], words.transform(matrix).toarray())


def test_probabilities_of_several_outputs_lie_side_by_side(tmp_path: Path) -> None:
    model = RandomForestClassifier(3).fit(X, PAIR * 1)
    takes, gives = TensorSpec("x", "float64", (-1, 4)), TensorSpec("predict_proba", "float64", (-1, 4))
    signature = Signature((takes,), (gives,))
    files = {"m.skops": skops_bytes(model)}
    version = load_published(publish(tmp_path, "m", 1, Draft("sklearn", files, signature, example={})))
    np.testing.assert_array_equal(outputs(version, {"x": X})["predict_proba"], np.hstack(model.predict_proba(X)))


@pytest.mark.parametrize("vectorizer", [TfidfVectorizer(), HashingVectorizer(n_features=16)])
def test_a_pipeline_that_begins_with_a_vectorizer_takes_texts(tmp_path: Path, vectorizer: Any) -> None:
    model = make_pipeline(vectorizer, LogisticRegression()).fit(TEXTS, TWO)
    version = load_unpublished(saved(model, tmp_path), "sklearn")
    assert version.manifest.signatures[SERVING_DEFAULT].inputs == (TensorSpec("x", "string"),)
    sent = np.array([text.encode() for text in TEXTS], dtype=object)
    told = model.predict_proba(TEXTS)[:, 1]
    np.testing.assert_allclose(outputs(version, {"x": sent})["probability"], told, rtol=1e-12)


def test_a_column_of_a_frame_may_have_an_axis_of_one(tmp_path: Path) -> None:
    frame = pd.DataFrame({"word": WORDS, "size": Y})
    columns = ColumnTransformer([("word", OneHotEncoder(), ["word"])], remainder="passthrough")
    model = make_pipeline(columns, LogisticRegression()).fit(frame, TWO)
    inputs = (TensorSpec("word", "string", (-1, 1)), TensorSpec("size", "float64", (-1, 1)))
    signature = Signature(inputs, (TensorSpec("predict", "bool"),))
    files = {"m.skops": skops_bytes(model)}
    version = load_published(publish(tmp_path, "m", 1, Draft("sklearn", files, signature, example={})))
    sent = np.array([[word.encode()] for word in WORDS], dtype=object)
    assert outputs(version, {"word": sent, "size": Y[:, None]})["predict"].tolist() == model.predict(frame).tolist()


@pytest.mark.parametrize(
    "make",
    [
        lambda: make_pipeline(SelectKBest(f_classif, k=2), LogisticRegression()).fit(X, TWO),
        lambda: make_pipeline(SplineTransformer(), LogisticRegression()).fit(X, TWO),
        lambda: HistGradientBoostingClassifier(max_iter=2, categorical_features=[0]).fit(
            np.column_stack([TWO, X[:, :3]]), TWO
        ),
    ],
    ids=["scores", "splines", "categories"],
)
def test_functions_that_estimators_bring_along_are_trusted(tmp_path: Path, make: Any) -> None:
    model = make()
    data = np.column_stack([TWO, X[:, :3]]).astype("f8")
    found = outputs(load_unpublished(saved(model, tmp_path), "sklearn"), {"x": data})["probability"]
    np.testing.assert_allclose(found, model.predict_proba(data)[:, 1], rtol=1e-12)


def test_the_estimate_counts_what_a_file_holds_unpacked(tmp_path: Path) -> None:
    model = RandomForestClassifier(3).fit(X, TWO)
    estimates = []
    for name, kind in (("plain", zipfile.ZIP_STORED), ("packed", zipfile.ZIP_DEFLATED)):
        (tmp_path / name).mkdir()
        write_skops(model, tmp_path / name / "m.skops", compression=kind)
        estimates.append(unpublished_loader(tmp_path / name, "sklearn").estimate()["ram"])
    assert estimates[0] > 3 * (tmp_path / "packed/m.skops").stat().st_size
    assert estimates[0] == pytest.approx(estimates[1], rel=0.05)


def test_what_a_refused_file_holds_is_named_with_a_cure(tmp_path: Path) -> None:
    model = make_pipeline(FunctionTransformer(np.load), LogisticRegression())
    with pytest.raises(PermissionRefused, match=r"holds numpy\.load.*best_estimator_.*set allow_pickle"):
        discover(saved(model, tmp_path), "sklearn")


@pytest.mark.parametrize(
    "name",
    [
        "builtins.eval",
        "os.system",
        "numpy.load",
        "joblib.load",
        "sklearn.utils.joblib",
        "sklearn.datasets.fetch_openml",
        "sklearn.nowhere.Thing",
        "sklearnx.Model",
        "pandas.DataFrame",
        "scipy.stats._distn_infrastructure.rv_continuous_frozen",
        "scipy.stats._continuous_distns.norm_gen",
        "xgboost.sklearn.XGBModel",
    ],
)
def test_nothing_is_trusted_that_can_run_code(name: str) -> None:
    known = ["numpy.dtype", "sklearn.linear_model._logistic.LogisticRegression", "sklearn.metrics.pairwise.rbf_kernel"]
    assert untrusted_types([name, *known]) == [name]
