"""What was measured about one feature, from counts of training and of what is served, before any rule looks at it."""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass

import numpy as np

from tidegate_validation.skew.measures.distance import BlockDistance, block_distance, days_alone
from tidegate_validation.skew.measures.likeness import Likeness, Timeline
from tidegate_validation.skew.measures.points import PointExcess, heaviest_excess
from tidegate_validation.skew.measures.signs import Signs, compare_signs
from tidegate_validation.skew.measures.waves import as_in_waves, days_for_waves
from tidegate_validation.statistics.bins import (
    INFINITIES,
    MISSING,
    OFF_SUPPORT,
    CategoryBins,
    DiscreteBins,
    NumericBins,
)
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.deviations import rows_beyond
from tidegate_validation.statistics.points import FINEST, digits_of
from tidegate_validation.statistics.profile import FeatureProfile, Profile
from tidegate_validation.statistics.reaches import share_of
from tidegate_validation.statistics.sample import TextSample, ValueSample

_NEARLY_ALL = 0.8
_TESTABLE_NEW_RATE = 0.05
_TESTABLE_NEW_CATEGORIES = 0.6
_BY_CHANCE = 0.05
_NO_CHANCE = 0.001
_MANY = 0.25


@dataclass(frozen=True, slots=True)
class Shares:
    """A rate in training and in the window that was served."""

    reference: float
    current: float


@dataclass(frozen=True, slots=True)
class Unseen:
    """`unseen` of `rows` rows held a value that training never held, where `expected` (a rate) do by nature.

    `expected` is Good's (1953) estimate from training, taken by blocks: how often a new day brings a new value anyway;
    or how many rows as many days in training held of values that came up in them, or that lay beyond all days before,
    where such stay.
    `cluster` is how many rows share one such value in training: they count as one, because they came together.
    `number` says that the values are numbers, not categories.
    """

    rows: int
    unseen: int
    expected: float
    cluster: float
    number: bool = False

    @property
    def share(self) -> float:
        """Share of rows with a value that training never held."""
        return self.unseen / self.rows if self.rows else 0.0

    def p_value(self, rate: float) -> float:
        """Probability of this many unseen rows or more if their true rate were `rate`; a binomial over clusters."""
        from scipy import special

        if self.unseen == 0:
            return 1.0
        if rate >= 1.0:
            return 1.0
        hits, tries = self.unseen / self.cluster, self.rows / self.cluster
        return float(special.betainc(max(hits, 1e-9), tries - hits + 1, rate))


@dataclass(frozen=True, slots=True)
class FeatureNumbers:
    """One feature in one window.

    `distribution` compares values that are there; `missing` the rates of null, NaN and empty values, as two bins with
    their `missing_shares`; `infinite_shares` those of infinite ones; `unseen` is None where it cannot be told. `far`
    are values far outside training's range, `outside` those outside it however little; `digits` compares to how many
    digits values are given, `point` is the value whose weight grew most surely, `signs` compares how many are below
    zero. `waves` says that values come and go in waves by nature, and changed no more than that, `days_for_waves` how
    many days of training it takes to tell where it has fewer, else 0.
    """

    feature: str
    rows: int
    distribution: BlockDistance
    missing: BlockDistance
    missing_shares: Shares
    infinite_shares: Shares
    unseen: Unseen | None
    far: Unseen | None
    outside: Unseen | None = None
    digits: BlockDistance | None = None
    point: PointExcess | None = None
    signs: Signs | None = None
    waves: bool = False
    days_for_waves: int = 0


def ordinary_bins(feature: FeatureProfile) -> list[tuple[int, ...]]:
    """Codes of each bin for ordinary values, on and off the grid of known values together, in the order of labels."""
    size = feature.bins.size if feature.bins else 1
    return [(code, OFF_SUPPORT + code) for code in range(size)]


def compared_bins(feature: FeatureProfile, reference: FeatureCounts) -> list[tuple[int, ...]]:
    """The bins of the distribution test, numbers ascending: unseen categories count as other ones there, and have a
    test of their own. So do those that training held on one day alone, as free text comes once and never again, and
    those that are listed only because chance had them come more often than others of their kind."""
    bins = feature.bins
    if isinstance(bins, CategoryBins):
        top = range(len(bins.top))
        days = (reference.grouped([(code,) for code in top]) > 0).sum(axis=0)
        frequent = _frequent(feature, reference)
        apart = [code for code in top if code in frequent and (days[code] > 1 or len(reference.blocks) <= 1)]
        return [*((code,) for code in apart), (bins.other, bins.unseen, *(code for code in top if code not in apart))]
    codes = ordinary_bins(feature)
    if not isinstance(bins, NumericBins):
        return codes
    starts = [float("-inf"), *bins.edges, *bins.atoms]
    return [codes[place] for place in sorted(range(len(codes)), key=lambda place: starts[place])]


