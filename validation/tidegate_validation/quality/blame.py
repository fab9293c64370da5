"""Which of the slices that are worse is the reason for the others: a fault in one shows in all that share its rows.

`judging` hands in the slices that are worse; what is worse only because of a weightier one is listed under that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tidegate_validation.quality.catalogue import METRICS
from tidegate_validation.quality.compared import gain_of
from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.metrics import Estimate, Floats, Mask
from tidegate_validation.quality.slice_sets import whole_rows
from tidegate_validation.quality.slices import SliceGain

_LEAST = 100


@dataclass(slots=True)
class Blamed:
    """A slice that is worse in its own right, and the names of those that are worse because of it."""

    slice: SliceGain
    explains: list[str] = field(default_factory=list)


def blame(
    slices: Sequence[SliceGain], evaluation: Evaluation, candidate: Floats, baseline: Floats, alpha: float
) -> list[Blamed]:
    """The slices that explain the others, and those that stay worse without their rows."""

    def gain(one: SliceGain, units: Mask) -> Estimate:
        metric = next(m for m in METRICS if m.name == one.gain.metric and evaluation.task in m.tasks)
        rows = whole_rows(units, evaluation)
        return gain_of(metric, evaluation.take(rows), candidate[rows], baseline[rows]).gain

    return _blame(sorted(slices, key=lambda one: -one.weight), gain, alpha)


def _blame(slices: Sequence[SliceGain], gain: Callable[[SliceGain, Mask], Estimate], alpha: float) -> list[Blamed]:
    """The weightiest slice, and the weightiest of those that stay worse without the rows of all slices before."""
    left, found = list(slices), list[Blamed]()
    gone: Mask | None = None
    while left:
        reason, *others = left
        inside = reason.tested.inside()
        gone = inside if gone is None else gone | inside
        left = [one for one in others if _still_worse(one, gone, gain, alpha)]
        found.append(Blamed(reason, [one.name for one in others if one not in left]))
    return found


def _still_worse(one: SliceGain, gone: Mask, gain: Callable[[SliceGain, Mask], Estimate], alpha: float) -> bool:
    """Whether a slice is worse even without some rows."""
    rest = one.tested.inside() & ~gone
    return bool(rest.sum() >= _LEAST) and _worse(gain(one, rest), one, alpha)


def _worse(gain: Estimate, one: SliceGain, alpha: float) -> bool:
    """Whether it is still worse by more than its margin, or, where that was never sure, at all."""
    limit = -one.margin if one.p_margin < alpha else 0.0
    return bool(np.isfinite(gain.error)) and gain.p_below(limit) < alpha
