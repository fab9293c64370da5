"""How columns go together, pair by pair and block by block: what a shuffled column loses and its values do not show.

Each column is cut into a few levels: numbers of many values by their ranks within the block, which stay what they are
where a day lies higher than others, and all else by the levels of training. Of a pair, those cells count that hold more
rows than independent columns would put there; the share of rows in them, less what the block's own margins would bring,
is how much the pair goes together.

A block of a warm week has other margins than training's, and with these another such share, though nothing is wrong. So
it is held against what training's odds make of the block's own margins (Deming and Stephan 1940), which do not hang on
how often each level occurs.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tidegate_validation.statistics.arrays import Floats, Integers, new_ones
from tidegate_validation.statistics.association import Association
from tidegate_validation.statistics.bins import CategoryBins, FrozenBins, NumericBins
from tidegate_validation.statistics.counts import TIME_OF_DAY, FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.rows import CODED, Rows

LEVELS = 6
_LEAST_ROWS = 30
_LEAST_STRENGTH = 0.02
_BY_CHANCE = 3.0
"""A pair holds so many times what cells that are chosen by chance would."""
_SURE = 6.0
_UNLIKELY = 4.0
"""No mean of blocks lies so many standard errors off,"""
_MISJUDGED = 1.5
"""and no standard error of a few blocks is found so many times what it is."""
KEPT = 80
_MOST_COLUMNS = 40
_ROUNDS = 25
_MOST_ODDS = 12.0
_CLOSE = 1e-3
_FITTED_BLOCKS = 90
_LAGS = 7
_DAY_HOURS = 24


@dataclass(frozen=True, slots=True)
class _Pair:
    """Two columns that go together in `cells`, which are `inside`, [W, W]: `shares` of each block's rows by the levels
    of both, [B, W, W], of which so much goes together in `each`, [B], and how many `rows` a block has."""

    one: str
    other: str
    cells: tuple[int, ...]
    inside: Floats
    shares: Floats
    each: Floats
    rows: float


@dataclass(frozen=True, slots=True)
class Strengths:
    """How much a pair goes together in each of B blocks: what was `found`, and what is to be `expected` of the block's
    margins, both shares of its `rows`; each of shape [B]."""

    found: Floats
    expected: Floats
    rows: Floats


def leveled(
    read: Rows, carried: Mapping[str, FeatureProfile], counts: Mapping[str, FeatureCounts], time: str | None
) -> tuple[Integers, dict[str, Integers]]:
    """The places of rows' blocks, and the level of each feature in them, of a window or of training itself; `carried`
    are the features by the columns that carry them, `counts` training's, `time` the column of event times, whose hours
    come as TIME_OF_DAY."""
    features = {one.name: one for one in carried.values()}
    ranked = {name for name, one in features.items() if _of_many_values(one.bins, counts[name])}
    blocks, codes = read.coded(carried, time, ranked)
    bins = {name: features[name].bins if name in features else None for name in codes}
    return blocks, {
        name: _ranked(code, blocks) if name in ranked else _to_levels(code, _levels_of(bins[name], counts[name]))
        for name, code in codes.items()
    }


def hours_later(read: Rows, time: str, counts: Mapping[str, FeatureCounts], later: int) -> Integers:
    """The level of TIME_OF_DAY in rows, as in `leveled`, were all their times so many hours later."""
    hours = read.coded({}, time, ())[1][TIME_OF_DAY]
    moved = np.where(hours < 0, hours, (hours + later) % _DAY_HOURS)
    return _to_levels(moved, _levels_of(None, counts[TIME_OF_DAY]))


def _of_many_values(bins: FrozenBins | None, counts: FeatureCounts) -> bool:
    """Whether numbers can be ranked, as no value or narrow range of them fills a level alone."""
    if not isinstance(bins, NumericBins):
        return False
    totals = counts.n.sum(axis=0)[counts.codes >= 0]
    return bool(totals.max(initial=0) * LEVELS <= totals.sum())


def _ranked(places: Integers, blocks: Integers) -> Integers:
    """Levels of rows by the rank of their values within their block, equal ones in the middle of theirs; what is no
    ordinary value has a level of its own."""
    found = np.full(len(places), LEVELS, dtype=np.int64)
    there = np.flatnonzero(places >= 0)
    if not len(there):
        return found
    of_places, of_rows = int(places.max()).bit_length(), len(places).bit_length()
    # Sorting numbers that end in their row takes half as long as asking for their order.
    keys = np.sort((((blocks[there] << of_places) + places[there]) << of_rows) + there)
    ordered, row = keys >> of_rows, keys & ((1 << of_rows) - 1)
    starts = np.flatnonzero(new_ones(ordered))
    alike = np.diff(starts, append=len(ordered))
    block = ordered[starts] >> of_places
    sizes = np.bincount(blocks[there])
    rows, first = sizes[block], (np.cumsum(sizes) - sizes)[block]
    level = np.floor(LEVELS * (starts - first + alike / 2) / rows)
    found[row] = np.repeat(np.minimum(level, LEVELS - 1), alike)
    return found


def _levels_of(bins: FrozenBins | None, counts: FeatureCounts) -> dict[int, int]:
    """The level of each bin: neighbours together until each level has its part of training's rows."""
    totals = dict(zip(counts.codes.tolist(), counts.n.sum(axis=0).tolist(), strict=True))
    codes = sorted(totals)
    if isinstance(bins, NumericBins):
        starts = [float("-inf"), *bins.edges, *bins.atoms]
        size = len(starts)
        codes.sort(key=lambda code: (code < 0, starts[code % 10_000] if 0 <= code % 10_000 < size else 0.0))
    part = sum(totals.values()) / LEVELS
    found, reached = {}, 0.0
    for code in codes:
        found[code] = min(LEVELS - 1, int((reached + totals[code] / 2) / part))
        reached += totals[code]
    if isinstance(bins, CategoryBins) and bins.other in found:
        found[bins.unseen] = found[bins.other]  # Of many texts, some are new every day.
    return found


