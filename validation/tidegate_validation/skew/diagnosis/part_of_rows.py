"""A part of the rows in another unit: any rows, or those of one category of another column.

Each explanation says how likely the window's values are: rows come from training's values, or from these times a
factor. For any rows the share is fitted; for a category the rows are given, so that it is believed only where they are
the ones. The likeliest explanation is the cause, where it is clearly likelier than the others.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tidegate_validation.skew.diagnosis.cause import FACTOR, Cause
from tidegate_validation.skew.diagnosis.grid import back_on_grid, comes_back, grid_of, on_grid
from tidegate_validation.skew.diagnosis.suspect import Joint, Suspect, both, distance_of
from tidegate_validation.skew.diagnosis.units import factors, nearest_factor
from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.bins import NumericBins, quantile_edges

_RANGES = 60
_STRANGE = 0.01
_PART = 0.03
_LEAST_ROWS = 20
_MOST_CATEGORIES = 60
_SAME = 0.02
_CLOSE = 0.05
_SURELY = 3.0
_BELIEVED = 0.9
_UNCOMMON = 0.25
_CHANCE = 0.95
_BETTER = 5.0
_LEAVES = 0.5
_SHARES = np.arange(0.02, 0.99, 0.01)
_NUMBERS = (2.0, 3.0, 4.0, 5.0, 10.0, 100.0, 1000.0, 1e4, 1e6)
_COMMON = (*_NUMBERS, *(1 / one for one in _NUMBERS), *(one.factor for one in factors() if one.common))


@dataclass(frozen=True, slots=True)
class _Way:
    """An explanation: `factor` for a `share` of the rows, those with a `value` in a `column` where these are named.

    `gain` is how much likelier it makes the values than no change does, as a logarithm; of a category less what the
    choice among so many brings.
    """

    gain: float
    factor: float
    share: float
    column: str = ""
    value: str = ""


@dataclass(frozen=True, slots=True)
class _Cells:
    """Which cell each row is in, and how likely each cell is: with values as in training, and by factor with these
    times it.

    A cell is a range of values; where training's lie on a grid, values off it have cells of their own, and
    those again that are on it with the factor undone.
    """

    rows: Mapping[float, Integers]
    plain: Floats
    moved: Mapping[float, Floats]

    def counted(self, factor: float) -> Floats:
        """Rows in each cell."""
        return np.bincount(self.rows[factor], minlength=len(self.plain)).astype(np.float64)


def part_in_another_unit(suspect: Suspect, joint: Joint, found: Cause | None) -> Cause | None:
    """The factor of a part of the rows; `found` is what explains the column otherwise, None where nothing does.

    Where `found` is a factor, it is said of which rows; it is kept where nothing is clearly likelier. One for all rows
    is an estimate, under which values are on no grid, so that it and its rivals are held against ranges alone.
    """
    if not isinstance(suspect.feature.bins, NumericBins) or not suspect.feature.quantiles or not len(joint.values):
        return found
    known = np.interp(np.linspace(0.0005, 0.9995, 2000), suspect.feature.levels, suspect.feature.quantiles)
    edges = np.union1d(quantile_edges(known, _RANGES), quantile_edges(joint.values, _RANGES))
    grid = grid_of(suspect.digits_before)
    # What was rounded after the change lies on the grid too, which then tells nothing.
    if grid is not None and np.mean(~on_grid(joint.values, grid)) < _PART / 3:
        grid = None
    if found is not None and found.share >= 1:
        found, grid = (None, grid) if _on_both(joint.values, grid) else (found, None)
    cells = _cells(joint.values, known, edges, _tried(found), grid)
    effect = _effect(suspect, len(joint.values))
    anywhere = [_of_any_rows(cells, factor) for factor in cells.moved]
    best = max(anywhere, key=lambda one: one.gain)
    whole = _whole(edges, known, joint.values, found)
    category = _best(_of_categories(joint, cells), effect)
    if category is not None and (category.gain - max(best.gain, whole, 0.0)) / effect > _BETTER:
        return _named(suspect, category, joint, 1.0 if found is not None and found.share < 1 else _LEAVES) or found
    if found is not None:
        fitted = np.log(len(cells.moved)) + np.log(len(joint.values)) / 2
        return None if found.share >= 1 and (best.gain - whole) / effect > _BETTER + fitted else found
    alone = _best(anywhere, effect)
    if alone is None:
        return None
    sure = grid is not None and comes_back(joint.values, grid, alone.factor)
    return _cause(alone) if sure else _named(suspect, alone, joint, _LEAVES)


def _effect(suspect: Suspect, rows: int) -> float:
    """By how much likelihoods are too sure of themselves: days differ, and training's rows are a sample."""
    return float(max(1.0, suspect.numbers.distribution.design_effect) * (1 + rows / max(suspect.feature.rows, 1)))


def _tried(found: Cause | None) -> list[float]:
    """The factor that was found for a part of the rows, or all that have a name."""
    if found is not None and found.share < 1 and found.kind == FACTOR:
        return [found.factor]
    return sorted(one for one in {*_COMMON, *(one.factor for one in factors())} if abs(np.log(one)) > _SAME)


def _cells(values: Floats, known: Floats, edges: Floats, tried: Sequence[float], grid: float | None) -> _Cells:
    size = len(edges) + 1
    places = _places(edges, values)
    off = np.zeros(len(values), dtype=np.bool_) if grid is None else ~on_grid(values, grid)
    plain = _likely(edges, known)
    rows, moved = {}, {}
    for factor in tried:
        back = off if grid is None else off & back_on_grid(values, grid, factor)
        rows[factor] = places + size * (off.astype(np.int64) + back)
        stays = 1.0 if grid is None else float(np.mean(on_grid(np.round(known / grid) * grid * factor, grid)))
        there = _likely(edges, known * factor)
        moved[factor] = np.concatenate(
            [there * max(stays, _STRANGE), there * _STRANGE, there * max(1 - stays, _STRANGE)]
        )
    return _Cells(rows, np.concatenate([plain, plain * _STRANGE, plain * _STRANGE]), moved)


