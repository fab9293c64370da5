"""Reference learners: what boosted trees and a linear model, cross-fitted by groups, get out of given inputs.

A candidate that is no better than they are with the baseline's inputs needs no leak: the baseline was just weak.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tidegate_serving.contract.tensors import Array
from tidegate_validation.quality.evaluation import Evaluation, Task
from tidegate_validation.quality.leakage.single_feature import fold_of
from tidegate_validation.quality.metrics.gains import power
from tidegate_validation.statistics.arrays import Floats

_FOLDS = 3
_ROWS = 20_000
_ROUNDS = 50
_WIDEST = 200
_CATEGORIES = 40


def reference_power(evaluation: Evaluation, inputs: Mapping[str, Array]) -> float:
    """The best power of the learners on these inputs."""
    rows = np.arange(len(evaluation))
    if len(rows) > _ROWS and evaluation.queries is None:
        rows = np.sort(np.random.default_rng(8).choice(rows, _ROWS, replace=False))
    part = evaluation.take(rows)
    return power(part, reference_scores(part, {name: array[rows] for name, array in inputs.items()})).value


def linear_power(evaluation: Evaluation, inputs: Mapping[str, Array]) -> float:
    """The power of the linear learner on these inputs, cross-fitted."""
    import sklearn.linear_model  # noqa: F401 - limits hold for thread pools that are loaded before
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        scores = _cross_fitted(evaluation, spread_columns(inputs), _linear(evaluation))
    return power(evaluation, scores).value


def reference_scores(evaluation: Evaluation, inputs: Mapping[str, Array]) -> Floats:
    """The scores of the better learner, each row scored by one that saw none of its group's fold."""
    import sklearn.ensemble
    import sklearn.linear_model  # noqa: F401 - limits hold for thread pools that are loaded before
    from threadpoolctl import threadpool_limits

    with threadpool_limits(limits=1):
        linear = _cross_fitted(evaluation, spread_columns(inputs), _linear(evaluation))
        ranked = np.column_stack([_ranked(column) for column in _flat(inputs)])
        trees = _cross_fitted(evaluation, ranked, _trees(evaluation))
    return max(linear, trees, key=lambda scores: power(evaluation, scores).value)


def spread_columns(inputs: Mapping[str, Array]) -> Floats:
    """What linear learners see, shape [n, m], NaN where a number is missing: categories have a column each."""
    return np.column_stack([_spread(column) for column in _flat(inputs)])


def _flat(inputs: Mapping[str, Array]) -> list[Array]:
    return [array.reshape(len(array), -1)[:, :_WIDEST] for array in inputs.values()]


def _is_classes(evaluation: Evaluation) -> bool:
    return evaluation.task in (Task.BINARY, Task.MULTICLASS)


def _linear(evaluation: Evaluation) -> Any:
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    learner = LogisticRegression(max_iter=200) if _is_classes(evaluation) else Ridge()
    return make_pipeline(FunctionTransformer(np.nan_to_num), StandardScaler(), learner)


def _trees(evaluation: Evaluation) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if _is_classes(evaluation) else HistGradientBoostingRegressor
    rounds = max(_ROUNDS * 2 // max(evaluation.k, 2), 8)
    return kind(max_iter=rounds, learning_rate=0.15, max_leaf_nodes=15, early_stopping=False, random_state=0)


def _cross_fitted(evaluation: Evaluation, features: Floats, learner: Any) -> Floats:
    fold = fold_of(evaluation, _FOLDS)
    many = evaluation.task == Task.MULTICLASS
    scores = np.zeros((len(evaluation), evaluation.k) if many else len(evaluation))
    for one in range(_FOLDS):
        train, test = fold != one, fold == one
        model = learner.fit(features[train], evaluation.labels[train])
        if many:
            scores[np.ix_(test, model.classes_.astype(int))] = model.predict_proba(features[test])
        elif _is_classes(evaluation):
            scores[test] = model.predict_proba(features[test])[:, 1]
        else:
            scores[test] = model.predict(features[test])
    return scores


def _spread(column: Array) -> Floats:
    """Numbers as they are; of categories the frequent ones, a column each."""
    if column.dtype.kind in "fiub":
        return _finite(column)
    place, order = _by_frequency(column)
    return np.asarray(place[:, None] == order[None, :_CATEGORIES], dtype=np.float64)


def _ranked(column: Array) -> Floats:
    """Numbers as they are; categories by how frequent they are, one column."""
    if column.dtype.kind in "fiub":
        return _finite(column)
    place, order = _by_frequency(column)
    return np.asarray(np.argsort(order)[place], dtype=np.float64)[:, None]


def _finite(column: Array) -> Floats:
    values = column.astype(np.float64)
    return np.asarray(np.where(np.isfinite(values), np.clip(values, -1e12, 1e12), np.nan))


def _by_frequency(column: Array) -> tuple[Array, Array]:
    """Each row's category by number, and the numbers of the categories, the most frequent first."""
    _, place, count = np.unique(column[:, 0], return_inverse=True, return_counts=True)
    return place, np.argsort(-count, kind="stable")
