"""How well one input alone tells the label: where a single column nearly gives the answer, it often is the answer.

The score of a row is the mean label of its bin, learnt from rows of other folds. (scikit-learn's `TargetEncoder` does
so too, but with folds that ignore which rows belong together.)
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tidegate_serving.contract.tensors import Array
from tidegate_validation.quality.evaluation import Evaluation, Task
from tidegate_validation.quality.metrics.gains import chance, power
from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.bins import quantile_edges

_BINS = 50
_FOLDS = 5
_SMOOTH = 10.0


def single_feature_powers(
    evaluation: Evaluation, inputs: Mapping[str, Array], skip: frozenset[str] = frozenset()
) -> dict[str, float]:
    """Power of every input by itself, but those to `skip`."""
    return {name: single_feature_power(evaluation, array) for name, array in inputs.items() if name not in skip}


def single_feature_power(evaluation: Evaluation, column: Array) -> float:
    """Power of the best simple use of one input alone, never below chance; the column has shape [n] or [n, ...]."""
    flat = column.reshape(len(column), -1)[:, 0]
    codes = _codes(flat)
    if evaluation.task == Task.MULTICLASS:
        classes = range(evaluation.k)
        scores = np.column_stack([_out_of_fold(evaluation, evaluation.labels == one, codes) for one in classes])
        found = [power(evaluation, scores).value]
    else:
        found = [power(evaluation, _out_of_fold(evaluation, evaluation.labels, codes)).value]
    if evaluation.task in (Task.BINARY, Task.RANKING) and flat.dtype.kind in "fiub":
        present = np.nan_to_num(flat.astype(np.float64), nan=0.0, posinf=0.0, neginf=0.0)
        found += [power(evaluation, present).value, power(evaluation, -present).value]
    return float(np.nanmax([chance(evaluation), *found]))


def fold_of(evaluation: Evaluation, folds: int) -> Integers:
    """A fold for each row, such that no group is in two."""
    return np.asarray(np.unique(evaluation.groups, return_inverse=True)[1] % folds, dtype=np.int64)


def _codes(column: Array) -> Integers:
    """Bin numbers: categories as they are, numbers by quantile, missing values apart."""
    if column.dtype.kind not in "fiu":
        return np.asarray(np.unique(column, return_inverse=True)[1], dtype=np.int64)
    values = column.astype(np.float64)
    finite = values[np.isfinite(values)]
    if not len(finite):
        return np.zeros(len(values), dtype=np.int64)
    edges = quantile_edges(finite, _BINS)
    return np.where(np.isfinite(values), np.searchsorted(edges, values, side="right") + 1, 0)


def _out_of_fold(evaluation: Evaluation, labels: Array, codes: Integers) -> Floats:
    """Mean label of the row's bin among the other folds' rows, drawn towards the overall mean."""
    fold = fold_of(evaluation, _FOLDS)
    size = int(codes.max()) + 1
    labels = labels.astype(np.float64)
    scores = np.empty(len(labels))
    for one in range(_FOLDS):
        train, test = fold != one, fold == one
        overall = float(labels[train].mean()) if train.any() else 0.0
        total = np.bincount(codes[train], weights=labels[train], minlength=size)
        count = np.bincount(codes[train], minlength=size)
        scores[test] = ((total + _SMOOTH * overall) / (count + _SMOOTH))[codes[test]]
    return scores