def _to_levels(codes: Integers, levels: Mapping[int, int]) -> Integers:
    """Levels of rows by their bins; a bin that training never held has a level of its own."""
    if not len(codes):
        return codes
    low, high = int(codes.min()), int(codes.max())
    known = np.full(high - low + 1, LEVELS, dtype=np.int64)
    for code, level in levels.items():
        if low <= code <= high:
            known[code - low] = level
    return known[codes - low]


def strengths(first: Integers, second: Integers, blocks: Integers, cells: Sequence[int], odds: float) -> Strengths:
    """How much two columns of levels go together in `cells`, in each block with enough rows; `blocks` are places of
    rows' blocks, from zero."""
    joint, rows = _per_block(first, second, blocks)
    inside = _inside(cells)
    raked = _raked(joint, inside, np.asarray(odds))
    return Strengths(_beyond(joint, joint, inside), _beyond(raked, joint, inside), rows)


def _per_block(first: Integers, second: Integers, blocks: Integers) -> tuple[Floats, Floats]:
    """Shares of each block's rows by the levels of both, [B, W, W], and its rows, of blocks with enough of them."""
    width = LEVELS + 1
    cells = (blocks * width + first) * width + second
    joint = np.bincount(cells, minlength=(int(blocks.max(initial=-1)) + 1) * width**2).reshape(-1, width, width)
    rows = joint.sum(axis=(1, 2)).astype(np.float64)
    kept = rows >= _LEAST_ROWS
    return joint[kept] / rows[kept][:, None, None], rows[kept]


def _inside(cells: Sequence[int]) -> Floats:
    inside = np.zeros((LEVELS + 1) ** 2)
    inside[list(cells)] = 1.0
    return inside.reshape(LEVELS + 1, LEVELS + 1)


def _beyond(shares: Floats, margins: Floats, inside: Floats) -> Floats:
    """The part of `shares` that is `inside`, less what independent columns of the same margins would have there, by
    block; for one pair of columns, [B, W, W] and [W, W], or for several, [P, B, W, W] and [P, W, W]."""
    independent = margins.sum(axis=-1)[..., :, None] * margins.sum(axis=-2)[..., None, :]
    return np.asarray(((shares - independent) * inside[..., None, :, :]).sum(axis=(-2, -1)))


def _raked(joint: Floats, inside: Floats, odds: Floats) -> Floats:
    """Shares with each block's margins in which rows `inside` are more likely by `odds`, one of each pair of columns;
    other shapes as in `_beyond`."""
    rows, columns = joint.sum(axis=-1), joint.sum(axis=-2)
    likely = np.exp(odds[..., None, None] * inside)
    turned = likely.swapaxes(-2, -1)
    by_row, by_column = rows, columns
    for _ in range(_ROUNDS):
        by_row = rows / np.maximum(by_column @ turned, 1e-300)
        by_column = columns / np.maximum(by_row @ likely, 1e-300)
    return np.asarray(by_row[..., :, None] * likely[..., None, :, :] * by_column[..., None, :])


def _fitted_odds(pairs: Sequence[_Pair]) -> Floats:
    """The odds, [P], under which each pair's blocks are expected to hold, on the whole, what they do. By halves; of all
    pairs at once, since what is done for each is little and done often."""
    some = np.stack([_some_blocks(pair.shares) for pair in pairs])
    inside = np.stack([pair.inside for pair in pairs])
    wanted = _beyond(some, some, inside).mean(axis=1)

    def missing(odds: Floats) -> Floats:
        return np.asarray(wanted - _beyond(_raked(some, inside, odds), some, inside).mean(axis=1))

    low, high = np.zeros(len(pairs)), np.full(len(pairs), _MOST_ODDS)
    least, most = missing(low) <= 0, missing(high) >= 0
    for _ in range(math.ceil(math.log2(_MOST_ODDS / _CLOSE))):
        middle = (low + high) / 2
        below = missing(middle) > 0
        low, high = np.where(below, middle, low), np.where(below, high, middle)
    return np.select([most, least], [_MOST_ODDS, 0.0], (low + high) / 2)


