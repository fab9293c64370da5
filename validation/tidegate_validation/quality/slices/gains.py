"""Gains per slice with their p-values: where is the candidate worse, though it may be better on the whole?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidegate_validation.quality.evaluation import Evaluation, Task, is_hard
from tidegate_validation.quality.metrics.auc import auc_influence
from tidegate_validation.quality.metrics.catalogue import Metric, metrics_for
from tidegate_validation.quality.metrics.classification import LEAST_OF_A_CLASS
from tidegate_validation.quality.metrics.gains import Gain, gain_terms
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.quality.slices.errors import ErrorModel, GainsOf, LinearGains
from tidegate_validation.quality.slices.partitions import Partition
from tidegate_validation.statistics.arrays import Floats, Integers, Mask
from tidegate_validation.statistics.false_discovery import benjamini_hochberg, simes

JUDGED: dict[str, tuple[str, ...]] = {
    Task.BINARY: ("AUC", "Brier score"),
    Task.MULTICLASS: ("accuracy", "Brier score"),
    Task.REGRESSION: ("squared error",),
    Task.RANKING: ("NDCG",),
}
_SHARE, _POINT = 0.10, 0.02
"""Losses in shares and in points that weigh the same."""


@dataclass(frozen=True, slots=True)
class SliceGains:
    """One slice, the units that satisfy all `literals` (partition and place), with its metrics' gains.

    `rows` counts the units that it was tested on; `searched` says that a search proposed it.
    """

    name: str
    rows: int
    gains: tuple[Gain, ...]
    literals: tuple[tuple[Partition, int], ...]
    searched: bool = False

    def inside(self) -> Mask:
        """Which units belong to it."""
        units = [partition.codes == place for partition, place in self.literals]
        return np.asarray(np.logical_and.reduce(units), dtype=bool)

    @property
    def weight(self) -> float:
        """The loss, by the last metric, which all slices have, times the root of the number of examples.

        Of slices that overlap the fault's own has the highest: slices with fewer of its examples have a lower root,
        those with others besides a lower loss. (Standard errors would not tell: where the fault is, losses vary more.)
        """
        gain = self.gains[-1]
        unit = _SHARE if gain.relative else _POINT
        return -gain.gain.value / unit * float(np.sqrt(self.inside().sum()))


@dataclass(frozen=True, slots=True)
class SliceTest:
    """A slice and the metric on which the candidate looks worst there, the margin that it is tested against, and
    adjusted p-values of being worse by more than the margin, and of being worse at all.
    """

    slice: SliceGains
    gain: Gain
    margin: float
    p_margin: float
    p_worse: float

    @property
    def name(self) -> str:
        """The slice's name."""
        return self.slice.name


def slice_metrics(evaluation: Evaluation, candidate: Floats, baseline: Floats) -> list[Metric]:
    """The metrics by which slices are judged; mere decisions have no Brier score."""
    hard = is_hard(candidate) or is_hard(baseline)
    return [
        metric
        for metric in metrics_for(evaluation, [candidate, baseline])
        if metric.name in JUDGED[evaluation.task] and not (hard and metric.name == "Brier score")
    ]


def gains_by_slice(
    evaluation: Evaluation, candidate: Floats, baseline: Floats, partitions: Sequence[Partition], rule: QualityRule
) -> list[SliceGains]:
    """Every slice that is large enough with its gains."""
    metrics = slice_metrics(evaluation, candidate, baseline)
    makers = [_maker(metric, evaluation, candidate, baseline) for metric in metrics]
    errors = [ErrorModel.learn(evaluation, maker) for maker in makers]
    found = []
    for partition in partitions:
        rows = partition.rows()
        large = np.flatnonzero(rows >= rule.slice_rows)
        columns = [
            error.gains(maker(partition.codes, large), partition.codes, large)
            for maker, error in zip(makers, errors, strict=True)
        ]
        for place, *gains in zip(large, *columns, strict=True):
            known = tuple(gain for gain in gains if gain is not None)
            if known:
                literals = ((partition, int(place)),)
                found.append(SliceGains(partition.names[place], int(rows[place]), known, literals))
    return found


def tested_slices(slices: Sequence[SliceGains], rule: QualityRule) -> list[SliceTest]:
    """P-values corrected over all slices (Simes within one, then Benjamini and Hochberg), the worst slice first."""
    margins = [[rule.slice_limit(relative=gain.relative) for gain in one.gains] for one in slices]
    beyond = [
        [gain.gain.p_below(-margin) for gain, margin in zip(one.gains, limits, strict=True)]
        for one, limits in zip(slices, margins, strict=True)
    ]
    at_all = [[gain.gain.p_below(0.0) for gain in one.gains] for one in slices]
    p_margin = benjamini_hochberg([simes(values) for values in beyond])
    p_worse = benjamini_hochberg([simes(values) for values in at_all])
    tests = []
    for place, one in enumerate(slices):
        order = list(zip(beyond[place], at_all[place], strict=True))
        worst = order.index(min(order))
        tests.append(SliceTest(one, one.gains[worst], margins[place][worst], p_margin[place], p_worse[place]))
    return sorted(tests, key=lambda one: (one.p_margin, one.p_worse))


def _maker(metric: Metric, evaluation: Evaluation, candidate: Floats, baseline: Floats) -> GainsOf:
    """How a metric's gains in some slices are computed."""
    if metric.whole is None:
        above, below = gain_terms(metric, evaluation, candidate, baseline)
        return lambda codes, places: _ratios(metric, above, below, codes, places)
    positive = evaluation.labels == 1
    return lambda codes, places: _areas(metric, positive, candidate, baseline, codes, places)


def _ratios(metric: Metric, above: Floats, below: Floats, codes: Integers, places: Integers) -> LinearGains:
    """Of a metric that is a mean: the ratio of sums, and each unit's part in its error."""
    inside = codes >= 0
    size = int(codes.max(initial=0)) + 1
    total, first = (np.bincount(codes[inside], weights=one[inside], minlength=size) for one in (below, above))
    rows = np.maximum(np.bincount(codes[inside], minlength=size), 1)
    positive = np.where(total > 0, total, np.nan)
    value = first / positive
    here = np.maximum(codes, 0)
    parts = np.where(inside, (above - value[here] * below) / positive[here], 0.0)
    theirs = total / rows if metric.relative else np.full(size, np.nan)
    return LinearGains(metric, value[places], (theirs * (1 - value))[places], theirs[places], np.nan_to_num(parts))


def _areas(
    metric: Metric, positive: Mask, candidate: Floats, baseline: Floats, codes: Integers, places: Integers
) -> LinearGains:
    """Of AUC: slice by slice."""
    mine, theirs = np.full(len(places), np.nan), np.full(len(places), np.nan)
    parts = np.zeros(len(codes))
    for number, place in enumerate(places):
        rows = np.flatnonzero(codes == place)
        kind = positive[rows]
        if min(kind.sum(), len(rows) - kind.sum()) < LEAST_OF_A_CLASS:
            continue
        mine[number], first = auc_influence(kind, candidate[rows])
        theirs[number], second = auc_influence(kind, baseline[rows])
        parts[rows] = first - second
    return LinearGains(metric, mine - theirs, mine, theirs, parts)
