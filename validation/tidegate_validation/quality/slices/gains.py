"""Gains per slice with their p-values: where is the candidate worse, though it may be better on the whole?"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np

from tidegate_validation.quality.allowance import Allowance
from tidegate_validation.quality.evaluation import Evaluation, Task, is_hard
from tidegate_validation.quality.metrics import classification
from tidegate_validation.quality.metrics.auc import auc_influence
from tidegate_validation.quality.metrics.catalogue import AREA, METRICS, Metric, canonical, metrics_for
from tidegate_validation.quality.metrics.classification import LEAST_OF_A_CLASS
from tidegate_validation.quality.metrics.gains import Gain, gain_of, gain_terms
from tidegate_validation.quality.metrics.margins import Margins
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.quality.slices.errors import ErrorModel, GainsOf, LinearGains
from tidegate_validation.quality.slices.partitions import Partition, whole_rows
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
_LOSSES = frozenset(metric.name for metric in METRICS if metric.relative)
GainsBySlice = Callable[[Integers, Integers], list[Gain | None]]
"""From the slice of each unit (-1 for none) and the places of the slices to compute."""


@dataclass(frozen=True, slots=True)
class SliceGains:
    """One slice, the units that satisfy all `literals` (partition and place), with its metrics' gains.

    `rows` counts the units that it was tested on; `searched` says that a search proposed it. `members` is how many
    entities or days they come from, None where every unit stands for itself.
    """

    name: str
    rows: int
    gains: tuple[Gain, ...]
    literals: tuple[tuple[Partition, int], ...]
    searched: bool = False
    members: int | None = None

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
        floored = not gain.relative and gain.metric in _LOSSES
        unit = _SHARE if gain.relative else gain.margin if floored else _POINT
        return -gain.gain.value / unit * float(np.sqrt(self.inside().sum()))


@dataclass(frozen=True, slots=True)
class SliceTest:
    """A slice and the metric on which the candidate looks worst there, the margin that it is tested against, and
    adjusted p-values of being worse by more than the margin, and of being worse at all.
    """

    slice: SliceGains
    gain: Gain
    p_margin: float
    p_worse: float

    @property
    def name(self) -> str:
        """The slice's name."""
        return self.slice.name

    @property
    def margin(self) -> float:
        """The loss that is allowed."""
        return self.gain.margin


def slice_metrics(evaluation: Evaluation, candidate: Floats, baseline: Floats, rule: QualityRule) -> list[Metric]:
    """The metrics by which slices are judged, means last: the policy's, else the task's own; mere decisions have no
    Brier score of their own.
    """
    fitting = metrics_for(evaluation, [candidate, baseline])
    if rule.metrics:
        wanted = {canonical(name) for name in rule.metrics}
        return sorted((one for one in fitting if one.name in wanted), key=lambda one: one.whole is None)
    hard = is_hard(candidate) or is_hard(baseline)
    judged = JUDGED[evaluation.task]
    return [one for one in fitting if one.name in judged and not (hard and one.name == "Brier score")]


def gains_by_slice(
    evaluation: Evaluation,
    candidate: Floats,
    baseline: Floats,
    partitions: Sequence[Partition],
    rule: QualityRule,
    metrics: Sequence[Metric] | None = None,
) -> list[SliceGains]:
    """Every slice that is large enough with its gains, by the metrics that judge slices unless others are given."""
    metrics = slice_metrics(evaluation, candidate, baseline, rule) if metrics is None else metrics
    margins = Allowance.of(evaluation, baseline, rule).slices
    measures = [_measure(metric, evaluation, candidate, baseline, margins) for metric in metrics]
    found = []
    for partition in partitions:
        rows = partition.rows()
        large = np.flatnonzero(rows >= rule.slice_rows)
        columns = [measure(partition.codes, large) for measure in measures]
        for place, *gains in zip(large, *columns, strict=True):
            known = tuple(gain for gain in gains if gain is not None)
            if known:
                literals = ((partition, int(place)),)
                members = members_of(partition.codes == place, evaluation)
                found.append(SliceGains(partition.names[place], int(rows[place]), known, literals, members=members))
    return found


def members_of(units: Mask, evaluation: Evaluation) -> int | None:
    """How many entities or days some of the units come from; None where every unit stands for itself."""
    if not evaluation.clustered:
        return None
    members = evaluation.groups if evaluation.members is None else evaluation.members
    return len(np.unique(members[evaluation.units()][units]))