def _frequent(feature: FeatureProfile, reference: FeatureCounts) -> set[int]:
    """The listed categories that surely come more often than those beyond the list; all where none are beyond it.

    The most frequent of many alike are so by chance (Moore and Spruill 1975), and no more frequent than others in any
    other days.
    """
    from scipy import special

    bins = feature.bins
    if not isinstance(bins, CategoryBins) or feature.distinct <= len(bins.top):
        return set(range(len(bins.top))) if isinstance(bins, CategoryBins) else set()
    rows = reference.grouped([(code,) for code in range(len(bins.top))]).sum(axis=0).tolist()
    left, number = sum(rows) + int(reference.of((bins.other,)).sum()), feature.distinct
    found = set()
    for code in sorted(range(len(rows)), key=lambda one: -rows[one]):
        if number * special.pdtrc(rows[code] - 1, left / number) >= _BY_CHANCE:
            break
        found.add(code)
        left, number = left - rows[code], number - 1
    return found


def has_order(feature: FeatureProfile) -> bool:
    """Whether its bins ascend."""
    return not isinstance(feature.bins, CategoryBins)


def likeness_of(profile: Profile, growing: Collection[str]) -> Likeness:
    """What the inputs of a profile say about how its days hang together, but for those that are `growing` with time."""
    inputs = [one for one in profile.inputs if one.bins is not None and one.name not in growing]
    found = {
        one.name: days_alone(
            profile.counts[one.name], compared_bins(one, profile.counts[one.name]), ordered=has_order(one)
        )
        for one in inputs
    }
    return Likeness.of({name: one for name, one in found.items() if one is not None})


def measure_feature(
    feature: FeatureProfile,
    reference: FeatureCounts,
    current: FeatureCounts,
    *,
    sample: ValueSample | TextSample | None = None,
    digits: FeatureCounts | None = None,
    point_margin: float = 0.01,
    likeness: Likeness | None = None,
    telling: float = 0.5,
) -> FeatureNumbers:
    """The numbers of one feature for one window; `sample` are its values, `digits` training's counts of digits,
    `likeness` how days hang together, and `telling` the Δ that categories are to show."""
    likeness = likeness or Likeness()
    prior, apart = likeness.shared, likeness.apart(feature.name, _line(reference, current))
    ordinary = ordinary_bins(feature)
    everything = tuple(code for group in ordinary for code in group)
    bins = compared_bins(feature, reference)
    apart_in_all = block_distance(reference, current, bins, ordered=has_order(feature), prior=prior, telling=telling)
    gap = _between(reference, current)
    outside = _outside(feature, reference, current, everything, (apart.longer, apart_in_all.design_effect), sample)
    return FeatureNumbers(
        feature=feature.name,
        rows=current.rows,
        distribution=apart_in_all,
        missing=block_distance(reference, current, [MISSING, (*everything, *INFINITIES)], prior=prior),
        missing_shares=_shares(reference, current, MISSING),
        infinite_shares=_shares(reference, current, INFINITIES),
        unseen=_unseen(feature, current, everything, apart.longer, _ahead(reference, current)),
        far=_far(feature, current, everything),
        outside=outside,
        digits=_digits(digits, sample),
        point=None if sample is None else heaviest_excess(feature, sample, len(current.blocks), apart, point_margin),
        signs=compare_signs(feature, reference, current, sample, prior),
        waves=apart_in_all.by_day and as_in_waves(feature, reference, current, gap, sample),
        days_for_waves=days_for_waves(feature, reference, current, gap) if apart_in_all.by_day else 0,
    )


def _line(reference: FeatureCounts, current: FeatureCounts) -> Timeline:
    before, now = (part.n.sum(axis=1).astype(np.float64) for part in (reference, current))
    return Timeline.of(reference.blocks.astype(np.float64), before, current.blocks.astype(np.float64), now)


def _digits(reference: FeatureCounts | None, sample: ValueSample | TextSample | None) -> BlockDistance | None:
    if reference is None or not isinstance(sample, ValueSample):
        return None
    return block_distance(reference, digits_of(sample), [(code,) for code in range(FINEST + 1)])


def _outside(
    feature: FeatureProfile,
    reference: FeatureCounts,
    current: FeatureCounts,
    ordinary: tuple[int, ...],
    together: tuple[float, float],
    sample: ValueSample | TextSample | None,
) -> Unseen | None:
    """Values outside training's range on the side where more are; extremes that come by the day count once a day, and
    less often where days that follow each other share them, unless the `sample` shows that they stand apart from their
    days. `together` is how many times as long days do that, and how many rows are one observation of a day's level: so
    those count that fill their days, as a level does."""
    bins = feature.bins
    if not isinstance(bins, NumericBins) or not bins.far or not current.rows:
        return None
    last = len(bins.edges)
    present = feature.rows - feature.missing - feature.infinite
    thinner = (current.rows / len(current.blocks)) / (reference.rows / len(reference.blocks))
    longer, level = together
    sides = [
        Unseen(
            rows=int(current.of(ordinary).sum()),
            unseen=int(current.of(codes).sum()),
            expected=max(2.0 / max(present, 1), share_of(reach, _ahead(reference, current))),
            cluster=max(
                1 + ((cluster - 1) * longer) * min(1.0, thinner), level if _fill_days(current, ordinary, codes) else 1.0
            ),
        )
        for codes, cluster, reach in zip(((0, 1), (last - 1, last)), feature.clusters, feature.reaches, strict=True)
    ]
    if isinstance(sample, ValueSample):
        sides += _standing_apart(feature, sample, current.rows, max(1.0, thinner), _ahead(reference, current))
    return max(sides, key=lambda one: one.unseen / one.cluster)


