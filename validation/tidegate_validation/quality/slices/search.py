"""A bounded search for regions in which the candidate is worse than the baseline, with honest tests of what it finds.

Half of the groups propose: literals such as `carrier=UA` or `hour < 8`, then the worst of them together with others.
The other half tests, so that searching costs no error rate.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.metrics.catalogue import Metric
from tidegate_validation.quality.metrics.gains import Gain, gain_terms
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.quality.slices.gains import SliceGains
from tidegate_validation.quality.slices.partitions import Partition
from tidegate_validation.statistics.arrays import Floats, Integers, Mask

_BEAM = 8
_WORTH = -2.0
_ALIKE = 0.7


@dataclass(frozen=True, slots=True)
class _Region:
    """Rows (of all) that satisfy the literals, and how surely the candidate is worse there on the proposing half."""

    literals: tuple[tuple[int, int], ...]
    inside: Mask
    score: float


Measure = Callable[[Mask], Gain | None]
"""The gain on some of the units, by the metric that judges; None where it cannot be told."""


@dataclass(frozen=True, slots=True)
class Losses:
    """How much better the candidate is, per unit, by which regions are proposed; and the groups of the units."""

    above: Floats
    groups: Integers

    @classmethod
    def of(cls, metric: Metric, evaluation: Evaluation, candidate: Floats, baseline: Floats) -> Losses:
        """By a metric that is a mean."""
        above, _ = gain_terms(metric, evaluation, candidate, baseline)
        return cls(above, evaluation.groups[evaluation.units()])


def search(losses: Losses, partitions: Sequence[Partition], measure: Measure, rule: QualityRule) -> list[SliceGains]:
    """At most `auto_slices` regions of two or more literals, each tested on the half that did not propose it.

    Single literals are left to the slices by column, which see all the data.
    """
    if rule.auto_slices <= 0 or rule.slice_depth < 2 or not partitions:
        return []
    proposing = _half(losses.groups)
    least = max(rule.slice_rows // 2, 30)
    everything = _Region((), np.ones(len(losses.above), dtype=bool), 0.0)
    beam, kept = [everything], list[_Region]()
    for _ in range(rule.slice_depth):
        grown = [one for region in beam for one in _grown(region, losses, partitions, proposing, least)]
        beam = _distinct(sorted(grown, key=lambda one: one.score), _BEAM)
        kept += [one for one in beam if len(one.literals) > 1 and one.score < _WORTH]
    chosen = _distinct(sorted(kept, key=lambda one: one.score), rule.auto_slices)
    return [made for one in chosen if (made := _tested(one, partitions, measure, ~proposing, least)) is not None]


def _half(groups: Integers) -> Mask:
    names, place = np.unique(groups, return_inverse=True)
    order = np.random.default_rng(17).permutation(len(names))
    return np.asarray(order[place] < (len(names) + 1) // 2)


def _grown(
    region: _Region, losses: Losses, partitions: Sequence[Partition], proposing: Mask, least: int
) -> list[_Region]:
    """The region cut by every literal of a column that it has none of, where that looks worse than before."""
    used = {place for place, _ in region.literals}
    found = []
    for place, partition in enumerate(partitions):
        if place in used:
            continue
        here = region.inside & proposing & (partition.codes >= 0)
        codes, size = partition.codes[here], len(partition.names)
        above = losses.above[here]
        rows = np.bincount(codes, minlength=size)
        total = np.bincount(codes, weights=above, minlength=size)
        squares = np.bincount(codes, weights=above**2, minlength=size)
        scores = total / np.sqrt(np.maximum(squares, 1e-300))
        for code in np.flatnonzero((rows >= least) & (scores < min(region.score, 0.0))):
            literals = tuple(sorted((*region.literals, (place, int(code)))))
            found.append(_Region(literals, region.inside & (partition.codes == code), float(scores[code])))
    return found


def _distinct(regions: Sequence[_Region], most: int) -> list[_Region]:
    """The first of them, leaving out those that are nearly the same rows as one before."""
    kept: list[_Region] = []
    for region in regions:
        if len(kept) == most:
            break
        if all(_overlap(region.inside, other.inside) < _ALIKE for other in kept):
            kept.append(region)
    return kept


def _overlap(first: Mask, second: Mask) -> float:
    return float((first & second).sum() / max((first | second).sum(), 1))


def _tested(
    region: _Region, partitions: Sequence[Partition], measure: Measure, testing: Mask, least: int
) -> SliceGains | None:
    rows = region.inside & testing
    gain = measure(rows) if rows.sum() >= least else None
    if gain is None:
        return None
    name = " and ".join(partitions[place].names[code] for place, code in region.literals)
    literals = tuple((partitions[place], code) for place, code in region.literals)
    return SliceGains(name, int(rows.sum()), (gain,), literals, searched=True)