def _on_both(values: Floats, grid: float | None) -> bool:
    """Whether most values are on training's grid and some are not: a change of all rows moves most of them."""
    return grid is not None and bool(_PART < np.mean(~on_grid(values, grid)) < 1 - _LEAVES)


def _places(edges: Floats, values: Floats) -> Integers:
    return np.searchsorted(edges, values, side="right").astype(np.int64)


def _likely(edges: Floats, values: Floats) -> Floats:
    """Shares of ranges, with a hundredth for what belongs to none of them."""
    shares = np.bincount(_places(edges, values), minlength=len(edges) + 1) / len(values)
    return np.asarray((1 - _STRANGE) * shares + _STRANGE / len(shares))


def _whole(edges: Floats, known: Floats, values: Floats, found: Cause | None) -> float:
    """How much likelier than as in training values are where what was found holds for all rows, within its error."""
    if found is None or not found.is_conversion or found.share < 1:
        return -np.inf
    rows = np.bincount(_places(edges, values), minlength=len(edges) + 1)
    near = found.factor * np.exp(_SURELY * found.precision * np.linspace(-1, 1, 13))
    usual = np.log(_likely(edges, known))
    return max(float(rows @ (np.log(_likely(edges, known * one + found.offset)) - usual)) for one in near)


def _of_any_rows(cells: _Cells, factor: float) -> _Way:
    rows = cells.counted(factor)
    used = rows > 0
    ratio = cells.moved[factor][used] / cells.plain[used]
    gains = np.log(1 + _SHARES[:, None] * (ratio - 1)) @ rows[used]
    place = int(np.argmax(gains))
    return _Way(float(gains[place]), factor, float(_SHARES[place]))


def _of_categories(joint: Joint, cells: _Cells) -> Iterator[_Way]:
    """Every factor for the rows of every category that is neither rare nor nearly everywhere."""
    total = len(joint.values)
    gains = {factor: np.log(moved / cells.plain)[cells.rows[factor]] for factor, moved in cells.moved.items()}
    for column, texts in joint.beside.items():
        names, codes, n = np.unique(texts, return_inverse=True, return_counts=True)
        kept = [one for one in np.argsort(-n)[:_MOST_CATEGORIES] if n[one] >= max(_LEAST_ROWS, _PART / 3 * total)]
        for factor, gain in gains.items():
            sums = np.bincount(codes, weights=gain)
            for code in kept:
                if n[code] <= (1 - _PART) * total:
                    fewer = float(sums[code]) - float(np.log(len(names)))
                    yield _Way(fewer, factor, float(n[code]) / total, column, str(names[code]))


def _best(ways: Sequence[_Way] | Iterator[_Way], effect: float) -> _Way | None:
    """The likeliest, where its factor is believed by nine to one of all that were tried, those that are not common less
    from the start; of close ones a common one.
    """
    ranked = sorted(ways, key=lambda one: -one.gain)
    if not ranked or ranked[0].gain / effect < _BETTER or not _PART / 3 <= ranked[0].share <= 1 - _PART:
        return None
    behind = (ranked[0].gain - np.array([one.gain for one in ranked])) / effect
    near = np.abs(np.log(np.array([one.factor for one in ranked]) / ranked[0].factor)) <= _CLOSE
    belief = np.exp(-behind) * np.where([_is_common(one.factor) for one in ranked], 1.0, _UNCOMMON)
    if belief[near].sum() < _BELIEVED * belief.sum():
        return None
    close = (one for one, gap, same in zip(ranked, behind, near, strict=True) if same and gap < _SURELY)
    return next((one for one in close if _is_common(one.factor)), ranked[0])


def _is_common(factor: float) -> bool:
    return any(abs(np.log(factor / one)) < 1e-6 for one in _COMMON)


def _named(suspect: Suspect, way: _Way, joint: Joint, leaves: float) -> Cause | None:
    """The way as a cause, where it leaves no more than a part `leaves` of the difference."""
    p, q = both(suspect)
    bins = suspect.feature.bins
    if not isinstance(bins, NumericBins):
        return None
    if way.column:
        hit = joint.beside[way.column] == way.value
        codes = bins.assign(np.where(hit, joint.values / way.factor, joint.values))
        left = distance_of(p, _shares(codes, bins.size))
    else:
        values = np.interp(np.linspace(0.0005, 0.9995, 2000), suspect.feature.levels, suspect.feature.quantiles)
        part = _shares(bins.assign(values * way.factor), bins.size)
        left = distance_of(p + way.share * (part - p), q)
    before = distance_of(p, q)
    if left > max(leaves * before, min(_by_chance(suspect, len(p)), 0.8 * before)):
        return None
    return _cause(way)


def _by_chance(suspect: Suspect, bins: int) -> float:
    """What Δ over so many bins hardly ever exceeds by chance alone."""
    from scipy import stats

    freedom = max(bins - 1, 1)
    return suspect.noise * float(np.sqrt(stats.chi2.ppf(_CHANCE, freedom) / freedom))


def _cause(way: _Way) -> Cause:
    named = nearest_factor(way.factor, 1e-6)
    details = (("where", {"column": way.column, "value": way.value}),) if way.column else ()
    return Cause(FACTOR, way.factor, share=way.share, name=named.words if named else None, details=details)


def _shares(codes: Integers, size: int) -> Floats:
    return np.asarray(np.bincount(codes, minlength=size)[:size] / max(len(codes), 1))
