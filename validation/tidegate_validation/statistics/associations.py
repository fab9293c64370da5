"""How columns go together, pair by pair and block by block: what a shuffled column loses and its values do not show.

Each column is cut into a few levels. Of a pair, those cells count that hold more rows than independent columns would
put there; the share of rows in them, less what the block's own margins would bring, is how much the pair goes together.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence

import numpy as np

from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.association import Association
from tidegate_validation.statistics.bins import NumericBins
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile

LEVELS = 6
_LEAST_ROWS = 30
_LEAST = 0.04
_SURE = 6.0
_KEPT = 80
_MOST_COLUMNS = 40


def levels_of(feature: FeatureProfile, counts: FeatureCounts) -> dict[int, int]:
    """The level of each bin: neighbours together until each level has its part of training's rows."""
    bins = feature.bins
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
    return found


def to_levels(codes: Integers, levels: Mapping[int, int]) -> Integers:
    """Levels of rows by their bins; a bin that training never held has a level of its own."""
    values, place = np.unique(codes, return_inverse=True)
    return np.asarray([levels.get(int(value), LEVELS) for value in values], dtype=np.int64)[place]


def strengths(first: Integers, second: Integers, blocks: Integers, cells: Sequence[int]) -> tuple[Floats, Floats]:
    """Per block with enough rows, how much two columns of levels go together in `cells`, and its number of rows."""
    width = LEVELS + 1
    joint = _joint(first, second, blocks)
    rows = joint.sum(axis=(1, 2))
    joint = joint[rows >= _LEAST_ROWS] / rows[rows >= _LEAST_ROWS][:, None, None]
    independent = joint.sum(axis=2)[:, :, None] * joint.sum(axis=1)[:, None, :]
    inside = np.zeros(width * width)
    inside[list(cells)] = 1.0
    return np.asarray((joint - independent).reshape(len(joint), width * width) @ inside), rows[rows >= _LEAST_ROWS]


def find_associations(names: Sequence[str], levels: Sequence[Integers], blocks: Integers) -> tuple[Association, ...]:
    """The pairs of columns that surely go together, the surest first."""
    found = []
    for (one, first), (other, second) in itertools.combinations(zip(names, levels, strict=True), 2):
        joint = _joint(first, second, np.zeros_like(blocks))[0]
        joint = joint / max(joint.sum(), 1.0)
        gain = joint - joint.sum(axis=1)[:, None] * joint.sum(axis=0)[None, :]
        cells = tuple(int(cell) for cell in np.flatnonzero(gain.ravel() > 0))
        if gain[gain > 0].sum() < _LEAST:
            continue
        each, rows = strengths(first, second, blocks, cells)
        if len(each) < 2:
            continue
        mean, spread = float(each.mean()), float(each.std(ddof=1))
        if mean >= _LEAST and mean > _SURE * spread / len(each) ** 0.5:
            found.append(Association(one, other, cells, mean, spread, len(each), float(rows.mean())))
    found.sort(key=lambda one: -one.strength / max(one.spread, 1e-6))
    return tuple(found[:_KEPT])


def chosen_columns(features: Sequence[FeatureProfile]) -> list[FeatureProfile]:
    """The columns that are looked at in pairs; of very many only the first."""
    return [one for one in features if one.bins is not None][:_MOST_COLUMNS]


def _joint(first: Integers, second: Integers, blocks: Integers) -> Floats:
    width = LEVELS + 1
    place = np.unique(blocks, return_inverse=True)[1]
    cells = (place * width + first) * width + second
    size = (int(place.max()) + 1 if len(place) else 1) * width * width
    return np.bincount(cells, minlength=size).astype(np.float64).reshape(-1, width, width)
