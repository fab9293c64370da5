"""What honest learners get out of given inputs on the held-out data: the ceiling for a model that is too good.

`leak` asks it before it accuses: if boosted trees or a linear model, cross-fitted by groups, reach as high with the
baseline's inputs, the baseline was just weak.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from tidegate_serving.contract.tensors import Array
from tidegate_validation.quality.compared import Evaluation
from tidegate_validation.quality.metrics import Floats

_FOLDS = 3
_ROWS = 20_000
_CATEGORIES = 40


def honest_power(evaluation: Evaluation, inputs: Mapping[str, Array]) -> float:
    """The best AUC or R² of the learners on these inputs, each row scored by one that saw none of its group's fold."""
    from threadpoolctl import threadpool_limits

    rows = np.arange(len(evaluation.labels))
    if len(rows) > _ROWS:
        rows = np.sort(np.random.default_rng(8).choice(rows, _ROWS, replace=False))
    part = Evaluation(evaluation.task, evaluation.labels[rows], evaluation.groups[rows])
    columns = [array[rows].reshape(len(rows), -1) for array in inputs.values()]
    with threadpool_limits(limits=1):
        linear = _cross_fitted(part, np.column_stack([_spread(column) for column in columns]), _linear(part.task))
        trees = _cross_fitted(part, np.column_stack([_ranked(column) for column in columns]), _trees(part.task))
    return max(part.power(linear).value, part.power(trees).value)


def _linear(task: str) -> Any:
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    learner = LogisticRegression(max_iter=200) if task == "binary" else Ridge()
    return make_pipeline(FunctionTransformer(np.nan_to_num), StandardScaler(), learner)


def _trees(task: str) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    kind = HistGradientBoostingClassifier if task == "binary" else HistGradientBoostingRegressor
    return kind(max_iter=50, learning_rate=0.15, max_leaf_nodes=15, random_state=0)


def _cross_fitted(evaluation: Evaluation, features: Floats, learner: Any) -> Floats:
    _, group = np.unique(evaluation.groups, return_inverse=True)
    fold = group % _FOLDS
    scores = np.empty(len(evaluation.labels))
    for one in range(_FOLDS):
        train, test = fold != one, fold == one
        model = learner.fit(features[train], evaluation.labels[train])
        binary = evaluation.task == "binary"
        scores[test] = model.predict_proba(features[test])[:, 1] if binary else model.predict(features[test])
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
