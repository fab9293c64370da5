"""How often the quality gate refuses equal models, and how often it names a slice that is truly worse.

Models of one training with different seeds are compared on months of flights by `judge_scores`, which is all of the
gate but asking the models: their sandbox adds nothing here. `quality_faults` goes through the whole gate.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
from tests.bench.gate.flight_models import SLICES, Season, seasons
from tests.bench.rows import Row

from tidegate_serving.admission import Outcome
from tidegate_validation.quality.data.held_out import ScoredExamples
from tidegate_validation.quality.judgement.scores import judge_scores
from tidegate_validation.quality.metrics.auc import auc_influence
from tidegate_validation.quality.slices.partitions import requested_columns
from tidegate_validation.statistics.arrays import Floats, Mask

PAIRS = 200
Months = tuple[tuple[int, ...], ...]
REPORTED: Months = ((7, 8), (9, 10), (11, 12))
"""Held-out seasons of two months, on which nothing was developed."""
LARGE = 5000
_SEEDS = 8
_REFUSED = (Outcome.FAIL, Outcome.ERROR, Outcome.INCONCLUSIVE)


def equal_models(pairs: int = PAIRS, wanted: Months = REPORTED) -> list[Row]:
    """Reports on ordered pairs of models that differ in their seed: how many would be refused, and which way."""
    refused, failed, count = 0, 0, 0
    for season, first, second in _pairs(pairs, wanted):
        found = judge_scores(ScoredExamples(season.held_out, season.scores[first], season.scores[second]), SLICES)
        refused += any(one.outcome in _REFUSED for one in found)
        failed += any(one.outcome is Outcome.FAIL for one in found)
        count += 1
    limit = 15 * count // 200
    return [
        Row(
            f"equal models refused, of {count} reports of 43 slices",
            refused,
            "reports",
            f"<= {limit}",
            refused <= limit,
        ),
        Row("of these called worse, the others INCONCLUSIVE", failed, "reports", "-", None),
    ]


def worse_slices(pairs: int = PAIRS, wanted: Months = REPORTED) -> list[Row]:
    """A slice of the candidate spoilt until its AUC is worse by twice the margin: how often it is named.

    Where days differ as these do, smaller slices cannot show so little: of them the verdict says that it is not sure.
    """
    named, failed = _worse_slices(pairs, wanted, LARGE, 10 * LARGE)
    small, _ = _worse_slices(pairs // 5, wanted, LARGE // 2, LARGE)
    words = f"a slice of {LARGE} or more examples, worse by twice the margin of 0.02 AUC, named, of {pairs}"
    return [
        Row(words, 100 * named, "%", ">= 90", named >= 0.9),
        Row("of these refused for it, the others WARN", 100 * failed, "%", "-", None),
        Row(f"a slice of {LARGE // 2} to {LARGE} named, of {pairs // 5}", 100 * small, "%", "-", None),
    ]


def _worse_slices(pairs: int, wanted: Months, least: int, most: int) -> tuple[float, float]:
    """The shares that are named, and refused."""
    random = np.random.default_rng(4)
    named, failed = [], []
    for season, first, second in _pairs(pairs, wanted):
        subject, inside = _some_slice(season, season.scores[second], (least, most), random)
        spoilt = _spoilt(season, season.scores[first], season.scores[second], inside, random)
        found = judge_scores(ScoredExamples(season.held_out, spoilt, season.scores[second]), SLICES)
        told = [one.outcome for one in found if one.check == "slice" and one.subject == subject]
        named.append(bool({Outcome.FAIL, Outcome.WARN} & {*told}))
        failed.append(Outcome.FAIL in told)
    return float(np.mean(named)), float(np.mean(failed))


def _pairs(count: int, wanted: Months) -> Iterator[tuple[Season, int, int]]:
    """Ordered pairs of two kinds of models, and months in turn."""
    half = max(count // 2, 1)
    for kind in ("forest", "boosted"):
        held = seasons(kind, _SEEDS, wanted)
        ordered = [(first, second) for first in range(_SEEDS) for second in range(_SEEDS) if first != second]
        chosen = np.random.default_rng(2).permutation(len(ordered))
        for number in range(half):
            yield held[number % len(held)], *ordered[chosen[number % len(ordered)]]


def _some_slice(season: Season, theirs: Floats, size: tuple[int, int], random: np.random.Generator) -> tuple[str, Mask]:
    """One of the 43 slices, of some size, in which the baseline knows enough that twice the margin can be lost."""
    parts = requested_columns(season.held_out.table, season.held_out.evaluation, SLICES.slice_columns)
    labels = season.held_out.evaluation.labels
    choices = [
        (partition.names[place], inside)
        for partition in parts
        for place, rows in enumerate(partition.rows())
        if size[0] <= rows < size[1]
        and _auc(labels[inside := partition.codes == place], theirs[inside]) > 0.5 + 3 * SLICES.slice_points
    ]
    return choices[int(random.integers(len(choices)))]


def _spoilt(season: Season, mine: Floats, theirs: Floats, inside: Mask, random: np.random.Generator) -> Floats:
    """The candidate's scores, blended in the slice with those of other rows there until twice the margin is lost."""
    labels = season.held_out.evaluation.labels[inside]
    others = random.permutation(mine[inside])
    wanted = _auc(labels, theirs[inside]) - 2 * SLICES.slice_points
    low, high = 0.0, 1.0
    for _ in range(20):
        share = (low + high) / 2
        reached = _auc(labels, (1 - share) * mine[inside] + share * others)
        low, high = (share, high) if reached > wanted else (low, share)
    spoilt = mine.copy()
    spoilt[inside] = (1 - high) * mine[inside] + high * others
    return spoilt


def _auc(labels: Floats, scores: Floats) -> float:
    return auc_influence(labels == 1, scores)[0]
