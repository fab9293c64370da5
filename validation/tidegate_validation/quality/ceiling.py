"""What an honest learner gets out of given inputs on the held-out data: the ceiling for a model that is too good.

`leak` asks it before it accuses: if boosted trees, cross-fitted by groups, reach as high with the baseline's inputs,
the baseline was just weak.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tidegate_serving.contract.tensors import Array
from tidegate_validation.quality.compared import Evaluation
from tidegate_validation.quality.metrics import Floats

_FOLDS = 3
_ROWS = 20_000
_CATEGORIES = 200


def honest_power(evaluation: Evaluation, inputs: Mapping[str, Array]) -> float:
    """AUC or R² of boosted trees on these inputs, each row scored by trees that saw none of its group's fold."""
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    rows = np.arange(len(evaluation.labels))
    if len(rows) > _ROWS:
        rows = np.sort(np.random.default_rng(8).choice(rows, _ROWS, replace=False))
    evaluation = Evaluation(evaluation.task, evaluation.labels[rows], evaluation.groups[rows])
    features = np.column_stack([_numbers(array)[rows] for array in inputs.values()])
    _, group = np.unique(evaluation.groups, return_inverse=True)
    fold = group % _FOLDS
    scores = np.empty(len(evaluation.labels))
    for one in range(_FOLDS):
        train, test = fold != one, fold == one
        if evaluation.task == "binary":
            model = HistGradientBoostingClassifier(max_iter=60, learning_rate=0.15, random_state=0)
            scores[test] = model.fit(features[train], evaluation.labels[train]).predict_proba(features[test])[:, 1]
        else:
            model = HistGradientBoostingRegressor(max_iter=60, learning_rate=0.15, random_state=0)
            scores[test] = model.fit(features[train], evaluation.labels[train]).predict(features[test])
    return evaluation.power(scores).value


def _numbers(array: Array) -> Floats:
    """Any input as columns of numbers; categories by how often they occur, then by name."""
    flat = array.reshape(len(array), -1)
    if flat.dtype.kind in "fiub":
        values = flat.astype(np.float64)
        return np.asarray(np.where(np.isfinite(values), values, np.nan))
    _, place, count = np.unique(flat[:, 0], return_inverse=True, return_counts=True)
    order = np.argsort(np.argsort(-count, kind="stable"))
    return np.asarray(np.minimum(order[place], _CATEGORIES), dtype=np.float64)[:, None]
