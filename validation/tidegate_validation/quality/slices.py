"""Slices on which the candidate is worse than the baseline, though it may be better on the whole.

The quality gate hands in both models' scores and the slices; gains come back with p-values corrected for their number.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tidegate_validation.quality.catalogue import Metric, metrics_for
from tidegate_validation.quality.compared import Gain, gain_of, losses_of
from tidegate_validation.quality.evaluation import Evaluation, Task, is_hard
from tidegate_validation.quality.metrics import Estimate, Floats, Groups, Mask
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.quality.slice_sets import Partition
from tidegate_validation.skew.correction import benjamini_hochberg

JUDGED: dict[str, tuple[str, ...]] = {
    Task.BINARY: ("AUC", "Brier score"),
    Task.MULTICLASS: ("accuracy", "Brier score"),
    Task.REGRESSION: ("squared error",),
    Task.RANKING: ("NDCG",),
}
_LEAST_GROUPS = 3


@dataclass(frozen=True, slots=True)
class Tested:
    """One slice, the units that satisfy all `literals` (partition and place), with its metrics' gains; `found` that a
    search proposed it, and `rows` counts the units that it was tested on.
    """

    name: str
    rows: int
    gains: tuple[Gain, ...]
    literals: tuple[tuple[Partition, int], ...]
    found: bool = False

    def inside(self) -> Mask:
        """Which units belong to it."""
        units = [partition.codes == place for partition, place in self.literals]
        return np.asarray(np.logical_and.reduce(units), dtype=bool)


@dataclass(frozen=True, slots=True)
class SliceGain:
    """A slice and the metric on which the candidate looks worst there, the margin that it is held against, and adjusted
    p-values of being worse by more than the margin, and of being worse at all.
    """

    tested: Tested
    gain: Gain
    margin: float
    p_margin: float
    p_worse: float

    @property
    def name(self) -> str:
        """The slice's name."""
        return self.tested.name

    @property
    def rows(self) -> int:
        """How many units it was tested on."""
        return self.tested.rows

    @property
    def found(self) -> bool:
        """Whether a search proposed it."""
        return self.tested.found

    @property
    def surety(self) -> float:
        """How many standard errors the gain lies above minus the margin; the lowest is the surest to be worse."""
        estimate = self.gain.gain
        return (estimate.value + self.margin) / max(estimate.error, 1e-300)


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
) -> list[Tested]:
    """Every slice that is large enough with its gains."""
    metrics = slice_metrics(evaluation, candidate, baseline)
    means = {
        metric.name: losses_of(metric, evaluation, candidate, baseline) for metric in metrics if metric.whole is None
    }
    groups = evaluation.groups[evaluation.units()]
    found = []
    for partition in partitions:
        rows = partition.rows()
        columns = [
            _mean_gains(metric, means[metric.name], partition, groups, clustered=evaluation.clustered)
            if metric.name in means
            else _whole_gains(metric, evaluation, candidate, baseline, partition, rule.slice_rows)
            for metric in metrics
        ]
        for place in np.flatnonzero(rows >= rule.slice_rows):
            gains = tuple(gain for column in columns if (gain := column[place]) is not None)
            if gains:
                found.append(Tested(partition.names[place], int(rows[place]), gains, ((partition, int(place)),)))
    return found


def adjusted(tested: Sequence[Tested], rule: QualityRule) -> list[SliceGain]:
    """P-values corrected over all slices (Simes within one, then Benjamini and Hochberg), the worst slice first."""
    margins = [[rule.slice_limit(relative=gain.relative) for gain in one.gains] for one in tested]
    beyond = [
        [gain.gain.p_below(-margin) for gain, margin in zip(one.gains, limits, strict=True)]
        for one, limits in zip(tested, margins, strict=True)
    ]
    at_all = [[gain.gain.p_below(0.0) for gain in one.gains] for one in tested]
    p_margin = benjamini_hochberg([_simes(values) for values in beyond])
    p_worse = benjamini_hochberg([_simes(values) for values in at_all])
    slices = []
    for place, one in enumerate(tested):
        order = list(zip(beyond[place], at_all[place], strict=True))
        worst = order.index(min(order))
        slices.append(SliceGain(one, one.gains[worst], margins[place][worst], p_margin[place], p_worse[place]))
    return sorted(slices, key=lambda one: (one.p_margin, one.p_worse, one.surety))


