"""Looks for the causes of columns that differ, in what a comparison of a window with a profile has at hand."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tidegate_serving.admission import Outcome
from tidegate_validation.skew.diagnosis.cause import Cause
from tidegate_validation.skew.diagnosis.conversion import find_cause
from tidegate_validation.skew.diagnosis.frozen import frozen_since
from tidegate_validation.skew.diagnosis.rivals import OTHER_COLUMN, name_cause
from tidegate_validation.skew.diagnosis.suspect import Joint, Suspect, distance_of, shares_of
from tidegate_validation.skew.measures.growth import blocks_of
from tidegate_validation.skew.measures.numbers import FeatureNumbers
from tidegate_validation.skew.rule import Aspect, Judgement, SkewRule
from tidegate_validation.statistics.agreements import goes_with
from tidegate_validation.statistics.bins import CategoryBins, DiscreteBins, NumericBins
from tidegate_validation.statistics.counting import count_rows
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.points import digits_name
from tidegate_validation.statistics.profile import FeatureProfile, Profile
from tidegate_validation.statistics.rows import Rows
from tidegate_validation.statistics.sample import TextSample, ValueSample, read_joint
from tidegate_validation.statistics.window import Window

_KNOWN = 0.5
_APART = 0.3
_ERRORS = 2.0
_ALL = 0.9
_LARGEST = 1e290


@dataclass(frozen=True, slots=True)
class Inquiry:
    """What is at hand when a cause is looked for; nobody who reads of it knows the `derived` columns."""

    profile: Profile
    window: Window
    read: Rows
    counts: Mapping[str, FeatureCounts]
    samples: Mapping[str, ValueSample | TextSample]
    numbers: Mapping[str, FeatureNumbers]
    judgements: Mapping[str, Sequence[Judgement]]
    rule: SkewRule
    derived: Collection[str] = ()

    def cause(self, feature: FeatureProfile) -> Cause | None:
        """Of a feature whose values differ, or of which the window could not tell whether they do."""
        about = [one for one in self.judgements[feature.name] if one.test not in (Aspect.MISSING, Aspect.INFINITE)]
        weak = any((one.detectable or 0.0) > self.rule.detectable for one in about)
        settled = all(one.outcome in (Outcome.PASS, Outcome.INCONCLUSIVE) for one in about)
        if settled and not weak:
            return None
        sample = self.samples[feature.name]
        if _too_large(feature, sample):
            return None
        if settled:
            return self._conversion(feature, sample, by_values=True)
        suspect = Suspect(
            feature,
            self.profile.counts[feature.name],
            self.counts[feature.name],
            sample,
            self.numbers[feature.name],
            {one.test: one for one in about},
            lambda: dict(self._others(feature)),
            lambda: self._joint(feature),
            self.profile.counts.get(digits_name(feature.name)),
            {one.name: one.support for one in self.profile.inputs},
        )
        return name_cause(suspect, lambda: self._conversion(feature, sample))

    def since(self, feature: FeatureProfile, cause: Cause | None, begun: int, *, grows: bool) -> Cause | None:
        """The cause of a difference that is there from the block `begun` on; of the rows since then where it was
        estimated by how all rows are distributed, as those before are like training's, which such an estimate takes for
        a part of the change, or where nothing explains all of them: then with a name alone."""
        sample = self.samples[feature.name]
        if cause is not None:
            cause = frozen_since(cause, sample, begun)
        told = cause is not None and (not cause.is_conversion or cause.by_values or cause.share < 1)
        failing = any(one.outcome is Outcome.FAIL for one in self.judgements[feature.name])
        if (
            grows
            or told
            or not isinstance(sample, ValueSample)
            or not (cause or failing)
            or _too_large(feature, sample)
        ):
            return cause
        kept = sample.blocks >= begun
        found = self._conversion(feature, ValueSample(sample.values[kept], sample.blocks[kept], sample.n[kept]))
        if found is None or (found.kind != cause.kind if cause else not found.name or found.share < _ALL):
            return None
        return found

    def swapped(self, causes: Mapping[str, Cause]) -> dict[str, Cause]:
        """The other half of columns that changed places: failing ones whose values are about those of a column that
        surely holds theirs, whatever else looks like them."""
        found = {}
        for name, cause in causes.items():
            other = str(dict(cause.details)["column"]) if cause.kind == OTHER_COLUMN else name
            failing = any(one.outcome is Outcome.FAIL for one in self.judgements.get(other, ()))
            if not failing or (other in causes and causes[other].kind == OTHER_COLUMN):
                continue
            feature = self.profile.features[other]
            left = dict(self._others(feature, scattered=False)).get(name, np.inf)
            apart = distance_of(*(shares_of(feature, part[other]) for part in (self.profile.counts, self.counts)))
            if left <= max(_KNOWN * apart, float(self.numbers[other].distribution.noise) ** 0.5):
                found[other] = Cause(OTHER_COLUMN, details=(("column", name), ("left", round(left, 3))))
        return found

    def _conversion(
        self, feature: FeatureProfile, sample: ValueSample | TextSample, *, by_values: bool = False
    ) -> Cause | None:
        if not isinstance(sample, ValueSample):
            return None
        digits = self.profile.counts.get(digits_name(feature.name))
        counts, margin = self.profile.counts[feature.name], self.rule.margin
        return find_cause(feature, counts, sample, margin=margin, digits=digits, by_values=by_values)

    @property
    def few_valued(self) -> list[str]:
        """All columns of few values, or of categories, but for derived ones."""
        known = [one for one in self.profile.inputs if one.name in self.counts and one.name not in self.derived]
        return [one.name for one in known if isinstance(one.bins, CategoryBins | DiscreteBins)]

    def _joint(self, feature: FeatureProfile) -> Joint:
        """Its values beside those of all columns of few values."""
        columns = self.window.columns
        beside = {name: columns.get(name, name) for name in self.few_valued if name != feature.name}
        window = self.window
        column = columns.get(feature.name, feature.name)
        pairs = [(one.first, one.second) for one in self.profile.pairs if feature.name in (one.first, one.second)]
        related = frozenset(name for pair in pairs for name in pair if name != feature.name)
        return Joint(*read_joint(window.connection, window.relation, column, beside, window.types), related)

    def _others(self, feature: FeatureProfile, *, scattered: bool = True) -> Iterator[tuple[str, float]]:
        """How far the feature's values are from those of each other column of its kind in training, where days of both
        are `scattered` alike."""
        column = self.window.columns.get(feature.name, feature.name)
        numeric = feature.family.numeric
        rivals = [one for one in self.profile.inputs if one.bins is not None and one.name != feature.name]
        rivals = [one for one in rivals if one.family.numeric == numeric and self._may_be_held(column, one.name)]
        window, carried = self.window, {one.name: column for one in rivals}
        found = count_rows(window.connection, window.relation, window.block, rivals, carried, self.read)
        for one in rivals:
            p, q = shares_of(one, self.profile.counts[one.name]), shares_of(one, found[one.name])
            if (
                isinstance(one.bins, CategoryBins)
                and min(p[: one.bins.other].sum(), q[: one.bins.other].sum()) < _KNOWN
            ):
                continue  # Nearly every text counts as other here: free text is like any column.
            if scattered and not _as_far_apart(one, self.profile.counts[one.name], found[one.name]):
                continue
            yield one.name, distance_of(p, q)

    def _may_be_held(self, column: str, other: str) -> bool:
        """Whether a column of the window may hold what another did in training: that one is wrong itself, as where both
        changed places, or both go together row by row; else they only are spread alike."""
        theirs = self.window.columns.get(other, other)
        if theirs not in self.read.columns or any(
            one.outcome is Outcome.FAIL for one in self.judgements.get(other, ())
        ):
            return True
        return goes_with(self.read, column, theirs)


def _too_large(feature: FeatureProfile, sample: ValueSample | TextSample) -> bool:
    """Whether numbers, here or in training, are so large that their products and sums have no end."""
    ends = [abs(one) for one in (feature.minimum, feature.maximum) if one is not None]
    served = np.abs(sample.values).max(initial=0.0) if isinstance(sample, ValueSample) else 0.0
    return bool(max([*ends, served]) > _LARGEST)


def _as_far_apart(feature: FeatureProfile, reference: FeatureCounts, current: FeatureCounts) -> bool:
    """Whether values of one day lie as far from each other as in training; of texts nothing is told."""
    if not isinstance(feature.bins, NumericBins):
        return True
    before, now = blocks_of(feature.bins, reference)[1], blocks_of(feature.bins, current)[1]
    if not before or not now:
        return before == now
    return bool(abs(np.log(now / before)) <= _APART + _ERRORS / (2 * max(current.rows, 1)) ** 0.5)
