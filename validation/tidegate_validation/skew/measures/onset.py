"""Since when a column differs: the first of a window's days from which on it looks unlike training."""

from __future__ import annotations

from datetime import UTC, datetime

import numpy as np

from tidegate_validation.skew.measures.numbers import ordinary_bins
from tidegate_validation.statistics.bins import MISSING
from tidegate_validation.statistics.blocks import SECONDS
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile

_LEAST_DAYS = 3
_LITTLE = 0.25
_EXPLAINED = 0.8


def onset(feature: FeatureProfile, reference: FeatureCounts, current: FeatureCounts) -> int | None:
    """The day (since 1970) from which on the difference is there, None where it is there in the whole window.

    Each day is placed on the way from training's shares to the window's; the best step between two levels must explain
    most of how days differ, and lie near nothing before.
    """
    if len(current.blocks) < _LEAST_DAYS or current.blocks[0] <= 0:
        return None
    codes = [*ordinary_bins(feature), MISSING]
    before = reference.grouped(codes).sum(axis=0).astype(np.float64)
    days = current.grouped(codes).astype(np.float64)
    sizes = days.sum(axis=1)
    if before.sum() == 0 or (sizes == 0).any():
        return None
    p, q = before / before.sum(), days.sum(axis=0) / sizes.sum()
    way = (q - p) / np.maximum((p + q) / 2, 1e-9)
    places = (days / sizes[:, None] - p) @ way
    far = places - places.mean()
    total = float((far**2).sum())
    if total <= 0:
        return None
    cuts = np.arange(1, len(far))
    explained = np.cumsum(far)[:-1] ** 2 * len(far) / (cuts * (len(far) - cuts))
    cut = int(cuts[explained.argmax()])
    if explained.max() < _EXPLAINED * total or abs(places[:cut].mean()) > _LITTLE * places[cut:].mean():
        return None
    return int(current.blocks[cut])


def date_of(day: int) -> str:
    """A day as YYYY-MM-DD, UTC."""
    return f"{datetime.fromtimestamp(day * SECONDS, UTC):%Y-%m-%d}"
