"""Calibration: whether what is said to happen with 30 % happens in 30 % of the cases."""

from __future__ import annotations

import numpy as np

from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.bins import quantile_edges
from tidegate_validation.statistics.jackknife import Estimate, Replicates, mean

_BINS = 15
_EDGE = 1e-6
_STEPS = 30


def calibration_error(evaluation: Evaluation, scores: Floats) -> Replicates:
    """Expected calibration error over 15 bins of equally many rows; of several classes for the one decided for."""
    said, happened = _said(evaluation, scores)
    edges = quantile_edges(said, _BINS)
    bins = np.searchsorted(edges, said, side="right")
    groups, size = evaluation.groups, len(edges) + 1
    count = int(groups.max()) + 1
    off = np.bincount(groups * size + bins, weights=happened - said, minlength=count * size).reshape(count, size)
    rows = np.bincount(groups, minlength=count)
    rest = np.where((rows > 0) & (rows < len(said)), len(said) - rows, np.nan)
    without = np.abs(off.sum(axis=0) - off).sum(axis=1) / rest
    return Replicates(float(np.abs(off.sum(axis=0)).sum()) / len(said), without)


def excess(evaluation: Evaluation, scores: Floats) -> Replicates:
    """By how much probabilities of two classes are higher in the mean than the share of the positive one."""
    return mean(scores - evaluation.labels, evaluation.groups)


def recalibration(evaluation: Evaluation, scores: Floats) -> tuple[Estimate, Estimate] | None:
    """Slope and intercept of the labels on the log-odds of probabilities (Cox 1958): 1 and 0 where calibrated.

    Errors are robust to what groups have in common. None where no line fits, as for decisions of 0 and 1.
    """
    from scipy.special import expit, logit

    odds = logit(np.clip(scores, _EDGE, 1 - _EDGE))
    if float(odds.std()) < _EDGE:
        return None
    matrix = np.column_stack([odds, np.ones(len(odds))])
    fitted = _fit(matrix, evaluation.labels)
    if fitted is None:
        return None
    beta, bread = fitted
    residual = evaluation.labels - expit(matrix @ beta)
    names, groups = np.unique(evaluation.groups, return_inverse=True)
    sums = np.column_stack([np.bincount(groups, weights=residual * column) for column in matrix.T])
    count = len(names)
    variance = bread @ (sums.T @ sums) @ bread * count / max(count - 1, 1)
    slope, intercept = (
        Estimate(float(beta[one]), float(np.sqrt(max(variance[one, one], 0.0))), max(count - 1, 1)) for one in (0, 1)
    )
    return slope, intercept


def _said(evaluation: Evaluation, scores: Floats) -> tuple[Floats, Floats]:
    if scores.ndim == 1:
        return scores, evaluation.labels
    return scores.max(axis=1), np.asarray(scores.argmax(axis=1) == evaluation.labels, dtype=np.float64)


def _fit(matrix: Floats, labels: Floats) -> tuple[Floats, Floats] | None:
    """Coefficients of a logistic regression by Newton's method, and the inverse of the information there."""
    from scipy.special import expit

    beta = np.array([1.0, 0.0])
    for _ in range(_STEPS):
        chance = expit(matrix @ beta)
        weights = np.maximum(chance * (1 - chance), 1e-9)
        bread = np.linalg.pinv(matrix.T @ (matrix * weights[:, None]))
        step = bread @ (matrix.T @ (labels - chance))
        beta = beta + np.clip(step, -2, 2)
        if np.abs(step).max() < 1e-8:
            return beta, np.asarray(bread)
    return None
