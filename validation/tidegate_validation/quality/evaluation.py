"""What predictions are held against: labels, the groups of the examples, and what kind of task it is.

The gate makes one from the held-out table; metrics, slices and the search for leaks take it with scores of one version:
shape [n], or [n, k] with a column per class for the task `multiclass`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace

import numpy as np
import numpy.typing as npt

from tidegate_validation.quality.metrics import Floats, Groups


class Task(enum.StrEnum):
    """What the labels are: two classes, several, numbers, or relevances within queries."""

    BINARY = "binary"
    MULTICLASS = "multiclass"
    REGRESSION = "regression"
    RANKING = "ranking"


@dataclass(frozen=True, slots=True)
class MetricOptions:
    """`threshold` makes a probability a decision; `top_k` and `cutoff` are the k of top-k accuracy and of NDCG and MAP;
    `quantile` is that of the quantile loss; `exponential` gains are 2^relevance - 1 instead of the relevance.
    """

    threshold: float = 0.5
    top_k: int = 3
    cutoff: int = 10
    quantile: float = 0.5
    exponential: bool = True


@dataclass(frozen=True, slots=True)
class Evaluation:
    """Labels and groups, shape [n].

    Labels are 0 and 1, numbers, relevances, or places in `classes` (as text). `groups` number what belongs together;
    `clustered` says whether they are more than random buckets. `queries`, shape [n], number the queries of a ranking.
    """

    task: str
    labels: Floats
    groups: Groups
    classes: tuple[str, ...] = ()
    queries: Groups | None = None
    clustered: bool = True
    options: MetricOptions = field(default_factory=MetricOptions)

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: npt.NDArray[np.int64]) -> Evaluation:
        """The same for some of the rows."""
        queries = None if self.queries is None else self.queries[rows]
        return replace(self, labels=self.labels[rows], groups=self.groups[rows], queries=queries)

    def units(self) -> npt.NDArray[np.int64]:
        """One row for each thing that per-example metrics have a value for: every row, or one of each query.

        Queries without any relevant row are left out: no order of theirs is better than another.
        """
        if self.queries is None:
            return np.arange(len(self.labels))
        relevant = np.unique(self.queries[self.labels > 0])
        queries, first = np.unique(self.queries, return_index=True)
        return np.asarray(first[np.isin(queries, relevant)])

    @property
    def k(self) -> int:
        """Number of classes."""
        return len(self.classes)


def is_probability(scores: Floats) -> bool:
    """Whether all scores lie between 0 and 1, but for rounding, and those of several classes add up to 1."""
    inside = bool((scores >= -1e-6).all() and (scores <= 1 + 1e-6).all())
    return inside and (scores.ndim == 1 or bool((np.abs(scores.sum(axis=1) - 1) < 1e-3).all()))


def is_hard(scores: Floats) -> bool:
    """Whether scores are mere decisions, 0 or 1."""
    return bool(((scores == 0) | (scores == 1)).all())


def chosen(evaluation: Evaluation, scores: Floats) -> Groups:
    """The class that is decided for, as a place in the classes (0 or 1 for two), shape [n]."""
    if scores.ndim == 1:
        return np.asarray(scores > evaluation.options.threshold, dtype=np.int64)
    return np.asarray(scores.argmax(axis=1), dtype=np.int64)
