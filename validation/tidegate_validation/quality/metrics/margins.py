"""Margins: how much of a metric a candidate may lose, as points, or as a share of the baseline's loss with a floor.

Where the baseline hardly loses anything, a share of that is nothing, and any candidate would exceed it.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

from tidegate_validation.quality.metrics.catalogue import Metric

_SQUARED = "squared error"


@dataclass(frozen=True, slots=True)
class Margin:
    """The loss that is allowed: a share of the baseline's where `relative`, else an amount of the metric."""

    limit: float
    relative: bool


@dataclass(frozen=True, slots=True)
class Margins:
    """`points` for metrics that change in points; for losses `share` of the baseline's, but never less than `least` of
    the metric (by its name), nor than `absolute` in the metric's unit (for squared error in that of its root).
    """

    points: float
    share: float
    absolute: float = 0.0
    least: Mapping[str, float] = field(default_factory=dict)

    def of(self, metric: Metric, baseline: float) -> Margin:
        """The margin of a metric of which the baseline has so much."""
        if not metric.relative:
            return Margin(self.points, relative=False)
        floor = max(self.least.get(metric.name, 0.0), self._absolute(metric, baseline))
        share = self.share * baseline
        return Margin(floor, relative=False) if share < floor else Margin(self.share, relative=True)

    def _absolute(self, metric: Metric, baseline: float) -> float:
        if metric.name != _SQUARED:
            return self.absolute
        return (math.sqrt(max(baseline, 0.0)) + self.absolute) ** 2 - baseline if self.absolute else 0.0