def tested_slices(slices: Sequence[SliceGains]) -> list[SliceTest]:
    """P-values corrected over all slices (Simes within one, then Benjamini and Hochberg), the worst slice first."""
    beyond = [[gain.gain.p_below(-gain.margin) for gain in one.gains] for one in slices]
    at_all = [[gain.gain.p_below(0.0) for gain in one.gains] for one in slices]
    p_margin = benjamini_hochberg([simes(values) for values in beyond])
    p_worse = benjamini_hochberg([simes(values) for values in at_all])
    tests = []
    for place, one in enumerate(slices):
        order = list(zip(beyond[place], at_all[place], strict=True))
        worst = order.index(min(order))
        tests.append(SliceTest(one, one.gains[worst], p_margin[place], p_worse[place]))
    return sorted(tests, key=lambda one: (one.p_margin, one.p_worse))


def _measure(
    metric: Metric, evaluation: Evaluation, candidate: Floats, baseline: Floats, margins: Margins
) -> GainsBySlice:
    """How a metric's gains in some slices are computed."""

    def one_by_one(codes: Integers, places: Integers) -> list[Gain | None]:
        return [gain_within(metric, evaluation, candidate, baseline, margins, codes == place) for place in places]

    maker: GainsOf
    if metric.whole is None:
        above, below = gain_terms(metric, evaluation, candidate, baseline)
        maker = partial(_ratios, metric, above, below, margins)
    elif metric.name == AREA and evaluation.task == Task.BINARY:
        maker = partial(_areas, metric, evaluation.labels == 1, candidate, baseline, margins)
    else:
        return one_by_one
    error = ErrorModel.learn(evaluation, maker)
    return lambda codes, places: error.gains(maker(codes, places), codes, places)


def gain_within(
    metric: Metric, evaluation: Evaluation, candidate: Floats, baseline: Floats, margins: Margins, units: Mask
) -> Gain | None:
    """The gain on some of the units, with an error by their own groups; None where it cannot be told."""
    rows = whole_rows(units, evaluation)
    part = evaluation.take(rows)
    classes = metric.whole is not None and part.task in (Task.BINARY, Task.MULTICLASS)
    if classes and len(classification.frequent_classes(part)) < 2:
        return None
    gain = gain_of(metric, part, candidate[rows], baseline[rows], margins)
    return gain if np.isfinite(gain.gain.value) and np.isfinite(gain.gain.error) else None


def _ratios(
    metric: Metric, above: Floats, below: Floats, margins: Margins, codes: Integers, places: Integers
) -> LinearGains:
    """Of a metric that is a mean: the ratio of sums, and each unit's part in its error."""
    inside = codes >= 0
    size = int(codes.max(initial=0)) + 1
    total, first = (np.bincount(codes[inside], weights=one[inside], minlength=size) for one in (below, above))
    rows = np.maximum(np.bincount(codes[inside], minlength=size), 1)
    positive = np.where(total > 0, total, np.nan)
    theirs = total / rows if metric.relative else np.full(size, np.nan)
    allowed = [margins.of(metric, float(one)) for one in theirs]
    shares = np.array([one.relative for one in allowed])
    whole = np.where(shares, positive, rows)
    value = first / whole
    here = np.maximum(codes, 0)
    parts = np.where(inside, (above - value[here] * np.where(shares[here], below, 1.0)) / whole[here], 0.0)
    mine = theirs - value * np.where(shares, theirs, 1.0)
    kept = [allowed[place] for place in places]
    squares = np.bincount(codes[inside], weights=below[inside] ** 2, minlength=size)
    several = np.where(shares, np.nan_to_num(total**2 / np.where(squares > 0, squares, np.nan)), rows)
    return LinearGains(metric, value[places], mine[places], theirs[places], np.nan_to_num(parts), kept, several[places])


def _areas(
    metric: Metric,
    positive: Mask,
    candidate: Floats,
    baseline: Floats,
    margins: Margins,
    codes: Integers,
    places: Integers,
) -> LinearGains:
    """Of AUC: slice by slice."""
    mine, theirs = np.full(len(places), np.nan), np.full(len(places), np.nan)
    parts, several = np.zeros(len(codes)), np.zeros(len(places))
    for number, place in enumerate(places):
        rows = np.flatnonzero(codes == place)
        kind = positive[rows]
        several[number] = len(rows)
        if min(kind.sum(), len(rows) - kind.sum()) < LEAST_OF_A_CLASS:
            continue
        mine[number], first = auc_influence(kind, candidate[rows])
        theirs[number], second = auc_influence(kind, baseline[rows])
        parts[rows] = first - second
    allowed = [margins.of(metric, float(one)) for one in theirs]
    return LinearGains(metric, mine - theirs, mine, theirs, parts, allowed, several)
