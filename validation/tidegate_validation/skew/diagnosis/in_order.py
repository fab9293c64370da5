"""Values that ascend, or descend, over a whole window: a column that was sorted apart from its rows."""

from __future__ import annotations

import itertools

import numpy as np

from tidegate_validation.skew.diagnosis.cause import Cause
from tidegate_validation.skew.diagnosis.suspect import Suspect
from tidegate_validation.statistics.sample import ValueSample

SORTED = "sorted"
_LEAST_DAYS = 3
_LEAST_VALUES = 20
_NARROW = 0.6
_MOST = 0.5


def sorted_over_days(suspect: Suspect) -> Cause | None:
    """No day has a value beyond the next day's, where training's days have most of its values each; sorting leaves
    values in training's range."""
    sample = suspect.sample
    days, place = np.unique(sample.blocks, return_inverse=True)
    if len(days) < _LEAST_DAYS or len(np.unique(sample.values)) < _LEAST_VALUES or _narrow(suspect):
        return None
    if _beyond_training(suspect):
        return None
    ends = [(min(day), max(day)) for day in (sample.values[place == one] for one in range(len(days)))]
    up = all(before[1] <= after[0] for before, after in itertools.pairwise(ends))
    down = all(before[0] >= after[1] for before, after in itertools.pairwise(ends))
    return Cause(SORTED, details=(("way", "ascending" if up else "descending"),)) if up or down else None


def _narrow(suspect: Suspect) -> bool:
    """Whether training's days hold few of its bins each, as where values grow with time."""
    held = suspect.reference.n > 0
    return float(held.sum(axis=1).mean()) < _NARROW * float(held.any(axis=0).sum())


def _beyond_training(suspect: Suspect) -> bool:
    """Whether most rows have numbers that training never came near, such as Unix seconds for hours of the day."""
    sample, low, high = suspect.sample, suspect.feature.minimum, suspect.feature.maximum
    if not isinstance(sample, ValueSample) or low is None or high is None:
        return False
    return float(np.average((sample.values < low) | (sample.values > high), weights=sample.n)) > _MOST
