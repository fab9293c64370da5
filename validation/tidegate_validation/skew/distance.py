"""How far two distributions over the same bins are apart, and what chance in days alone would do: the numbers.

From counts per bin and time block, a `BlockDistance` has Δ, p-values against any margin, bounds, and the smallest
difference that this much data could have shown. The variance is learnt from the reference's blocks: Rao and Scott's
(1981) correction with Satterthwaite's degrees of freedom, Thomas and Rao's (1987) F reference, and a minimum effect
after Murphy and Myors (1999). scipy's tests would count rows as independent, which those of one day are not.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

from tidegate_validation.skew.level import LevelShift, level_shift, resemblance, share_of_mean
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.counts import FeatureCounts

ENOUGH_BLOCKS = 20
MIN_EXPECTED = 5.0
MIN_ROWS = 20
LARGEST = 2.0
"""Δ of two distributions with nothing in common."""
_EXACT_SHIFT = 300.0
_EXACT_RATIO = 300.0
_LONGEST = 3
_USUAL = 0.95
_DRAWS = 600
_FEWER = 0.7
_TWICE = 2.0
"""What independent rows show surely is about twice the root of their noise."""


@dataclass(frozen=True, slots=True)
class Runs:
    """How far runs of the reference's own days are from the rest of it: an empirical check on the formula.

    Days that follow each other resemble each other, which no formula for independent days knows. So no window is called
    shifted that is no further away than training's own weeks and storms are from each other.

    Of `count` runs of reference blocks as long as the window, `further` are at least as far from the rest as it is.

    `usual` is the distance that 19 of 20 runs keep below; 0 without runs. Of `drawn` windows of the reference's days
    drawn at random, with as many rows as the window has, `drawn_further` are at least as far out: days with a storm are
    rare and far out, which no formula for bell-shaped days knows either.
    """

    count: int = 0
    further: int = 0
    usual: float = 0.0

    drawn: int = 0
    drawn_further: int = 0

    @property
    def p_value(self) -> float:
        """Probability of a run, or of as many days drawn at random, this far out, where some were.

        0 where none was, for then only a formula can say."""
        in_a_row = (1 + self.further) / (1 + self.count) if self.further else 0.0
        at_random = (1 + self.drawn_further) / (1 + self.drawn) if self.drawn_further else 0.0
        return max(in_a_row, at_random)


@dataclass(frozen=True, slots=True)
class BlockDistance:
    """Distance of a current window from the reference over pooled bins.

    `delta` is sqrt(sum (p - q)^2 / pi) with pi the mean of both shares: a small shift by d reference deviations of a
    normal gives about d, and nothing in common gives 2. `noise` is the expectation of its square without any shift;
    `spread`, `freedom` and `denominator` shape the F reference.
    `level` is the test of values' level alone, None where they have no order. `rows_alone` is the Δ that as many
    independent rows would show.
    `block_robust` is false where the reference has fewer than ENOUGH_BLOCKS blocks: rows then count as independent.
    `design_effect` is how much larger than among independent rows the noise is. `too_few` says that there were too
    few rows to tell any bins apart; nothing can be said then. `runs` says how far the reference's own runs of days go.
    """

    delta: float
    noise: float
    spread: float
    freedom: float
    denominator: float
    rows: int
    blocks: int
    block_robust: bool
    design_effect: float = 1.0
    too_few: bool = False
    runs: Runs = field(default_factory=Runs)
    level: LevelShift | None = None
    rows_alone: float = 0.0

    def p_value(self, margin: float = 0.0) -> float:
        """Probability of a Δ at least this large if the true one were `margin`.

        Where values have an order, it is the better of two tests, doubled: of all bins, and of the level alone.
        """
        if self.freedom <= 0:
            return 1.0
        formula = _tail(self.delta**2 / self.noise, self.freedom, self.denominator, margin**2 / self.spread)
        found = max(formula, self.runs.p_value)
        return found if self.level is None else min(1.0, 2 * min(found, self.level.p_value(margin)))

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
        if self.freedom <= 0:
            return float("inf")
        critical = self._critical(margin, alpha)
        size = self._solve(lambda size: power - _tail(critical, self.freedom, self.denominator, size**2 / self.spread))
        found = max(size, self.runs.usual)
        if self.level is not None:
            found = min(found, self.level.detectable(margin, alpha / 2))
        return found if found < LARGEST else float("inf")

    def rows_enough(self, size: float) -> bool:
        """Whether there are rows enough to see a Δ of `size`, if days did not differ."""
        return 0 < self.rows_alone <= size

    def _critical(self, margin: float, alpha: float) -> float:
        from scipy.optimize import brentq

        def excess(log_ratio: float) -> float:
            return _tail(float(np.exp(log_ratio)), self.freedom, self.denominator, margin**2 / self.spread) - alpha

        return float(np.exp(brentq(excess, -20.0, 60.0, xtol=1e-4)))

    def _solve(self, falling: Callable[[float], float]) -> float:
        """The Δ at which a function that falls from plus to minus passes zero; 0 or the ceiling where it does not."""
        from scipy.optimize import brentq

        ceiling = 8.0
        if falling(0.0) <= 0:
            return 0.0
        if falling(ceiling) > 0:
            return ceiling
        return float(brentq(falling, 0.0, ceiling, xtol=1e-4))


def _tail(ratio: float, freedom: float, denominator: float, shift: float) -> float:
    from scipy import stats

    if shift <= 0:
        return float(stats.f.sf(ratio, freedom, denominator))
    if shift < _EXACT_SHIFT and ratio < _EXACT_RATIO:
        return float(stats.ncf.sf(ratio, freedom, denominator, shift))
    # Far out the series does not converge; Patnaik's (1949) two moments are close enough there.
    matched = (freedom + shift) ** 2 / (freedom + 2 * shift)
    return float(stats.f.sf(ratio * freedom / (freedom + shift), matched, denominator))


def block_distance(
    reference: FeatureCounts, current: FeatureCounts, codes: Sequence[tuple[int, ...]], *, ordered: bool = False
) -> BlockDistance:
    """Distance between two counts over bins; each tuple in `codes` is one bin, rare neighbours are pooled.

    Rows in none of the codes (missing values, say) are left out of both. `ordered` says that the bins ascend.
    """
    ref, days = _by_block(reference, codes)
    cur, now = _by_block(current, codes)
    n, m = ref.sum(), cur.sum()
    robust = len(ref) >= ENOUGH_BLOCKS
    if n == 0 or m == 0:
        return _nothing(int(m), len(cur), robust, too_few=False)
    used = int(((ref.sum(axis=0) + cur.sum(axis=0)) > 0).sum())
    ref, cur = _pool(ref, cur, MIN_EXPECTED / min(n, m))
    if ref.shape[1] < 2:
        return _nothing(int(m), len(cur), robust, too_few=used > 1 or m < MIN_ROWS)
    p, q = ref.sum(axis=0) / n, cur.sum(axis=0) / m
    pi = (p + q) / 2
    delta = float(np.sqrt(((p - q) ** 2 / pi).sum()))
    covariance = _covariance(ref, cur, p, pi, days, now) if robust else _independent(pi, n, m)
    t1, t2 = float(np.trace(covariance)), float((covariance * covariance).sum())
    alone = float(np.trace(_independent(pi, n, m)))
    return BlockDistance(
        delta=delta,
        noise=t1,
        spread=t2 / t1,
        freedom=t1**2 / t2,
        denominator=float(len(ref) - 1) if robust else 1e6,
        rows=int(m),
        blocks=len(cur),
        block_robust=robust,
        design_effect=max(1.0, t1 / alone),
        runs=runs_of(ref, len(cur), float(m), delta) if robust else Runs(),
        level=level_shift(ref, cur, days, now) if robust and ordered and ref.shape[1] > 2 else None,
        rows_alone=_TWICE * alone**0.5,
    )


def _by_block(counts: FeatureCounts, codes: Sequence[tuple[int, ...]]) -> tuple[Floats, Floats]:
    """Rows per block and bin, shape [B, K], and the blocks' numbers, without empty blocks."""
    found = np.stack([counts.of(group) for group in codes], axis=1).astype(np.float64)
    kept = found.sum(axis=1) > 0
    return found[kept], counts.blocks[kept].astype(np.float64)