def _some_blocks(shares: Floats) -> Floats:
    return shares[np.linspace(0, len(shares) - 1, min(len(shares), _FITTED_BLOCKS)).astype(np.int64)]


def _lasting_spread(values: Floats) -> float:
    """The standard deviation of blocks as the mean of many shows it, larger where neighbours resemble each other:
    Bartlett's weights (Newey and West 1987)."""
    left = values - values.mean()
    lags = range(1, min(_LAGS, len(left) // 4) + 1)
    variance = float(left @ left) / (len(left) - 1)
    cross = sum((1 - lag / (_LAGS + 1)) * float(left[lag:] @ left[:-lag]) / (len(left) - 1) for lag in lags)
    return float(max(variance, variance + 2 * cross) ** 0.5)


def find_associations(names: Sequence[str], levels: Sequence[Integers], blocks: Integers) -> tuple[Association, ...]:
    """The pairs of columns that surely go together, the surest first; `blocks` are the places of blocks, from zero."""
    found = []
    for (one, first), (other, second) in itertools.combinations(zip(names, levels, strict=True), 2):
        cells_of = np.bincount(first * (LEVELS + 1) + second, minlength=(LEVELS + 1) ** 2)
        joint = cells_of.reshape(LEVELS + 1, LEVELS + 1) / max(len(first), 1)
        gain = joint - joint.sum(axis=1)[:, None] * joint.sum(axis=0)[None, :]
        cells = tuple(int(cell) for cell in np.flatnonzero(gain.ravel() > 0))
        if gain[gain > 0].sum() < max(_LEAST_STRENGTH, _BY_CHANCE * _chosen_by_chance(joint, len(first))):
            continue
        shares, rows = _per_block(first, second, blocks)
        if len(shares) < 2:
            continue
        inside = _inside(cells)
        each = _beyond(shares, shares, inside)
        mean, spread = float(each.mean()), float(each.std(ddof=1))
        if mean >= _LEAST_STRENGTH and mean > _SURE * spread / len(each) ** 0.5:
            found.append(_Pair(one, other, cells, inside, shares, each, float(rows.mean())))
    found.sort(key=lambda pair: -float(pair.each.mean()) / max(float(pair.each.std(ddof=1)), 1e-6))
    kept = found[:KEPT]
    return tuple(_association(pair, odds) for pair, odds in zip(kept, _fitted_odds(kept), strict=True)) if kept else ()


def surely_listed(pair: Association, strength: float, rows: Integers) -> bool:
    """Whether `find_associations` would be sure to find a pair that is as strong as this, and spread as the given one
    is, in blocks of so many `rows`, [B]."""
    read = rows * min(1.0, CODED / max(int(rows.sum()), 1))
    blocks = read[read >= _LEAST_ROWS]
    if len(blocks) < 2:
        return False
    fewer = np.maximum(0.0, 0.25 / blocks - 0.25 / pair.rows)
    error = float(np.mean(pair.spread**2 + fewer) / len(blocks)) ** 0.5
    by_chance = _BY_CHANCE * LEVELS / (2 * np.pi * float(read.sum())) ** 0.5
    needed: float = _UNLIKELY * error + max(_LEAST_STRENGTH, by_chance, _SURE * _MISJUDGED * error)
    return strength > needed


def _chosen_by_chance(joint: Floats, rows: int) -> float:
    """What cells of independent columns hold in all beyond their margins, where those are chosen that hold more: half
    the mean absolute deviation of each cell (normal)."""
    margins = joint.sum(axis=1)[:, None] * joint.sum(axis=0)[None, :]
    return float(np.sqrt(margins).sum() / (2 * np.pi * max(rows, 1)) ** 0.5)


def _association(pair: _Pair, odds: Floats) -> Association:
    expected = _beyond(_raked(pair.shares, pair.inside, odds), pair.shares, pair.inside)
    spread = _lasting_spread(pair.each - expected)
    mean, blocks = float(pair.each.mean()), len(pair.each)
    return Association(pair.one, pair.other, pair.cells, mean, spread, blocks, pair.rows, float(odds), ranked=True)


def chosen_columns(features: Sequence[FeatureProfile]) -> list[FeatureProfile]:
    """The columns that are looked at in pairs; of very many only the first."""
    return [one for one in features if one.bins is not None][:_MOST_COLUMNS]
