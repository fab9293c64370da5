"""What preparation of features does to numbers, done twice or not at all: logarithms, standardising, steps counted from
another start."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from tidegate_validation.skew.diagnosis.cause import OFFSET, Cause
from tidegate_validation.skew.diagnosis.landing import landing
from tidegate_validation.skew.diagnosis.suspect import Suspect, both, distance_of, like_training
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.bins import DiscreteBins, quantile_edges
from tidegate_validation.statistics.sample import TextSample, ValueSample

TRANSFORMED = "transformed"
_FARTHEST = 5
_UNLIKE = 0.4
_PART_LEFT = 0.4
_LEAVES = 0.3
_CLEARLY = 0.6
_RANGES = 20
_NOISE = 1.5
_NEARLY = 1.1
_LITTLE = 0.05
_SAME = 0.1
_FEWEST = 3
_DIGITS = 6
"""Of a step: values that differ by less are the same."""
_ELSEWHERE = 0.5
_NEARLY_ALL = 0.98
_PER_CENT = 100.0
_ABOUT_NONE = 0.5
_ABOUT_ONE = 1.1
_QUARTILES = (0.25, 0.75)
_OF_NORMAL = 1.349
"""The distance of a normal's quartiles in standard deviations."""


def moved_by_steps(suspect: Suspect, sample: ValueSample) -> Cause | None:
    """Values on a grid that training's were listed on, all some steps further: what a count from 1 does to one from
    0."""
    known, weights = _listed(suspect)
    if len(known) < _FEWEST or not len(sample.values):
        return None
    step = float(np.diff(known).min())
    values, n = sample.distinct()
    by_chance = float(len(known) / n.sum()) ** 0.5
    before = _apart(known, weights, values, n, step)
    left = {
        steps: _apart(known + steps * step, weights, values, n, step)
        for steps in range(-_FARTHEST, _FARTHEST + 1)
        if steps != 0
    }
    best = min(left, key=lambda one: left[one])
    others = min(distance for steps, distance in left.items() if steps != best)
    room = min(max(_LEAVES * before, _NOISE * by_chance), max(_NOISE * suspect.noise, 0.1, _NOISE * by_chance))
    if left[best] > room or left[best] >= _CLEARLY * min(others, before):
        return None
    return Cause(OFFSET, offset=best * step)


def _listed(suspect: Suspect) -> tuple[Floats, Floats]:
    """Training's values, ascending, with their weights; none where not all of them were listed."""
    bins, support = suspect.feature.bins, suspect.feature.support
    if isinstance(bins, DiscreteBins):
        return np.array(bins.values), both(suspect)[0][: len(bins.values)]
    if not support or sum(n for _, n in support) < _NEARLY_ALL * (suspect.feature.rows - suspect.feature.missing):
        return np.zeros(0), np.zeros(0)
    values, n = np.array(support).T
    return np.asarray(values), np.asarray(n)


def moved_rather(suspect: Suspect, sample: ValueSample | TextSample, at: float, side: str) -> bool:
    """Whether few values on a grid are all some steps further, rather than cut off at a value."""
    bins = suspect.feature.bins
    steps = moved_by_steps(suspect, sample) if isinstance(sample, ValueSample) else None
    if steps is None or not isinstance(bins, DiscreteBins) or not isinstance(sample, ValueSample):
        return False
    known, weights = np.array(bins.values), both(suspect)[0][: len(bins.values)]
    cut = np.minimum(known, at) if side == "above" else np.maximum(known, at)
    values, n = sample.distinct()
    step = float(np.diff(known).min())
    return _apart(known + steps.offset, weights, values, n, step) < _apart(cut, weights, values, n, step)


def _apart(known: Floats, weights: Floats, values: Floats, n: Floats, step: float) -> float:
    """Δ between two lists of values on a grid of so wide a step, with their weights."""
    grid, place = np.unique(np.round(np.concatenate([known, values]) / step, _DIGITS), return_inverse=True)
    p = np.bincount(place[: len(known)], weights=weights, minlength=len(grid))
    q = np.bincount(place[len(known) :], weights=n, minlength=len(grid))
    return distance_of(p / p.sum(), q / q.sum())


def transformed(suspect: Suspect, sample: ValueSample) -> Cause | None:
    """The function of training's values that brings them where the served ones are, clearly better than its rivals."""
    if not len(sample.values) or not suspect.feature.quantiles:
        return None
    exactly = _by_values(suspect, *sample.distinct())
    if exactly is not None or len(sample.values) < _RANGES:
        return exactly
    known = np.interp(np.linspace(0.001, 0.999, 999), suspect.feature.levels, suspect.feature.quantiles)
    values, n = sample.distinct()
    before = _after(known, values, n)
    if before < _UNLIKE or len(np.unique(known)) < _RANGES:
        return None
    pointless = dict(_without_point(np.array(suspect.feature.quantiles), len(known), values))
    tried = {**dict(_functions(known)), **dict(_standardised(known, values, n)), **pointless}
    left = {how: _after(moved, values, n) for how, moved in tried.items()}
    best = min(left, key=lambda how: left[how], default=None)
    if best is None or left[best] > min(_PART_LEFT * before, max(_LEAVES, min(suspect.noise, 2 * _LEAVES))):
        return None
    alike = [how for how, moved in tried.items() if _hardly_differ(moved, tried[best])]
    others = [left[how] for how in tried if how not in alike]
    # No factor but a power of ten, which values give away themselves, makes whole numbers of others.
    others += [_after(moved, values, n) for moved in _rivals(known, values, n) if best not in pointless]
    if left[best] > _CLEARLY * min(others, default=np.inf):
        return None
    plainest = next(how for how in alike if left[how] <= max(_NEARLY * left[best], _LITTLE))
    return Cause(TRANSFORMED, details=(("how", plainest), ("left", round(left[plainest], 3))))