def _nothing(rows: int, blocks: int, robust: bool, *, too_few: bool) -> BlockDistance:
    return BlockDistance(0.0, 1.0, 1.0, 0.0, 1.0, rows, blocks, robust, too_few=too_few)


def _covariance(ref: Floats, cur: Floats, p: Floats, pi: Floats, days: Floats, now: Floats) -> Floats:
    """Covariance of (q - p) / sqrt(pi), learnt from how the reference's blocks scatter and resemble others."""
    sizes, inside = ref.sum(axis=1), cur.sum(axis=1)
    n, m, count = sizes.sum(), inside.sum(), len(ref)
    scatter = (ref - sizes[:, None] * p) / ((n / count) * np.sqrt(pi))
    between = scatter.T @ scatter / (count - 1)
    root = np.sqrt(pi)
    thinner = max(0.0, float((inside**2).sum() / m) ** -1 - count / n)
    alike = resemblance(scatter, days)
    rows = thinner * (np.eye(len(pi)) - np.outer(root, root)) * float((inside**2).sum() / m**2)
    covariance = between * (share_of_mean(sizes, days, alike) + share_of_mean(inside, now, alike)) + rows
    floor = (1 - pi) * (1 / n + 1 / m)
    np.fill_diagonal(covariance, np.maximum(np.diag(covariance), floor))
    return np.asarray(covariance)


