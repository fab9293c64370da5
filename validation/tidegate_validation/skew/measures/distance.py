"""How far two distributions over the same bins are apart, and what chance in days alone would do: the numbers.

From counts per bin and time block, a `BlockDistance` has Δ, p-values against any margin, bounds, and the smallest
difference that this much data could have shown. The variance is learnt from the reference's blocks: Rao and Scott's
(1981) correction with Satterthwaite's degrees of freedom, Thomas and Rao's (1987) F reference, and a minimum effect
after Murphy and Myors (1999). scipy's tests would count rows as independent, which those of one day are not.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tidegate_validation.skew.measures.level import LevelShift, fewer_rows, level_shift, normal_scores
from tidegate_validation.skew.measures.likeness import Timeline, explain_days, reference_likelihood
from tidegate_validation.skew.measures.runs import Runs, runs_of
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.numbers import root_of_falling

ENOUGH_BLOCKS = 20
MIN_EXPECTED = 5.0
MIN_ROWS = 20
LARGEST = 2.0
"""Δ of two distributions with nothing in common."""
_EXACT_SHIFT = 300.0
_EXACT_RATIO = 300.0
_EXACTLY = 1 - 1e-6
"""Tails beyond it are lost in the digits of one minus them."""
_LEVEL = 0.75
_STRATA = (0.0, 0.5, 0.8, 0.95, 1.0)
_TWICE = 2.0
"""What independent rows show surely is about twice the root of their noise."""
_HALF_A_DELTA = 0.12
"""A bin that held next to nothing and now has this share moves Δ by 0.5."""
_MISSED = 0.2
_LEAST_BINS = 4
"""So few rows that not even so many bins can be told apart say nothing, however few bins there are."""


@dataclass(frozen=True, slots=True)
class Chance:
    """What chance in days does, if days hang together in one way: `weight` says how much that is to be believed.

    `noise` is the expectation of the square of Δ without any shift; `spread`, `freedom` and `denominator` shape the F
    reference.
    """

    weight: float
    noise: float
    spread: float
    freedom: float
    denominator: float

    def beyond(self, delta: float, margin: float) -> float:
        """Probability of a Δ at least this large if the true one were `margin`."""
        return _tail(delta**2 / self.noise, self.freedom, self.denominator, margin**2 / self.spread)


@dataclass(frozen=True, slots=True)
class BlockDistance:
    """Distance of a current window from the reference over pooled bins.

    `delta` is sqrt(sum (p - q)^2 / pi) with pi the mean of both shares: a small shift by d reference deviations of a
    normal gives about d, and nothing in common gives 2. `chances` say what chance alone does, for each way in which
    days may hang together; there are none where nothing can be said.
    `level` is the test of values' level alone, None where they have no order. `rows_alone` is the Δ that as many
    independent rows would show. `by_day` is false where blocks are chunks of rows, for want of their times.
    `block_robust` is false where the reference has fewer than ENOUGH_BLOCKS blocks: rows then count as independent.
    `design_effect` is how much larger than among independent rows the noise is. `too_few` says that there were too
    few rows to tell any bins apart; nothing can be said then, and `known` is how many rows training had. `runs` says
    how far the reference's own runs of days go.
    """

    delta: float
    chances: tuple[Chance, ...]
    rows: int
    blocks: int
    block_robust: bool
    design_effect: float = 1.0
    too_few: bool = False
    known: int = 0
    runs: Runs = field(default_factory=Runs)
    level: LevelShift | None = None
    rows_alone: float = 0.0
    by_day: bool = True

    @property
    def decidable(self) -> bool:
        """Whether anything can be said at all."""
        return bool(self.chances)

    @property
    def noise(self) -> float:
        """The expectation of the square of Δ without any shift."""
        return sum(one.weight * one.noise for one in self.chances)

    def p_value(self, margin: float = 0.0) -> float:
        """Probability of a Δ at least this large if the true one were `margin`.

        Where values have an order, it is the better of two tests: of all bins, and of the level alone, on which most of
        the error rate is spent, since a shift that is hard to see is one of the level.
        """
        if not self.chances:
            return 1.0
        found = max(self._beyond(self.delta, margin), self.runs.p_value)
        return found if self.level is None else min(1.0, found / (1 - _LEVEL), self.level.p_value(margin) / _LEVEL)

    def upper(self, alpha: float) -> float:
        """Upper confidence bound of the true Δ at level 1 - alpha."""
        return min(LARGEST, self._solve(lambda margin: 1.0 - self.p_value(margin) - alpha))

    def lower(self, alpha: float) -> float:
        """Lower confidence bound of the true Δ at level 1 - alpha; 0 where no shift is plausible."""
        if self.p_value(0.0) >= alpha:
            return 0.0
        return self._solve(lambda margin: alpha - self.p_value(margin))

    def detectable(self, margin: float, alpha: float, power: float = 0.8) -> float:
        """The smallest true Δ that the test against `margin` finds with this power; infinite if there is none."""
        if not self.chances:
            return float("inf")
        critical = self._critical(margin, alpha)
        size = self._solve(lambda size: power - self._beyond(critical, size))
        found = max(size, self.runs.usual)
        if self.level is not None:
            found = min(found, self.level.detectable(margin, alpha * _LEVEL))
        return found if found < LARGEST else float("inf")

    def rows_enough(self, size: float) -> bool:
        """Whether there are rows enough to see a Δ of `size`, if days did not differ."""
        return 0 < self.rows_alone <= size

    def _beyond(self, delta: float, margin: float) -> float:
        return min(1.0, sum(one.weight * one.beyond(delta, margin) for one in self.chances if one.weight))

    def _critical(self, margin: float, alpha: float) -> float:
        """The Δ from which on the formula rejects a true one of `margin`."""

        def left(log_delta: float) -> float:
            return self._beyond(float(np.exp(log_delta)), margin) - alpha

        return float(np.exp(root_of_falling(left, -20.0, 30.0, 1e-4)))

    def _solve(self, falling: Callable[[float], float]) -> float:
        """The Δ at which a function that falls from plus to minus passes zero; 0 or the ceiling where it does not."""
        ceiling = 8.0
        if falling(0.0) <= 0:
            return 0.0
        if falling(ceiling) > 0:
            return ceiling
        return root_of_falling(falling, 0.0, ceiling, 1e-4)


def _tail(ratio: float, freedom: float, denominator: float, shift: float) -> float:
    from scipy import special

    if shift <= 0:
        return float(special.fdtrc(freedom, denominator, ratio))
    if shift < _EXACT_SHIFT and ratio < _EXACT_RATIO:
        likely = float(special.ncfdtr(freedom, denominator, shift, ratio))
        if likely < _EXACTLY:
            return 1 - likely
    # Far out the series does not converge, and a tail is lost in the digits of one minus it; Patnaik's (1949) two
    # moments are close enough there.
    matched = (freedom + shift) ** 2 / (freedom + 2 * shift)
    return min(1.0, float(special.fdtrc(matched, denominator, ratio * freedom / (freedom + shift))))


def block_distance(
    reference: FeatureCounts,
    current: FeatureCounts,
    codes: Sequence[tuple[int, ...]],
    *,
    ordered: bool = False,
    prior: Floats | None = None,
    telling: float = 0.0,
) -> BlockDistance:
    """Distance between two counts over bins; each tuple in `codes` is one bin, rare neighbours are pooled.

    Rows in none of the codes (missing values, say) are left out of both. `ordered` says that the bins ascend,
    `prior` what other features of the same days say about how those hang together. With `telling`, bins that do not
    ascend are pooled until the rows could show a Δ of that size: a few hundred rows cannot tell a hundred categories
    apart, but the frequent ones they can.
    """
    ref, days = _by_block(reference, codes)
    cur, now = _by_block(current, codes)
    n, m = ref.sum(), cur.sum()
    robust = len(ref) >= ENOUGH_BLOCKS
    if n == 0 or m == 0:
        return BlockDistance(0.0, (), int(m), len(cur), robust)
    used = int(((ref.sum(axis=0) + cur.sum(axis=0)) > 0).sum())
    most = _most_bins(n, m, telling) if telling > 0 and not ordered else ref.shape[1]
    heaviest = int((ref.sum(axis=0) / n + cur.sum(axis=0) / m).argmax())
    rare = _Rare(1 - float(ref[:, heaviest].sum()) / n, m - float(cur[:, heaviest].sum()), m)
    ref, cur = _pool(ref, cur, MIN_EXPECTED / min(n, m), most)
    if ref.shape[1] < 2:
        too_few = m < MIN_ROWS or (used > 1 and not rare.would_show())
        return BlockDistance(0.0, (), int(m), len(cur), robust, too_few=too_few, known=int(n))
    pi, delta = _apart(ref.sum(axis=0), cur.sum(axis=0))
    independent = _independent(pi, n, m)
    alone = float(np.trace(independent))
    line = Timeline.of(days, ref.sum(axis=1), now, cur.sum(axis=1))
    chances = _chances(ref, cur, pi, line, prior) if robust else (_chance(1.0, independent, 1e6),)
    noise = sum(one.weight * one.noise for one in chances)
    return BlockDistance(
        delta=delta,
        chances=chances,
        rows=int(m),
        blocks=len(cur),
        block_robust=robust,
        design_effect=max(1.0, noise / alone),
        runs=runs_of(ref, cur, line, delta) if robust else Runs(),
        level=level_shift(ref, cur, line, prior) if robust and ordered and ref.shape[1] > 2 else None,
        rows_alone=_TWICE * alone**0.5,
        by_day=line.by_day,
    )


@dataclass(frozen=True, slots=True)
class _Rare:
    """All bins but the heaviest together: their share of the reference, and how many of the current `rows` are in
    them."""

    share: float
    held: float
    rows: float

    def would_show(self) -> bool:
        """Whether so few rows in them would hardly come of a share that makes a Δ of half."""
        from scipy import special

        return float(special.bdtr(self.held, int(self.rows), min(1.0, self.share + _HALF_A_DELTA))) <= _MISSED


def delta_alone(reference: FeatureCounts, current: FeatureCounts, codes: Sequence[tuple[int, ...]]) -> float:
    """The Δ that `block_distance` has, of bins that ascend, without what chance would do: where many are compared."""
    ref, cur = (_by_block(part, codes)[0].sum(axis=0, keepdims=True) for part in (reference, current))
    if not ref.any() or not cur.any():
        return 0.0
    ref, cur = _pool(ref, cur, MIN_EXPECTED / min(ref.sum(), cur.sum()), ref.shape[1])
    return _apart(ref[0], cur[0])[1] if ref.shape[1] > 1 else 0.0


def _apart(ref: Floats, cur: Floats) -> tuple[Floats, float]:
    """The mean of both shares per bin, and Δ, from rows per bin."""
    p, q = ref / ref.sum(), cur / cur.sum()
    pi = (p + q) / 2
    return pi, float(np.sqrt(((p - q) ** 2 / pi).sum()))


def _by_block(counts: FeatureCounts, codes: Sequence[tuple[int, ...]]) -> tuple[Floats, Floats]:
    """Rows per block and bin, shape [B, K], and the blocks' numbers, without empty blocks."""
    found = counts.grouped(codes).astype(np.float64)
    kept = found.sum(axis=1) > 0
    return found[kept], counts.blocks[kept].astype(np.float64)


