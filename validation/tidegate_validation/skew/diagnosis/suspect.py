"""A column whose values differ: all that is known of it when a cause is looked for, and how far shares are apart."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tidegate_validation.skew.measures.numbers import FeatureNumbers
from tidegate_validation.skew.rule import Aspect, Judgement
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.bins import OFF_SUPPORT
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sample import TextSample, ValueSample

_PLACES = np.linspace(0.0005, 0.9995, 2000)


@dataclass(frozen=True, slots=True)
class Joint:
    """A column's values, row by row, and beside each what the row holds in other columns, as texts; `related` are
    those of the columns that go together with it in training."""

    values: Floats
    beside: Mapping[str, npt.NDArray[np.object_]]
    related: frozenset[str] = frozenset()


@dataclass(frozen=True, slots=True)
class Suspect:
    """One column that differs: all that is known of it, and how near it is to each of the other columns of training
    whose values lie as far from each other within a day."""

    feature: FeatureProfile
    reference: FeatureCounts
    current: FeatureCounts
    sample: ValueSample | TextSample
    numbers: FeatureNumbers
    judgements: Mapping[Aspect, Judgement]
    others: Callable[[], Mapping[str, float]]
    joint: Callable[[], Joint]
    digits_before: FeatureCounts | None = None
    known_to: Mapping[str, tuple[tuple[float, int], ...]] = field(default_factory=dict)

    def flagged(self, aspect: Aspect) -> bool:
        """Whether that test said WARN or FAIL."""
        return aspect in self.judgements and self.judgements[aspect].outcome.value in ("WARN", "FAIL")

    @property
    def noise(self) -> float:
        """The Δ that days alone bring about."""
        return float(self.numbers.distribution.noise**0.5) if self.numbers.distribution.decidable else 0.0


def like_training(feature: FeatureProfile) -> Floats:
    """Two thousand values, ascending, that are spread as training's: of those that it held, where they are listed."""
    if not feature.support:
        return np.asarray(np.interp(_PLACES, feature.levels, feature.quantiles))
    values, n = np.array(feature.support).T
    reached = np.cumsum(n)
    return np.asarray(values[np.searchsorted(reached, _PLACES * reached[-1])])


def distance_of(p: Floats, q: Floats) -> float:
    """Δ of two vectors of shares."""
    middle = np.maximum((p + q) / 2, 1e-12)
    return float(np.sqrt(((p - q) ** 2 / middle).sum()))


def shares_of(feature: FeatureProfile, counts: FeatureCounts) -> Floats:
    """Shares of the bins for values that are there."""
    size = feature.bins.size if feature.bins else 1
    rows = np.array([counts.of((code, OFF_SUPPORT + code)).sum() for code in range(size)], dtype=np.float64)
    return np.asarray(rows / max(rows.sum(), 1.0))


def both(suspect: Suspect) -> tuple[Floats, Floats]:
    """Shares of the bins in training and in the window."""
    return shares_of(suspect.feature, suspect.reference), shares_of(suspect.feature, suspect.current)