def _simes(p_values: Sequence[float]) -> float:
    ordered = sorted(p_values)
    return min((value * len(ordered) / place for place, value in enumerate(ordered, 1)), default=1.0)


def _whole_gains(
    metric: Metric,
    evaluation: Evaluation,
    candidate: Floats,
    baseline: Floats,
    partition: Partition,
    least: int,
) -> list[Gain | None]:
    """Of a metric that is no mean, slice by slice."""
    rows = partition.rows()
    found: list[Gain | None] = [None] * len(rows)
    for place in np.flatnonzero(rows >= least):
        inside = np.flatnonzero(partition.codes == place)
        part = evaluation.take(inside)
        if min(np.bincount(part.labels.astype(np.int64), minlength=2)[:2]) >= _LEAST_GROUPS:
            gain = gain_of(metric, part, candidate[inside], baseline[inside])
            found[place] = gain if np.isfinite(gain.gain.error) else None
    return found


def _mean_gains(
    metric: Metric, losses: tuple[Floats, Floats], partition: Partition, groups: Groups, *, clustered: bool
) -> list[Gain | None]:
    """Of a metric that is a mean, all slices at once."""
    inside = partition.codes >= 0
    codes, size = partition.codes[inside], len(partition.names)
    above, below = losses[0][inside], losses[1][inside]
    estimates = (_by_group if clustered else _by_row)(above, below, codes, size, groups[inside])
    total = np.bincount(codes, weights=below, minlength=size)
    rows = np.maximum(np.bincount(codes, minlength=size), 1)
    made: list[Gain | None] = []
    for place, estimate in enumerate(estimates):
        if estimate is None:
            made.append(None)
            continue
        theirs = float(total[place] / rows[place]) if metric.relative else float("nan")
        mine = theirs * (1 - estimate.value) if metric.relative else float("nan")
        made.append(Gain(metric.name, mine, theirs, estimate, metric.relative))
    return made


def _by_row(above: Floats, below: Floats, codes: Groups, size: int, groups: Groups) -> list[Estimate | None]:
    def total(values: Floats) -> Floats:
        return np.asarray(np.bincount(codes, weights=values, minlength=size), dtype=np.float64)

    rows, first, second = np.bincount(codes, minlength=size), total(above), total(below)
    usable = (rows > _LEAST_GROUPS) & (second > 0)
    value = first / np.where(usable, second, 1.0)
    squares = total(above**2) - 2 * value * total(above * below) + value**2 * total(below**2)
    error = np.sqrt(np.maximum(squares, 0.0) * rows / np.maximum(rows - 1, 1)) / np.where(usable, second, 1.0)
    return [
        Estimate(float(value[place]), float(error[place]), int(rows[place]) - 1) if usable[place] else None
        for place in range(size)
    ]


def _by_group(above: Floats, below: Floats, codes: Groups, size: int, groups: Groups) -> list[Estimate | None]:
    count = int(groups.max(initial=0)) + 1
    cells = codes * count + groups

    def table(values: Floats | None) -> Floats:
        return np.bincount(cells, weights=values, minlength=size * count).reshape(size, count).astype(np.float64)

    first, second, rows = table(above), table(below), table(None)
    rest = second.sum(axis=1, keepdims=True) - second
    present = (rows > 0) & (rest > 0)
    without = np.where(present, first.sum(axis=1, keepdims=True) - first, 0.0) / np.where(present, rest, 1.0)
    many = present.sum(axis=1)
    middle = np.where(present, without, 0.0).sum(axis=1) / np.maximum(many, 1)
    spread = np.where(present, (without - middle[:, None]) ** 2, 0.0).sum(axis=1)
    error = np.sqrt((many - 1) / np.maximum(many, 1) * spread)
    total = second.sum(axis=1)
    return [
        Estimate(float(first[place].sum() / total[place]), float(error[place]), int(many[place]) - 1)
        if many[place] >= _LEAST_GROUPS and total[place] > 0
        else None
        for place in range(size)
    ]
