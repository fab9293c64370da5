"""What a change of numbers is held against: training's values and counts, and served values with it undone."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tidegate_validation.skew.diagnosis.cause import Cause
from tidegate_validation.skew.diagnosis.grid import back_as_they_were, fits_the_grid
from tidegate_validation.skew.diagnosis.scale import ScaleFit, fit_factor, without_zeros
from tidegate_validation.skew.measures.distance import BlockDistance, block_distance, delta_alone
from tidegate_validation.skew.measures.numbers import compared_bins, ordinary_bins
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.bins import DiscreteBins, NumericBins
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sample import ValueSample

_NOTHING = 0.004
_QUARTILES = (0.25, 0.75)
_OF_NORMAL = 1.349
"""The distance of a normal's quartiles in standard deviations."""


@dataclass(frozen=True, slots=True)
class Evidence:
    """What each candidate is compared with; `known` is empty where values are too many to be listed."""

    feature: FeatureProfile
    bins: NumericBins | DiscreteBins
    reference: FeatureCounts
    sample: ValueSample
    values: Floats
    weights: Floats
    known: Floats
    known_weights: Floats
    margin: float
    grid: float | None

    def distance(self, factor: float, offset: float) -> BlockDistance:
        """Distance from training with the change undone."""
        return block_distance(self.reference, self._undone(factor, offset), ordinary_bins(self.feature))

    def delta(self, factor: float, offset: float) -> float:
        """How far that is, without what chance would do."""
        return delta_alone(self.reference, self._undone(factor, offset), ordinary_bins(self.feature))

    def on_grid(self, factor: float) -> bool | None:
        """Whether values lie on training's grid with the factor undone; None where that cannot be told."""
        return None if self.grid is None else fits_the_grid(self.values, self.grid, factor)

    def _undone(self, factor: float, offset: float) -> FeatureCounts:
        if self.grid is None:
            return self.sample.counted(self.bins, factor, offset)
        back = back_as_they_were(self.sample.values, self.grid, factor, offset)
        return replace(self.sample, values=back).counted(self.bins, 1.0, 0.0)


def days_move(evidence: Evidence, factor: float) -> float:
    """By how much the logarithms of values lie elsewhere in a window like this one, as its days are others, of values
    on both sides of zero by their typical size; infinity where training does not tell. Many zeros say nothing of it."""
    feature = evidence.feature
    current = evidence.sample.counted(evidence.bins, factor, 0.0)
    bins, known = compared_bins(feature, evidence.reference), np.array(feature.quantiles)
    low, high = np.interp(_QUARTILES, feature.levels, known)
    zero = _bin_of_zeros(evidence.bins)
    if zero is not None:
        bins, known = [one for one in bins if zero not in one], _without_zeros(feature)[0]
        low, high = np.quantile(known, _QUARTILES) if len(known) else (0.0, 0.0)
    level = block_distance(evidence.reference, current, bins, ordered=True).level
    if level is None:
        return np.inf
    if low > 0:
        return level.error * float(np.log(high / low)) / _OF_NORMAL
    typical = float(np.median(np.abs(known))) if len(known) else 0.0
    return float(np.log1p(level.error * (high - low) / _OF_NORMAL / typical)) if typical else np.inf


def _bin_of_zeros(bins: NumericBins | DiscreteBins) -> int | None:
    """The bin that holds zeros and nothing else, where training held many."""
    if 0.0 not in (bins.values if isinstance(bins, DiscreteBins) else bins.atoms):
        return None
    return int(bins.assign(np.zeros(1))[0])


def _without_zeros(feature: FeatureProfile) -> tuple[Floats, float]:
    levels, quantiles = np.array(feature.levels), np.array(feature.quantiles)
    present = feature.rows - feature.missing - feature.infinite
    return without_zeros(levels, quantiles, feature.support, present)


def fitted(evidence: Evidence) -> ScaleFit | None:
    """The factor that distributions suggest, with an error that takes in how days differ."""
    fit = fit_factor(evidence.values, evidence.weights, *_without_zeros(evidence.feature))
    if fit is None:
        return None
    return replace(fit, log_error=fit.log_error * evidence.distance(fit.factor, 0.0).design_effect ** 0.5)


def is_nothing(evidence: Evidence, cause: Cause) -> bool:
    """Whether a change is too small to be one."""
    return abs(cause.factor - 1) < _NOTHING and abs(cause.offset) < _NOTHING * np.ptp(evidence.feature.quantiles)
