"""Metrics for numbers: losses per example, and what their sums make; labels and scores in the unit of the label."""

from __future__ import annotations

import numpy as np

from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.jackknife import Replicates, mean, totals


def squared(evaluation: Evaluation, scores: Floats) -> Floats:
    """Squared error."""
    return np.asarray((evaluation.labels - scores) ** 2)


def absolute(evaluation: Evaluation, scores: Floats) -> Floats:
    """Absolute error."""
    return np.asarray(np.abs(evaluation.labels - scores))


def quantile_loss(evaluation: Evaluation, scores: Floats) -> Floats:
    """Pinball loss of the quantile in the options; at 0.5 half the absolute error."""
    above = evaluation.labels - scores
    share = evaluation.options.quantile
    return np.asarray(np.maximum(share * above, (share - 1) * above))


def root_mean_square(evaluation: Evaluation, scores: Floats) -> Replicates:
    """Root of the mean squared error."""
    inside = mean(squared(evaluation, scores), evaluation.groups)
    return Replicates(float(np.sqrt(inside.value)), np.sqrt(inside.without))


def explained(evaluation: Evaluation, scores: Floats) -> Replicates:
    """R²: the share of the labels' variance that is explained."""
    labels, groups = evaluation.labels - evaluation.labels.mean(), evaluation.groups
    lost, rest_lost = totals(squared(evaluation, scores), groups)
    count, rest_count = totals(np.ones(len(labels)), groups)
    first, rest_first = totals(labels, groups)
    second, rest_second = totals(labels**2, groups)
    spread = rest_second - rest_first**2 / np.where(rest_count > 0, rest_count, np.nan)
    whole = second - first**2 / count
    value = 1 - lost / whole if whole > 0 else float("nan")
    return Replicates(value, 1 - rest_lost / np.where(spread > 0, spread, np.nan))
