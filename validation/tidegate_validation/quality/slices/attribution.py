"""Attribution of losses: which of the slices that are worse is the reason for the others that share its rows."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.metrics.catalogue import METRICS
from tidegate_validation.quality.metrics.gains import gain_of
from tidegate_validation.quality.metrics.margins import Margin
from tidegate_validation.quality.slices.gains import SliceTest
from tidegate_validation.quality.slices.partitions import whole_rows
from tidegate_validation.statistics.arrays import Floats, Mask
from tidegate_validation.statistics.jackknife import Estimate

_LEAST = 100
GainWithin = Callable[[SliceTest, Mask], Estimate]


@dataclass(slots=True)
class Attribution:
    """A slice that is worse in its own right, and the names of those that are worse because of it."""

    slice: SliceTest
    explains: list[str] = field(default_factory=list)


def attribute_losses(
    slices: Sequence[SliceTest], evaluation: Evaluation, candidate: Floats, baseline: Floats, alpha: float
) -> list[Attribution]:
    """The slices that explain the others, weightiest first, each still worse without the rows of all before it."""

    def gain_within(one: SliceTest, units: Mask) -> Estimate:
        metric = next(m for m in METRICS if m.name == one.gain.metric and evaluation.task in m.tasks)
        rows = whole_rows(units, evaluation)
        allowed = Margin(one.margin, one.gain.relative)
        return gain_of(metric, evaluation.take(rows), candidate[rows], baseline[rows], allowed).gain

    left, found = sorted(slices, key=lambda one: -one.slice.weight), list[Attribution]()
    explained: Mask | None = None
    while left:
        reason, *others = left
        inside = reason.slice.inside()
        explained = inside if explained is None else explained | inside
        left = [one for one in others if _worse_without(one, explained, gain_within, alpha)]
        found.append(Attribution(reason, [one.name for one in others if one not in left]))
    return found


def _worse_without(one: SliceTest, explained: Mask, gain_within: GainWithin, alpha: float) -> bool:
    """Whether it is still worse without the rows explained: by more than its margin, or, where that was never sure, at
    all.
    """
    rest = one.slice.inside() & ~explained
    if rest.sum() < _LEAST:
        return False
    gain = gain_within(one, rest)
    limit = -one.margin if one.p_margin < alpha else 0.0
    return bool(np.isfinite(gain.error)) and gain.p_below(limit) < alpha