def days_alone(counts: FeatureCounts, codes: Sequence[tuple[int, ...]], *, ordered: bool) -> Floats | None:
    """What one feature's days say of how they hang together, a likelihood by model; None where they are too few."""
    ref, days = _by_block(counts, codes)
    if len(ref) < ENOUGH_BLOCKS:
        return None
    ref, _ = _pool(ref, ref, MIN_EXPECTED / ref.sum() * len(ref), ref.shape[1])
    if ref.shape[1] < 2:
        return None
    shares = ref / ref.sum(axis=1, keepdims=True)
    if ordered and ref.shape[1] > 2:
        return reference_likelihood((shares @ normal_scores(ref))[:, None], days, np.ones(1))
    scaled = shares / np.sqrt(ref.sum(axis=0) / ref.sum())
    return reference_likelihood((scaled @ _widest(np.cov(scaled.T)))[:, None], days, np.ones(1))


def _widest(covariance: Floats) -> Floats:
    """The direction in which days differ most.

    How they hang together is read there, where most of any difference lies: other directions hold little but the noise
    of rows, which has forgotten the day before, and all of them together would seem to forget it too.
    """
    return np.asarray(np.linalg.eigh(covariance)[1][:, -1])


def _chances(ref: Floats, cur: Floats, pi: Floats, line: Timeline, prior: Floats | None) -> tuple[Chance, ...]:
    """The covariance of (q - p) / sqrt(pi) in a few ways, from how the reference's blocks scatter and hang together."""
    sizes, inside = ref.sum(axis=1), cur.sum(axis=1)
    n, m, count = sizes.sum(), inside.sum(), len(ref)
    scatter = (ref - sizes[:, None] * (ref.sum(axis=0) / n)) / ((n / count) * np.sqrt(pi))
    between = scatter.T @ scatter / (count - 1)
    root = np.sqrt(pi)
    one_row = np.eye(len(pi)) - np.outer(root, root)
    thinner = max(0.0, float((inside**2).sum() / m) ** -1 - count / n)
    rows = thinner * one_row * float((inside**2).sum() / m**2)
    widest = _widest(between)
    days = (np.concatenate([ref, cur]) / line.sizes[:, None] / root) @ widest
    found = explain_days(days[:, None], line, fewer_rows(days[:count, None], float(widest @ one_row @ widest), line))
    weights = found.weights(np.ones(1), prior)
    factors, freedoms = found.factor / (1 - found.own), found.days_alone(count)
    least = (1 - pi) * (1 / n + 1 / m)
    return tuple(
        _chance(weight, _at_least(between * factor + rows, least), freedom)
        for weight, factor, freedom in _strata(weights, factors, freedoms)
    )


