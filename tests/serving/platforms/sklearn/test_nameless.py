"""Numbers by name go to an estimator as a matrix, if that is all the same to it, and as a DataFrame if not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.base import BaseEstimator, clone
from sklearn.calibration import CalibratedClassifierCV
from sklearn.cluster import KMeans
from sklearn.compose import make_column_transformer
from sklearn.ensemble import (
    BaggingClassifier,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    IsolationForest,
    RandomForestClassifier,
    VotingClassifier,
)
from sklearn.feature_selection import SelectKBest
from sklearn.impute import SimpleImputer
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.naive_bayes import GaussianNB
from sklearn.neighbors import KNeighborsClassifier
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, OneHotEncoder, StandardScaler
from sklearn.svm import SVC

from tidegate_serving.contract.tensors import Array
from tidegate_serving.platforms.sklearn import estimators
from tidegate_serving.platforms.sklearn.estimators import METHODS, Estimator
from tidegate_serving.platforms.sklearn.nameless import nameless

RANDOM = np.random.default_rng(3)
NAMES = ["distance", "hour", "delay", "price"]
FRAME = pd.DataFrame(RANDOM.normal(size=(200, len(NAMES))), columns=NAMES)
LATE = (FRAME["delay"] > FRAME["hour"]).to_numpy()
SENT: dict[str, Array] = {name: RANDOM.normal(size=33) for name in NAMES}


class Mine(LogisticRegression):  # type: ignore[misc]
    """Somebody's own, who may look at the columns."""


def _hours(frame: pd.DataFrame) -> Any:
    return frame[["hour", "delay"]]


def _asked(fitted: Any) -> Estimator:
    """An estimator as the platform asks it."""
    estimator = Estimator(fitted)
    estimator.leave_out_names([method for method in METHODS if estimator.has(method)])
    return estimator


@pytest.mark.parametrize(
    "unfitted",
    [
        LogisticRegression(),
        Ridge(),
        RandomForestClassifier(5, random_state=0),
        GradientBoostingClassifier(n_estimators=5),
        HistGradientBoostingClassifier(max_iter=5),
        BaggingClassifier(n_estimators=3, random_state=0),
        IsolationForest(n_estimators=3, random_state=0),
        KNeighborsClassifier(3),
        GaussianNB(),
        SVC(),
        KMeans(3, n_init=1, random_state=0),
        MLPClassifier((4,), max_iter=5000, random_state=0, tol=1e-1),
        StandardScaler(),
        make_pipeline(StandardScaler(), LogisticRegression()),
        make_pipeline(SimpleImputer(add_indicator=True), SelectKBest(k=2), make_pipeline(StandardScaler(), SVC())),
    ],
    ids=lambda one: type(one).__name__,
)
def test_a_matrix_is_answered_bit_for_bit_as_a_frame_is(unfitted: BaseEstimator) -> None:
    fitted = clone(unfitted).fit(FRAME, LATE)
    estimator, frame = _asked(fitted), pd.DataFrame(SENT)
    rows = estimator.rows(SENT, NAMES)
    assert isinstance(rows, np.ndarray)
    with np.errstate(divide="ignore"):  # the logarithm of a probability of zero
        for method in filter(estimator.has, METHODS):
            told = getattr(fitted, method)(frame)
            np.testing.assert_array_equal(estimator.answer(method, rows), told, strict=True)
    assert list(fitted.feature_names_in_) == NAMES


@pytest.mark.parametrize(
    "unfitted",
    [
        Mine(),
        make_pipeline(FunctionTransformer(_hours), LogisticRegression()),
        make_pipeline(make_column_transformer((StandardScaler(), ["delay"])), LogisticRegression()),
        make_pipeline(make_column_transformer(("passthrough", ["delay", "hour"])), LogisticRegression()),
        make_pipeline(OneHotEncoder(handle_unknown="ignore"), LogisticRegression()),
        make_pipeline(StandardScaler().set_output(transform="pandas"), LogisticRegression()),
        CalibratedClassifierCV(LogisticRegression(), cv=2),
        VotingClassifier([("one", LogisticRegression()), ("two", GaussianNB())]),
        VotingClassifier([("mine", Mine())]),
    ],
    ids=lambda one: type(one).__name__,
)
def test_who_may_read_more_than_numbers_gets_a_frame(unfitted: BaseEstimator) -> None:
    fitted = clone(unfitted).fit(FRAME, LATE)
    assert nameless(fitted) is None
    estimator = _asked(fitted)
    rows = estimator.rows(SENT, NAMES)
    assert isinstance(rows, pd.DataFrame)
    pd.testing.assert_frame_equal(rows, pd.DataFrame(SENT)[list(rows.columns)])
    np.testing.assert_array_equal(estimator.answer("predict", rows), fitted.predict(pd.DataFrame(SENT)), strict=True)


def test_whole_numbers_and_columns_of_one_become_what_a_frame_makes_of_them() -> None:
    fitted = LogisticRegression().fit(FRAME, LATE)
    sent: dict[str, Array] = {
        "distance": np.arange(5, dtype="int64") + (1 << 53),
        "hour": np.arange(5, dtype="float32")[:, np.newaxis],
        "delay": np.arange(5, dtype="uint8"),
        "price": np.linspace(0, 1, 5),
    }
    told = pd.DataFrame({name: array.reshape(-1) for name, array in sent.items()})
    rows = _asked(fitted).rows(sent, NAMES)
    assert rows.dtype == told.to_numpy().dtype
    np.testing.assert_array_equal(rows, told.to_numpy())
    assert rows.flags.f_contiguous == told.to_numpy().flags.f_contiguous


def test_truths_and_texts_stay_in_a_frame() -> None:
    estimator = _asked(LogisticRegression().fit(FRAME, LATE))
    texts = np.array([b"1"] * 33, dtype=object)
    assert estimator.rows({**SENT, "hour": SENT["hour"] > 0}, NAMES)["hour"].dtype == bool
    assert estimator.rows({**SENT, "price": texts}, NAMES)["price"].tolist() == ["1"] * 33


@pytest.mark.parametrize("wrong", [np.nan, np.inf])
def test_what_an_estimator_refuses_it_refuses_in_the_same_words(wrong: float) -> None:
    fitted = LogisticRegression().fit(FRAME, LATE)
    sent = {**SENT, "hour": np.full(33, wrong)}
    with pytest.raises(ValueError, match=r"LogisticRegression|infinity") as told:
        fitted.predict(pd.DataFrame(sent))
    estimator = _asked(fitted)
    with pytest.raises(ValueError, match=r"LogisticRegression|infinity") as found:
        estimator.answer("predict", estimator.rows(sent, NAMES))
    assert str(found.value) == str(told.value)


def test_an_estimator_that_answers_a_matrix_otherwise_gets_a_frame(monkeypatch: pytest.MonkeyPatch) -> None:
    other = LogisticRegression().fit(FRAME.to_numpy(), ~LATE)
    monkeypatch.setattr(estimators, "nameless", lambda _: other)
    fitted = LogisticRegression().fit(FRAME, LATE)
    estimator = _asked(fitted)
    rows = estimator.rows(SENT, NAMES)
    assert isinstance(rows, pd.DataFrame)
    np.testing.assert_array_equal(estimator.answer("predict", rows), fitted.predict(rows))
