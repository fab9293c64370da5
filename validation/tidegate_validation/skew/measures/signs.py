"""How many values are below zero: a test of its own, as a sign that is lost in a minority of the rows is diluted among
all bins.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from tidegate_validation.skew.measures.distance import BlockDistance, block_distance
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.bins import OFF_SUPPORT, DiscreteBins, NumericBins
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sample import TextSample, ValueSample

_LEAST = 0.02


@dataclass(frozen=True, slots=True)
class Signs:
    """Values below zero and others as two bins: how far apart, and which share was below in training and is now."""

    distance: BlockDistance
    reference: float
    current: float


def compare_signs(
    feature: FeatureProfile,
    reference: FeatureCounts,
    current: FeatureCounts,
    sample: ValueSample | TextSample | None,
    prior: Floats | None = None,
) -> Signs | None:
    """The signs of both; None where training hardly held values of one of them. A bin that reaches over zero counts as
    what most of its values are."""
    if not isinstance(feature.bins, NumericBins | DiscreteBins) or not isinstance(sample, ValueSample):
        return None
    signs = dict(_signs(feature.bins))
    groups = [
        tuple(code for one, below in signs.items() if below is side for code in (one, OFF_SUPPORT + one))
        for side in (True, False)
    ]
    before = [float(reference.of(group).sum()) for group in groups]
    if not sample.n.sum() or not sum(before) or min(before) < _LEAST * sum(before):
        return None
    distance = block_distance(reference, current, groups, prior=prior)
    now = float(sample.n[sample.values < 0].sum() / sample.n.sum())
    listed = isinstance(feature.bins, DiscreteBins) or not feature.quantiles
    share = before[0] / sum(before) if listed else float(np.interp(0.0, feature.quantiles, feature.levels))
    return Signs(distance, share, now)


def _signs(bins: NumericBins | DiscreteBins) -> Iterator[tuple[int, bool]]:
    """Whether most values are below zero, by the code of their bin."""
    if isinstance(bins, DiscreteBins):
        yield from ((code, value < 0) for code, value in enumerate(bins.values))
        return
    for code, (low, high) in enumerate(pairwise([float("-inf"), *bins.edges, float("inf")])):
        yield code, low < 0 and low + high < 0
    yield from ((len(bins.edges) + 1 + place, value < 0) for place, value in enumerate(bins.atoms))
