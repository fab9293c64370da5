"""What predictions are compared with: labels, the groups of the examples, and what kind of task it is.

Everything in the quality gate takes one together with the scores of a version: shape [n], or [n, k] with a column per
class for the task `multiclass`.
"""

from __future__ import annotations

import enum
from dataclasses import dataclass, field, replace

import numpy as np

from tidegate_validation.statistics.arrays import Floats, Integers


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
    `clustered` says whether they are more than random buckets, and `members`, shape [n], number the entities in them
    where groups hold several. `queries`, shape [n], number the queries of a ranking.
    """

    task: str
    labels: Floats
    groups: Integers
    classes: tuple[str, ...] = ()
    queries: Integers | None = None
    clustered: bool = True
    members: Integers | None = None
    options: MetricOptions = field(default_factory=MetricOptions)

    def __len__(self) -> int:
        return len(self.labels)

    def take(self, rows: Integers) -> Evaluation:
        """The same for some of the rows."""
        queries = None if self.queries is None else self.queries[rows]
        members = None if self.members is None else self.members[rows]
        return replace(self, labels=self.labels[rows], groups=self.groups[rows], queries=queries, members=members)

    def sample(self, most: int) -> Integers:
        """At most so many of the rows, of a ranking whole queries; the same ones every time."""
        everything = np.arange(len(self))
        if len(self) <= most:
            return everything
        random = np.random.default_rng(6)
        if self.queries is None:
            return np.sort(random.choice(everything, most, replace=False))
        queries = np.unique(self.queries)
        kept = random.choice(queries, max(len(queries) * most // len(self), 1), replace=False)
        return np.flatnonzero(np.isin(self.queries, kept))

    def units(self) -> Integers:
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


def decisions(evaluation: Evaluation, scores: Floats) -> Integers:
    """The class that is decided for, as a place in the classes (0 or 1 for two), shape [n]."""
    if scores.ndim == 1:
        return np.asarray(scores > evaluation.options.threshold, dtype=np.int64)
    return np.asarray(scores.argmax(axis=1), dtype=np.int64)
