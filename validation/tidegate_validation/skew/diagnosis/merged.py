"""Whether categories that are gone are counted as another one, which then has grown by as much.

Its share of the rows without them is held against that of training's days, and of its stretches of as many days: one
that has grown by about what is lost, and more than such stretches and as many candidates do by chance, has taken them.
Of two categories no such share tells.
"""

from __future__ import annotations

from collections.abc import Collection

import numpy as np

from tidegate_validation.statistics.arrays import Floats, Mask
from tidegate_validation.statistics.counts import FeatureCounts

_BY_CHANCE = 0.005
_ALIKE = 1.645
"""Days that are independent of each other are that much alike, in standard deviations, once in twenty times."""
_LEAST_STRETCHES = 4
_LEAST_DAYS = 10


def merged_into(reference: FeatureCounts, current: FeatureCounts, known: int, gone: Collection[int]) -> int | None:
    """The code of the category, of those `known`, that the ones with the codes `gone` are counted as; None where none
    is. What training never held, or hardly, may be a new name of theirs: it must not have grown as much."""
    groups = [(code,) for code in range(known)]
    rest = tuple(code for code in {*reference.codes.tolist(), *current.codes.tolist()} if code >= known)
    before, now = (part.grouped([*groups, rest]).astype(np.float64) for part in (reference, current))
    before, now = before[before.sum(axis=1) > 0], now[now.sum(axis=1) > 0]
    left = np.array([code for code in range(known + 1) if code not in gone])
    kept = before[:, left].sum(axis=1) > 0
    if kept.sum() < max(_LEAST_DAYS, _LEAST_STRETCHES * len(now)) or not now[:, left].sum():
        return None
    usual, served = before[kept][:, left].sum(axis=0), now[:, left].sum(axis=0)
    usual, served = usual / usual.sum(), served / served.sum()
    lost = float(before[:, list(gone)].sum() / before.sum())
    wanted = usual * (1 - lost) + lost
    margin = _margin(before[kept][:, left], now[:, left])
    grown = np.divide(served - usual, margin, out=np.zeros(len(left)), where=margin > 0)
    best = int(grown.argmax())
    in_stretches = by_stretch(before[kept][:, left[best]], before[kept][:, left].sum(axis=1), len(now))
    half = (usual[best] + wanted[best]) / 2
    as_much = half < served[best] < 2 * wanted[best] - half and served[best] - in_stretches[-1] > half - usual[best]
    found = grown[best] > 1 and as_much and served[best] > in_stretches.max() and left[best] < known
    return int(left[best]) if found else None


def _margin(before: Floats, now: Floats) -> Floats:
    """How far above training's share of each category that of a window may be by chance: as its days differ, as its
    stretches of as many days do, or as rows do, whichever is most. Where days hang together the stretches alone tell,
    and a few of them tell little."""
    from scipy import special

    days, rows = len(now), now.sum()
    shares = before / before.sum(axis=1, keepdims=True)
    stretches = before[len(before) % days :].reshape(-1, days, before.shape[1]).sum(axis=1)
    in_each = stretches / stretches.sum(axis=1, keepdims=True)
    usual = before.sum(axis=0) / before.sum()
    chance = _BY_CHANCE / before.shape[1]
    surely, of_few = -special.ndtri(chance), -special.stdtrit(len(stretches) - 1, chance)
    margins = [
        surely * shares.std(axis=0, ddof=1) / days**0.5,
        np.where(_hang_together(shares), of_few, surely) * in_each.std(axis=0, ddof=1),
        surely * np.sqrt(usual * (1 - usual) / rows),
    ]
    return np.asarray(np.max(margins, axis=0) * (1 + days / len(before)) ** 0.5)


def _hang_together(shares: Floats) -> Mask:
    """Which categories have shares that are more like those of the day before than chance makes them."""
    away = shares - shares.mean(axis=0)
    alike, squares = (away[1:] * away[:-1]).sum(axis=0), (away**2).sum(axis=0)
    return np.asarray(alike > _ALIKE * squares / len(shares) ** 0.5)


def by_stretch(rows: Floats, everything: Floats, days: int) -> Floats:
    """The share of the rows of each stretch of so many days in a row."""
    part, whole = (np.convolve(one, np.ones(days), "valid") for one in (rows, everything))
    return np.asarray(part / whole)
