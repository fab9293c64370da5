"""How well one input alone tells the label: where a single column nearly gives the answer, it often is the answer.

`leak` asks this of every input once a model is too good; the label's mean per bin, taken out of fold, is the score.
"""

from __future__ import annotations

import numpy as np

from tidegate_serving.contract.tensors import Array
from tidegate_validation.quality.compared import Evaluation
from tidegate_validation.quality.metrics import Floats, auc

_BINS = 50
_FOLDS = 5
_SMOOTH = 10.0


def lone_power(evaluation: Evaluation, column: Array) -> float:
    """AUC of the best simple use of one input alone, at least 0.5; for regression R², at least 0."""
    flat = column.reshape(len(column), -1)[:, 0]
    scores = _out_of_fold(evaluation, _codes(flat))
    if evaluation.task == "regression":
        labels = evaluation.labels
        spread = float(((labels - labels.mean()) ** 2).sum())
        return max(0.0, 1 - float(((labels - scores) ** 2).sum()) / spread) if spread else 0.0
    found = [auc(evaluation.labels, scores)]
    if flat.dtype.kind in "fiub":
        present = np.nan_to_num(flat.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
        plain = auc(evaluation.labels, present)
        found += [plain, 1 - plain]
    return max(0.5, *found)


def _codes(column: Array) -> Array:
    """Bin numbers: categories as they are, numbers by quantile, missing values apart."""
    if column.dtype.kind not in "fiu":
        return np.asarray(np.unique(column, return_inverse=True)[1])
    values = column.astype(np.float64)
    finite = values[np.isfinite(values)]
    if not len(finite):
        return np.zeros(len(values), dtype=np.int64)
    edges = np.unique(np.quantile(finite, np.linspace(0, 1, _BINS + 1)[1:-1]))
    return np.where(np.isfinite(values), np.searchsorted(edges, values, side="right") + 1, 0)


def _out_of_fold(evaluation: Evaluation, codes: Array) -> Floats:
    """Mean label of the row's bin among the other folds' rows, drawn towards the overall mean."""
    labels = evaluation.labels
    _, group = np.unique(evaluation.groups, return_inverse=True)
    fold = group % _FOLDS
    size = int(codes.max()) + 1
    scores = np.empty(len(labels))
    for one in range(_FOLDS):
        train, test = fold != one, fold == one
        overall = float(labels[train].mean()) if train.any() else 0.0
        total = np.bincount(codes[train], weights=labels[train], minlength=size)
        count = np.bincount(codes[train], minlength=size)
        scores[test] = ((total + _SMOOTH * overall) / (count + _SMOOTH))[codes[test]]
    return scores