def _standing_apart(
    feature: FeatureProfile, sample: ValueSample, rows: int, fuller: float, ahead: int
) -> Iterator[Unseen]:
    """Values outside training's range, each for itself, on a side where too many days for chance have some that are
    further from the day's other rows than any of training were: no season and no hot day brings those, for these move
    the other rows too. Days have `fuller` times training's rows, of which each may be the furthest."""
    ends = zip((-1, 1), (feature.minimum, feature.maximum), feature.deviations or (), strict=False)
    for side, limit, known in ends:
        furthest = sample.values[-1 if side > 0 else 0] if len(sample.values) else 0.0
        if limit is None or side * (furthest - limit) <= 0:
            continue
        found = rows_beyond(sample, known, side, limit, ahead)
        if found is None:
            continue
        beyond, apart = found
        days = Unseen(len(apart), int((apart > 0).sum()), known.rate(ahead), 1.0)
        if days.p_value(days.expected * fuller) < _NO_CHANCE and days.share > known.spell(days.rows):
            # Where many of a day's stand apart, the others came with them.
            counted = np.where(apart >= _MANY * beyond, beyond, apart).sum()
            present = feature.rows - feature.missing - feature.infinite
            yield Unseen(rows, int(counted), 2.0 / max(present, 1), 1.0)


def _fill_days(current: FeatureCounts, ordinary: tuple[int, ...], codes: tuple[int, ...]) -> bool:
    """Whether nearly all rows in these bins are of days that have most of theirs there."""
    rows, there = current.of(ordinary), current.of(codes)
    return bool(there[there > rows / 2].sum() >= _NEARLY_ALL * max(there.sum(), 1))


def _shares(reference: FeatureCounts, current: FeatureCounts, codes: tuple[int, ...]) -> Shares:
    return Shares(*(float(part.of(codes).sum()) / max(part.rows, 1) for part in (reference, current)))


def _ahead(reference: FeatureCounts, current: FeatureCounts) -> int:
    """From so many blocks in a row training learnt as little of their last ones as it did of the window's: what lies
    between the two counts twice, for all of the window's rows come after it."""
    return 2 * _between(reference, current) + len(current.blocks)


def _between(reference: FeatureCounts, current: FeatureCounts) -> int:
    """How many blocks lie between the last one of training and the first one of the window."""
    if not (current.rows and reference.rows):
        return 0
    return max(int(current.blocks.min()) - int(reference.blocks.max()) - 1, 0)


def _unseen(
    feature: FeatureProfile, current: FeatureCounts, ordinary: tuple[int, ...], longer: float, ahead: int
) -> Unseen | None:
    bins = feature.bins
    testable = _TESTABLE_NEW_CATEGORIES if isinstance(bins, CategoryBins) else _TESTABLE_NEW_RATE
    if feature.new_rate is None:
        return None
    expected = max(feature.new_rate, feature.points.freshness(ahead))
    if expected > testable:
        return None
    told = bins.told if isinstance(bins, CategoryBins) else 1.0
    if told == 0:
        return None
    if isinstance(bins, NumericBins):
        if not feature.support:
            return None
        codes = tuple(OFF_SUPPORT + code for code in range(bins.size))
    elif isinstance(bins, DiscreteBins | CategoryBins):
        codes = (bins.unseen,)
    else:
        return None
    present = feature.rows - feature.missing - feature.infinite
    cluster = max(1.0, feature.new_rate * present / max(feature.new_values, 1))
    hits = int(current.of(codes).sum())
    return Unseen(
        rows=max(int(current.of(ordinary).sum() * told), hits),
        unseen=hits,
        expected=max(expected, 1.0 / max(present, 1)),
        cluster=1 + (cluster - 1) * longer,
        number=isinstance(bins, NumericBins),
    )


def _far(feature: FeatureProfile, current: FeatureCounts, ordinary: tuple[int, ...]) -> Unseen | None:
    if not isinstance(feature.bins, NumericBins) or not feature.bins.far:
        return None
    codes = feature.bins.far
    present = feature.rows - feature.missing - feature.infinite
    return Unseen(int(current.of(ordinary).sum()), int(current.of(codes).sum()), 1.0 / max(present, 1), 1.0)
