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
    features = np.column_stack([_numbers(array[rows]) for array in inputs.values()])
    with threadpool_limits(limits=1):
        return max(part.power(_cross_fitted(part, features, learner)).value for learner in _learners(part.task))


def _learners(task: str) -> list[Any]:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor
    from sklearn.linear_model import LogisticRegression, Ridge
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import FunctionTransformer, StandardScaler

    trees = {"max_iter": 60, "learning_rate": 0.15, "random_state": 0}
    fill = FunctionTransformer(np.nan_to_num)
    if task == "binary":
        linear = LogisticRegression(max_iter=200)
        return [HistGradientBoostingClassifier(**trees), make_pipeline(fill, StandardScaler(), linear)]
    return [HistGradientBoostingRegressor(**trees), make_pipeline(fill, StandardScaler(), Ridge())]


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


def _numbers(array: Array) -> Floats:
    """Any input as columns of numbers, NaN where not finite; of categories the frequent ones, a column each."""
    flat = array.reshape(len(array), -1)
    if flat.dtype.kind in "fiub":
        values = flat.astype(np.float64)
        return np.asarray(np.where(np.isfinite(values), np.clip(values, -1e12, 1e12), np.nan))
    _, place, count = np.unique(flat[:, 0], return_inverse=True, return_counts=True)
    frequent = np.argsort(-count, kind="stable")[:_CATEGORIES]
    return np.asarray(place[:, None] == frequent[None, :], dtype=np.float64)
