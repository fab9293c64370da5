"""A column whose values differ: all that is known of it when a cause is looked for, and how far shares are apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from tidegate_validation.skew.measures.numbers import FeatureNumbers
from tidegate_validation.skew.rule import Aspect, Judgement
from tidegate_validation.statistics.arrays import Floats, Mask
from tidegate_validation.statistics.bins import OFF_SUPPORT
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sample import TextSample, ValueSample

_NEARLY_ALL = 0.9
_MOST = 0.9
_LEAST_ROWS = 20
_TOLD = 5
_PLACES = np.linspace(0.0005, 0.9995, 2000)


@dataclass(frozen=True, slots=True)
class Joint:
    """A column's values, row by row, and beside each what the row holds in other columns, as texts; `related` are
    those of the columns that go together with it in training."""

    values: Floats
    beside: Mapping[str, npt.NDArray[np.object_]]
    related: frozenset[str] = frozenset()

    def only_where(self, hit: Mask, columns: Iterable[str]) -> tuple[str, tuple[str, ...]] | None:
        """The few categories of one of the columns that hold nearly all rows that are `hit`, as nearly all of theirs
        are; of the column of which fewest do, the heaviest first. None where there are none, or hardly others."""
        told = []
        for column in columns:
            names, codes, n = np.unique(self.beside[column], return_inverse=True, return_counts=True)
            inside = np.bincount(codes, weights=hit, minlength=len(names))
            full = np.flatnonzero(inside >= _NEARLY_ALL * n)
            if inside[full].sum() >= max(_NEARLY_ALL * hit.sum(), _LEAST_ROWS) and n[full].sum() <= _MOST * len(hit):
                told.append((column, tuple(str(names[code]) for code in full[np.argsort(-n[full], kind="stable")])))
        best = min(told, key=lambda one: len(one[1]), default=None)
        return best if best is not None and len(best[1]) <= _TOLD else None


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
