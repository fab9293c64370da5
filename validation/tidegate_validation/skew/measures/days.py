"""Single days of a window that are unlike every day of training, such as a weekend that another job writes: over the
whole window they hardly show, and days drawn at random could hold them too.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.measures.distance import ENOUGH_BLOCKS, MIN_EXPECTED
from tidegate_validation.skew.measures.numbers import compared_bins
from tidegate_validation.skew.measures.onset import date_of
from tidegate_validation.statistics.arrays import Floats, Mask
from tidegate_validation.statistics.bins import MISSING, CategoryBins
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile

CHECK = "days"
_TIMES = 2.5
"""Where days have tails as heavy as those of storms, a week has a day that much further out than any of sixty once in a
hundred times; where they are bell-shaped, never."""
_LEAST = 0.3
_LEAST_ROWS = 50
_MANY_NEW = 0.2
_SURELY = 5.0
_NOTHING = 1e-9
_SHOWN = 3
_WHOLE = 0.75
"""With so large a part of the usual rows the first or last day of a window is taken for a whole one."""
_OF_MISSING = "other shares of its values are missing than"


def unlike_days(feature: FeatureProfile, reference: FeatureCounts, current: FeatureCounts) -> Finding | None:
    """A WARN about days further from training, beyond what their rows explain, than any of its days by far: from all of
    it, or, of categories, from the nearest of its days, which may be of several kinds, such as weekdays and weekends.

    None where all are: then the whole window tells it; and of categories that come and go, as dates do in texts: there
    each day is unlike those long before it.
    """
    if isinstance(feature.bins, CategoryBins) and _brings_new(feature, reference, current):
        return None
    days = _days(reference, current)
    return days and _unlike(feature, *days, compared_bins(feature, reference))


def _brings_new(feature: FeatureProfile, reference: FeatureCounts, current: FeatureCounts) -> bool:
    """Whether training's days brought many values that no day before them had, so that a window's do too."""
    ahead = int(current.blocks.max()) - int(reference.blocks.max()) if current.rows and reference.rows else 0
    return max(feature.new_rate or 0.0, feature.points.freshness(ahead)) > _MANY_NEW


def days_of_missing_values(feature: FeatureProfile, reference: FeatureCounts, current: FeatureCounts) -> Finding | None:
    """The same of which values are missing."""
    days = _days(reference, current)
    there = tuple(code for code in {*reference.codes.tolist(), *current.codes.tolist()} if code not in MISSING)
    return days and _unlike(feature, *days, [MISSING, there], _OF_MISSING)


def _days(reference: FeatureCounts, current: FeatureCounts) -> tuple[FeatureCounts, FeatureCounts] | None:
    """Both sides by whole days; None where the window has no two of them."""
    reference, current = _with_time(reference), _with_time(current)
    return (reference, _whole_days(current)) if len(current.blocks) > 1 else None


def _only(counts: FeatureCounts, kept: Mask) -> FeatureCounts:
    return replace(counts, blocks=counts.blocks[kept], n=counts.n[kept])


def _with_time(counts: FeatureCounts) -> FeatureCounts:
    """Without the rows that have no event time, which are no day."""
    return _only(counts, counts.blocks > 0)


def _whole_days(counts: FeatureCounts) -> FeatureCounts:
    """Without a first or last day of clearly fewer rows than usual: what is missing each night
    is missing everywhere on a day that is not over."""
    rows = counts.n.sum(axis=1)
    kept = rows >= _WHOLE * np.median(rows)
    kept[1:-1] = True
    return _only(counts, kept)


def _unlike(
    feature: FeatureProfile,
    reference: FeatureCounts,
    current: FeatureCounts,
    codes: Sequence[tuple[int, ...]],
    are: str = "it is unlike",
) -> Finding | None:
    before, now = (
        np.stack([part.of(group) for group in codes], axis=1).astype(np.float64) for part in (reference, current)
    )
    before = before[before.sum(axis=1) >= _LEAST_ROWS]
    if len(before) < ENOUGH_BLOCKS:
        return None
    before, now = _pooled(before, now)
    usual = before.sum(axis=0) / before.sum()
    limit = max(_LEAST, _TIMES * float(_apart(before, usual, 0.0).max()))
    away = _apart(now, usual, _SURELY)
    far = away > limit
    if not far.any() and isinstance(feature.bins, CategoryBins):
        away = _to_nearest(now, before, _SURELY, itself=False)
        if (away > _LEAST).any():
            limit = max(_LEAST, _TIMES * float(_to_nearest(before, before, 0.0, itself=True).max()))
            far = away > limit
    if not far.any() or far.all():
        return None
    days = [date_of(int(day)) for day in current.blocks[far]]
    named = f"{', '.join(days[:_SHOWN])}{' and others' if len(days) > _SHOWN else ''}"
    words = f"on {len(days)} of {len(far)} days {are} on any day of training ({named})"
    return Finding(
        CHECK, feature.name, Outcome.WARN, f"`{feature.name}`: {words}", number=float(away.max()), limit=limit
    )


def _to_nearest(days: Floats, others: Floats, surely: float, *, itself: bool) -> Floats:
    """How far each day is from the nearest of the others, less what the rows of both bring about by chance and so many
    standard deviations of that; with `itself`, both are the same days."""
    rows, other_rows = (np.maximum(one.sum(axis=1), 1.0) for one in (days, others))
    p, q = days / rows[:, None], others / other_rows[:, None]
    freedom = days.shape[1] - 1
    nearest = np.empty(len(days))
    for place, share in enumerate(p):
        squares = ((share - q) ** 2 / np.maximum((share + q) / 2, _NOTHING)).sum(axis=1)
        chance = (freedom + surely * (2 * freedom) ** 0.5) * (1 / rows[place] + 1 / other_rows)
        left = np.sqrt(np.maximum(squares - chance, 0.0))
        nearest[place] = np.delete(left, place).min() if itself else left.min()
    return np.where(rows >= _LEAST_ROWS, nearest, 0.0)


def _pooled(before: Floats, now: Floats) -> tuple[Floats, Floats]:
    """Bins of which a day of the window has few rows by nature become one, for chance hits these hardest."""
    usual = before.sum(axis=0) / before.sum()
    often = usual * np.median(now.sum(axis=1)) >= MIN_EXPECTED
    rare = [part[:, ~often].sum(axis=1) + _NOTHING for part in (before, now)]
    return np.column_stack([before[:, often], rare[0]]), np.column_stack([now[:, often], rare[1]])


def _apart(days: Floats, usual: Floats, surely: float) -> Floats:
    """How far each day is from the usual shares, less what its rows bring about by chance and so many standard
    deviations of that; 0 for days of few rows."""
    rows = np.maximum(days.sum(axis=1), 1.0)
    shares = days / rows[:, None]
    squares = ((shares - usual) ** 2 / ((shares + usual) / 2)).sum(axis=1)
    freedom = len(usual) - 1
    chance = (freedom + surely * (2 * freedom) ** 0.5) / rows
    return np.where(rows >= _LEAST_ROWS, np.sqrt(np.maximum(squares - chance, 0.0)), 0.0)
