"""Standard errors of the gains in many slices at once, where rows stand alone or come in groups.

A slice may hold few groups (a weekday has four days in a month). What rows of one group have in common is then learnt
from all examples.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.metrics.catalogue import Metric
from tidegate_validation.quality.metrics.gains import Gain
from tidegate_validation.quality.metrics.margins import Margin
from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.jackknife import Estimate

_ENOUGH_GROUPS = 20


@dataclass(frozen=True, slots=True)
class LinearGains:
    """A metric's gains in some slices, the candidate's and baseline's values there, shape [slices]; and each unit's
    part in its slice's gain, shape [units], which add up to 0 in each slice. `margins` are the losses allowed, `shares`
    how many units make up what a share is taken of, shape [slices].
    """

    metric: Metric
    value: Floats
    candidate: Floats
    baseline: Floats
    parts: Floats
    margins: Sequence[Margin]
    shares: Floats


GainsOf = Callable[[Integers, Integers], LinearGains]
"""From the slice of each unit (-1 for none) and the places of the slices to compute."""


@dataclass(frozen=True, slots=True)
class ErrorModel:
    """How units of one group go together: `groups` per unit, None where each stands alone; `common` is the correlation
    of their parts, `freedom` the degrees of freedom behind that.
    """

    groups: Integers | None
    common: float
    freedom: int

    @classmethod
    def learn(cls, evaluation: Evaluation, gains_of: GainsOf) -> ErrorModel:
        """From all examples as one slice."""
        if not evaluation.clustered:
            return cls(None, 0.0, 0)
        units = evaluation.units()
        groups = evaluation.groups[units]
        parts = gains_of(np.zeros(len(units), dtype=np.int64), np.array([0])).parts
        sizes = np.bincount(groups).astype(np.float64)
        alone = float((parts**2).sum())
        together = float((np.bincount(groups, weights=parts) ** 2).sum())
        beside = float((sizes**2).sum() / sizes.sum()) - 1
        common = (together / alone - 1) / beside if alone > 0 and beside > 0 else 0.0
        return cls(groups, max(common, 0.0), max(int((sizes > 0).sum()) - 1, 1))

    def gains(self, linear: LinearGains, codes: Integers, places: Integers) -> list[Gain | None]:
        """The gains with their errors; None where there is none."""
        inside = codes >= 0
        size = max(int(codes.max(initial=0)), int(places.max(initial=0))) + 1
        rows = np.bincount(codes[inside], minlength=size).astype(np.float64)
        alone = np.bincount(codes[inside], weights=linear.parts[inside] ** 2, minlength=size)
        variance, freedom = alone * rows / np.maximum(rows - 1, 1), np.maximum(rows - 1, 1)
        if self.groups is not None:
            variance, freedom = self._grouped(linear.parts[inside], codes[inside], self.groups[inside], variance, rows)
        return [
            Gain(
                linear.metric.name,
                float(linear.candidate[number]),
                float(linear.baseline[number]),
                Estimate(float(linear.value[number]), float(np.sqrt(variance[place])), int(freedom[place])).of_few(
                    float(linear.shares[number])
                ),
                linear.margins[number].relative,
                margin=linear.margins[number].limit,
            )
            if np.isfinite(linear.value[number])
            else None
            for number, place in enumerate(places)
        ]

    def _grouped(
        self, parts: Floats, codes: Integers, groups: Integers, alone: Floats, rows: Floats
    ) -> tuple[Floats, Floats]:
        """Variance and degrees of freedom per slice, where units come in groups."""
        count, size = int(groups.max(initial=0)) + 1, len(rows)
        cells = codes * count + groups
        sums = np.bincount(cells, weights=parts, minlength=size * count).reshape(size, count)
        sizes = np.bincount(cells, minlength=size * count).reshape(size, count)
        many = (sizes > 0).sum(axis=1)
        own = (sums**2).sum(axis=1) * many / np.maximum(many - 1, 1)
        beside = (sizes.astype(np.float64) ** 2).sum(axis=1) / np.maximum(rows, 1) - 1
        learnt = alone * (1 + np.maximum(beside, 0) * self.common)
        enough = many >= _ENOUGH_GROUPS
        return np.where(enough, own, learnt), np.where(enough, np.maximum(many - 1, 1), self.freedom)
