"""Metrics for two and for several classes; labels are places in the classes, scores have shape [n] or [n, k].

Metrics that are means return a value per example. The others return their value and what it is without each group.
"""

from __future__ import annotations

import numpy as np

from tidegate_validation.quality.evaluation import Evaluation, decisions
from tidegate_validation.quality.metrics.auc import auc_replicates
from tidegate_validation.statistics.arrays import Floats, Integers, Mask
from tidegate_validation.statistics.jackknife import Replicates

LEAST_OF_A_CLASS = 10
_SMALLEST = 1e-7


def brier(evaluation: Evaluation, scores: Floats) -> Floats:
    """Squared error of the probabilities, summed over several classes (Brier 1950)."""
    if scores.ndim == 1:
        return np.asarray((scores - evaluation.labels) ** 2)
    own = scores[np.arange(len(scores)), evaluation.labels.astype(np.int64)]
    return np.asarray((scores**2).sum(axis=1) - 2 * own + 1)


def log_loss(evaluation: Evaluation, scores: Floats) -> Floats:
    """Minus the logarithm of the probability given to what happened, at most 16.1."""
    if scores.ndim == 1:
        own = np.where(evaluation.labels == 1, scores, 1 - scores)
    else:
        own = scores[np.arange(len(scores)), evaluation.labels.astype(np.int64)]
    return np.asarray(-np.log(np.clip(own, _SMALLEST, 1.0)))


def accuracy(evaluation: Evaluation, scores: Floats) -> Floats:
    """1 where the decision is right."""
    return np.asarray(decisions(evaluation, scores) == evaluation.labels, dtype=np.float64)


def top_k(evaluation: Evaluation, scores: Floats) -> Floats:
    """1 where the right class is among the k with the highest scores; ties count as lost."""
    own = scores[np.arange(len(scores)), evaluation.labels.astype(np.int64)]
    return np.asarray((scores >= own[:, None]).sum(axis=1) <= evaluation.options.top_k, dtype=np.float64)


def area(evaluation: Evaluation, scores: Floats) -> Replicates:
    """AUC; of several classes the mean of each against the rest, over classes with enough examples."""
    if scores.ndim == 1:
        return auc_replicates(evaluation.labels == 1, scores, evaluation.groups)
    return _mean(
        [
            auc_replicates(evaluation.labels == one, scores[:, one], evaluation.groups)
            for one in frequent_classes(evaluation)
        ]
    )


def balanced_accuracy(evaluation: Evaluation, scores: Floats) -> Replicates:
    """The mean over classes of the share that is recognised."""
    hits, actual, _ = _confusion(evaluation, scores)
    return _mean([_ratio(hits[:, one], actual[:, one]) for one in frequent_classes(evaluation)])


def macro_f1(evaluation: Evaluation, scores: Floats) -> Replicates:
    """The mean over classes of F1."""
    hits, actual, predicted = _confusion(evaluation, scores)
    return _mean([_ratio(2 * hits[:, one], actual[:, one] + predicted[:, one]) for one in frequent_classes(evaluation)])


def micro_f1(evaluation: Evaluation, scores: Floats) -> Replicates:
    """F1 of all decisions together, each class counted as often as it occurs."""
    hits, actual, predicted = _confusion(evaluation, scores)
    return _ratio(2 * hits.sum(axis=1), actual.sum(axis=1) + predicted.sum(axis=1))


def positive_f1(evaluation: Evaluation, scores: Floats) -> Replicates:
    """F1 of the positive one of two classes."""
    hits, actual, predicted = _confusion(evaluation, scores)
    return _ratio(2 * hits[:, 1], actual[:, 1] + predicted[:, 1])


def frequent_classes(evaluation: Evaluation) -> list[int]:
    """Places of the classes that enough examples have and enough have not."""
    counts = np.bincount(evaluation.labels.astype(np.int64), minlength=max(evaluation.k, 2))
    rest = len(evaluation) - counts
    return [int(one) for one in np.flatnonzero((counts >= LEAST_OF_A_CLASS) & (rest >= LEAST_OF_A_CLASS))]


def _confusion(evaluation: Evaluation, scores: Floats) -> tuple[Floats, Floats, Floats]:
    """Per group and class: rightly decided for, labelled so, and decided for; shape [groups, classes]."""
    decided, labels = decisions(evaluation, scores), evaluation.labels.astype(np.int64)
    size = max(evaluation.k, 2, int(decided.max(initial=0)) + 1)
    groups = int(evaluation.groups.max(initial=0)) + 1

    def count(classes: Integers, rows: Mask) -> Floats:
        places = evaluation.groups[rows] * size + classes[rows]
        return np.bincount(places, minlength=groups * size).reshape(groups, size).astype(np.float64)

    everything = np.ones(len(labels), dtype=bool)
    return count(labels, decided == labels), count(labels, everything), count(decided, everything)


def _ratio(above: Floats, below: Floats) -> Replicates:
    """From sums per group."""
    rest = below.sum() - below
    without = (above.sum() - above) / np.where((rest > 0) & (below > 0), rest, np.nan)
    total = float(below.sum())
    return Replicates(float(above.sum()) / total if total else float("nan"), without)


def _mean(parts: list[Replicates]) -> Replicates:
    """The mean over classes; a class that one group holds none of stays as it is without that group."""
    if not parts:
        return Replicates(float("nan"), np.array([]))
    value = float(np.mean([one.value for one in parts]))
    rows = np.array([np.where(np.isfinite(one.without), one.without, one.value) for one in parts])
    seen = np.array([np.isfinite(one.without) for one in parts]).any(axis=0)
    return Replicates(value, np.where(seen, rows.mean(axis=0), np.nan))