def _by_values(suspect: Suspect, values: Floats, n: Floats) -> Cause | None:
    """The function whose results the served values are, where training's were listed and the served ones are others
    but for zeros; of several the one by which they are spread likest training's."""
    known = np.array([value for value, _ in suspect.feature.support])
    others, rows = values[values != 0], n[values != 0]
    if len(known) < _FEWEST or len(others) < _FEWEST or landing(others, rows, known, 1.0, 0.0, 0.0) > _ELSEWHERE:
        return None
    landed = {how: landing(others, rows, np.sort(moved), 1.0, 0.0, 0.0) for how, moved in _functions(known)}
    spread = dict(_functions(like_training(suspect.feature)))
    told = {how: _after(spread[how], values, n) for how, share in landed.items() if share >= _NEARLY_ALL}
    return Cause(TRANSFORMED, details=(("how", min(told, key=told.__getitem__)),)) if told else None


def _hardly_differ(one: Floats, other: Floats) -> bool:
    """Whether a window could hardly tell two functions of training's values apart, as logarithms with and without 1."""
    return bool(np.median(np.abs(one - other)) <= _SAME * np.subtract(*np.quantile(other, (0.75, 0.25))) / _OF_NORMAL)


def _after(known: Floats, values: Floats, n: Floats) -> float:
    """Δ of values from training's quantiles, over ranges that hold as many of these."""
    edges = quantile_edges(known, _RANGES)
    p = np.bincount(np.searchsorted(edges, known, side="right"), minlength=len(edges) + 1)
    q = np.bincount(np.searchsorted(edges, values, side="right"), weights=n, minlength=len(edges) + 1)
    return distance_of(p / p.sum(), q / q.sum())


def _rivals(known: Floats, values: Floats, n: Floats) -> Iterator[Floats]:
    """Training's values times a factor, and plus an offset, that bring their middle to that of the served ones."""
    total = np.cumsum(n)
    middle, now = float(np.median(known)), float(values[np.searchsorted(total, total[-1] / 2)])
    yield known + now - middle
    if middle != 0 and now / middle > 0:
        yield known * now / middle


def _without_point(own: Floats, number: int, served: Floats) -> Iterator[tuple[str, Floats]]:
    """Training's `own` values with their digits in one, as many as `number`, where whole numbers are served in place of
    others: 12.50 becomes 125, and 12.34 1234."""
    if not (own % 1).any() or (served % 1).any():
        return
    moved = np.sort([float(f"{one:.15g}".replace(".", "")) for one in own.tolist()])
    places = np.linspace(0, 1, number)
    yield "decimal point left out", np.interp(places, np.linspace(0, 1, len(moved)), moved)


def _standardised(known: Floats, values: Floats, n: Floats) -> Iterator[tuple[str, Floats]]:
    """Training's values brought to the quartiles of served ones that have about mean 0 and deviation 1 themselves: of
    values with heavy tails, quantiles tell training's own deviation badly. To their deviation where both quartiles are
    one value, as of what is mostly zero."""
    mean = float(np.average(values, weights=n))
    deviation = float(np.average((values - mean) ** 2, weights=n)) ** 0.5
    centred = abs(np.median(known)) < _SAME * known.std()  # Then nothing but a factor lies between both.
    if abs(mean) > _ABOUT_NONE or abs(np.log(max(deviation, 1e-300))) > (_SAME if centred else _ABOUT_ONE):
        return
    total = np.cumsum(n)
    low, high = values[np.searchsorted(total, np.multiply(_QUARTILES, total[-1]))]
    own_low, own_high = np.quantile(known, _QUARTILES)
    if known.std() > 0 and not (abs(known.mean()) < 0.1 and abs(known.std() - 1) < 0.1):
        scale = (high - low) / (own_high - own_low) if own_high > own_low else deviation / known.std()
        yield "standardised to mean 0 and deviation 1", low + (known - own_low) * scale


def _functions(known: Floats) -> Iterator[tuple[str, Floats]]:
    """Training's values after each function that may be taken of them."""
    low, high = float(known[0]), float(known[-1])
    if low > 0:
        yield "natural logarithm", np.log(known)
        yield "decimal logarithm", np.log10(known)
        yield "reciprocal", 1 / known[::-1]
    if low > -1:
        yield "logarithm of 1 plus the value", np.log1p(known)
    if low >= 0:
        yield "square root", np.sqrt(known)
        yield "square", known**2
    if high < np.log(1e12):
        yield "exponential", np.exp(known)
    if low >= 0 and high <= 1:
        yield "1 minus the value", 1 - known[::-1]
    if low >= 0 and 1 < high <= _PER_CENT:
        yield "100 minus the value", _PER_CENT - known[::-1]
    if low < 0 < high:
        yield "absolute value", np.sort(np.abs(known))
    if high > low and not (low == 0 and high == 1):
        yield "scaled to 0 to 1", (known - low) / (high - low)
