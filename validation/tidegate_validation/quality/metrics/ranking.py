"""Metrics for rankings: a value for each query that has a relevant row, from relevances and scores of its rows.

Rows with equal scores come in a fixed random order, so that nothing is won by the order of the table. (scikit-learn
averages over ties instead and takes queries of one length only.)
"""

from __future__ import annotations

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.statistics.arrays import Floats, Integers

_HIGHEST = 31.0


def ndcg(evaluation: Evaluation, scores: Floats) -> Floats:
    """Discounted gain of the first k rows against that of the best order (Järvelin and Kekäläinen 2002)."""
    queries, labels = _queries(evaluation), evaluation.labels
    gains = np.exp2(labels) - 1 if evaluation.options.exponential else labels
    found, best = (
        _discounted(queries, gains, _places(queries, by), evaluation.options.cutoff) for by in (scores, labels)
    )
    relevant = _relevant(evaluation)
    return np.asarray(found[relevant] / best[relevant])


def average_precision(evaluation: Evaluation, scores: Floats) -> Floats:
    """Mean precision at the relevant rows among the first k, over as many as could stand there."""
    queries, k = _queries(evaluation), evaluation.options.cutoff
    order = _order(queries, scores)
    hits = (evaluation.labels > 0)[order]
    ordered = queries[order]
    place = _within(ordered)
    so_far = np.cumsum(hits) - _at_start(np.cumsum(hits) - hits, ordered)
    gained = np.where(hits & (place < k), so_far / (place + 1), 0.0)
    total = np.bincount(ordered, weights=gained)
    possible = np.minimum(np.bincount(queries, weights=evaluation.labels > 0), k)
    relevant = _relevant(evaluation)
    return np.asarray(total[relevant] / possible[relevant])


def reciprocal_rank(evaluation: Evaluation, scores: Floats) -> Floats:
    """1 over the place of the first relevant row."""
    queries = _queries(evaluation)
    place = _places(queries, scores)
    hit = evaluation.labels > 0
    first = np.full(int(queries.max()) + 1, np.inf)
    np.minimum.at(first, queries[hit], place[hit])
    return np.asarray(1 / (first[_relevant(evaluation)] + 1))


def first_rows(evaluation: Evaluation, scores: Floats) -> Integers:
    """The row that comes first in each query, in the order of the queries."""
    queries = _queries(evaluation)
    order = _order(queries, scores)
    return np.asarray(order[np.flatnonzero(_within(queries[order]) == 0)])


def check_relevances(labels: Floats, exponential: bool) -> None:
    """Raises InvalidInput for relevances that have no gain."""
    if labels.min(initial=0.0) < 0:
        raise InvalidInput(f"the lowest relevance is {labels.min():g}: relevances start at 0, for what is irrelevant")
    if exponential and labels.max(initial=0.0) > _HIGHEST:
        raise InvalidInput(
            f"the highest relevance is {labels.max():g}, whose gain 2^relevance - 1 drowns all others: set "
            "quality.exponential_gain = false in the policy"
        )


def _queries(evaluation: Evaluation) -> Integers:
    if evaluation.queries is None:
        raise InvalidInput("a ranking needs queries: name their column under quality.group in the policy")
    return evaluation.queries


def _relevant(evaluation: Evaluation) -> Integers:
    queries = _queries(evaluation)
    return np.asarray(queries[evaluation.units()])


def _order(queries: Integers, scores: Floats) -> Integers:
    chance = np.random.default_rng(13).permutation(len(scores))
    return np.lexsort((chance, -scores, queries))


def _within(ordered: Integers) -> Integers:
    """The place of each row in its query, for rows ordered by query."""
    rows = np.arange(len(ordered))
    return np.asarray(rows - _at_start(rows, ordered))


def _at_start(values: Integers, ordered: Integers) -> Integers:
    """For each row the value at the first row of its query."""
    _, first, count = np.unique(ordered, return_index=True, return_counts=True)
    return np.asarray(np.repeat(values[first], count))


def _places(queries: Integers, scores: Floats) -> Integers:
    order = _order(queries, scores)
    places = np.empty(len(scores), dtype=np.int64)
    places[order] = _within(queries[order])
    return places


def _discounted(queries: Integers, gains: Floats, places: Integers, k: int) -> Floats:
    discounted = np.where(places < k, gains / np.log2(places + 2), 0.0)
    return np.asarray(np.bincount(queries, weights=discounted), dtype=np.float64)