def _chance(weight: float, covariance: Floats, denominator: float) -> Chance:
    t1, t2 = float(np.trace(covariance)), float((covariance * covariance).sum())
    return Chance(weight, noise=t1, spread=t2 / t1, freedom=t1**2 / t2, denominator=denominator)


def _at_least(covariance: Floats, least: Floats) -> Floats:
    np.fill_diagonal(covariance, np.maximum(np.diag(covariance), least))
    return covariance


def _strata(weights: Floats, factors: Floats, freedoms: Floats) -> list[tuple[float, float, float]]:
    """A handful of ways in which days may hang together stand for all: (weight, factor, freedom), means of strata."""
    order = np.argsort(factors)
    ends = np.cumsum(weights[order])
    found = []
    for low, high in itertools.pairwise(_STRATA):
        parts = np.clip(np.minimum(ends, high) - np.maximum(ends - weights[order], low), 0.0, None)
        mass = float(parts.sum())
        found.append((mass, float(parts @ factors[order]) / mass, float(parts @ freedoms[order]) / mass))
    return found


def _independent(pi: Floats, n: float, m: float) -> Floats:
    root = np.sqrt(pi)
    return np.asarray((np.eye(len(pi)) - np.outer(root, root)) * (1 / n + 1 / m))


def _most_bins(n: float, m: float, telling: float) -> int:
    """Bins over which independent rows still show a Δ of `telling`."""
    # Rounded down with certainty, as the Δ that they show must not be larger.
    return max(_LEAST_BINS, 1 + int((1 - 1e-9) * (telling / _TWICE) ** 2 / (1 / n + 1 / m)))


def _pool(ref: Floats, cur: Floats, least: float, most: int) -> tuple[Floats, Floats]:
    """Adds each bin with a mean share below `least` to its smaller neighbour, the rarest first, and goes on while there
    are more than `most`."""
    totals = ((ref.sum(axis=0) / ref.sum() + cur.sum(axis=0) / cur.sum()) / 2).tolist()
    starts = list(range(len(totals)))
    while len(totals) > 1:
        place = min(range(len(totals)), key=totals.__getitem__)
        if totals[place] >= least and len(totals) <= most:
            break
        left = totals[place - 1] if place > 0 else np.inf
        right = totals[place + 1] if place + 1 < len(totals) else np.inf
        first = place - 1 if left <= right else place
        totals[first : first + 2] = [totals[first] + totals[first + 1]]
        del starts[first + 1]
    return np.add.reduceat(ref, starts, axis=1), np.add.reduceat(cur, starts, axis=1)