def _independent(pi: Floats, n: float, m: float) -> Floats:
    root = np.sqrt(pi)
    return np.asarray((np.eye(len(pi)) - np.outer(root, root)) * (1 / n + 1 / m))


def _pool(ref: Floats, cur: Floats, least: float) -> tuple[Floats, Floats]:
    """Adds each bin with a mean share below `least` to its smaller neighbour, the rarest first."""
    while ref.shape[1] > 1:
        totals = (ref.sum(axis=0) / ref.sum() + cur.sum(axis=0) / cur.sum()) / 2
        place = int(np.argmin(totals))
        if totals[place] >= least:
            break
        left = totals[place - 1] if place > 0 else np.inf
        right = totals[place + 1] if place + 1 < len(totals) else np.inf
        into = place - 1 if left <= right else place + 1
        for counts in (ref, cur):
            counts[:, into] += counts[:, place]
        ref, cur = np.delete(ref, place, axis=1), np.delete(cur, place, axis=1)
    return ref, cur


def runs_of(reference: Floats, blocks: int, rows: float, delta: float) -> Runs:
    """Compares a window of `blocks` blocks and `rows` rows at distance `delta` with runs of `reference`, shape [B, K].

    Runs with less than half the window's rows do not count; neither does anything where fewer than three runs would
    fit into the reference without overlap.
    """
    if blocks * _LONGEST > len(reference) or blocks == 0:
        return Runs()
    total = np.concatenate([np.zeros((1, reference.shape[1])), np.cumsum(reference, axis=0)])
    inside = total[blocks:] - total[:-blocks]
    outside = total[-1] - inside
    inside_rows, outside_rows = inside.sum(axis=1), outside.sum(axis=1)
    usable = (inside_rows >= rows / 2) & (outside_rows > 0)
    if not usable.any():
        return Runs()
    q = inside[usable] / inside_rows[usable, None]
    p = outside[usable] / outside_rows[usable, None]
    distances = _distances(q, p)
    drawn = _drawn(reference, blocks, rows)
    return Runs(
        len(distances),
        int((distances >= delta).sum()),
        float(np.quantile(distances, _USUAL)),
        len(drawn),
        int((drawn >= delta).sum()),
    )


def _distances(q: Floats, p: Floats) -> Floats:
    pi = np.maximum((p + q) / 2, 1e-12)
    return np.asarray(np.sqrt(((p - q) ** 2 / pi).sum(axis=1)))


def _drawn(reference: Floats, blocks: int, rows: float) -> Floats:
    """Distances of windows of as many blocks, drawn at random and thinned to as many rows, from the other blocks."""
    random = np.random.default_rng(11)
    chosen = np.argsort(random.random((_DRAWS, len(reference))), axis=1)[:, :blocks]
    inside = reference[chosen].sum(axis=1)
    outside = reference.sum(axis=0) - inside
    shares = inside / inside.sum(axis=1, keepdims=True)
    fewer = rows < _FEWER * float(np.median(inside.sum(axis=1)))
    q = random.multinomial(int(rows), shares) / rows if fewer else shares
    return _distances(q, outside / outside.sum(axis=1, keepdims=True))
