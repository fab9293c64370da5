"""Categories that training had all along, of which hundreds of rows were to come, and that no row of a window holds.

Over all categories they may weigh no more than days differ by. They are held against training's own stretches of as
many days that begin on the same weekday: none of them missed half as much, and the share that they had in each says
how unlikely one next to nothing is.
"""

from __future__ import annotations

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.diagnosis.categories import GONE
from tidegate_validation.skew.diagnosis.cause import Cause
from tidegate_validation.skew.finding import explain
from tidegate_validation.skew.rule import Aspect
from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.bins import CategoryBins
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile

_WEEK = 7
_LEAST_DAYS = 5
"""Over a long weekend of holidays, some have no rows by nature."""
_LEAST_SHARE = 0.05
_LEAST_ROWS = 100
_SURELY_SOME = 8.0
"""Of a category of which so many rows are to come, none comes by chance once in three thousand times."""
_LEAST_FREEDOM = 1.9
_NONE = 3.0
"""Where no row came, up to so many were to be expected with a probability of 0.95."""
_HALF = 0.5
_SHOWN = 3


def may_have_vanished(found: list[Finding]) -> bool:
    """Whether the findings of a column leave it open what has happened to its values, or how sure that is."""
    return all(one.outcome is not Outcome.FAIL and (one.cause or {}).get("kind", GONE) == GONE for one in found)


def vanished(feature: FeatureProfile, reference: FeatureCounts, current: FeatureCounts, alpha: float) -> Cause | None:
    """The categories that are gone as surely as `alpha` says; None where none are."""
    if not isinstance(feature.bins, CategoryBins) or not current.rows:
        return None
    groups = [(code,) for code in range(len(feature.bins.top))]
    everything = [*groups, (feature.bins.other, feature.bins.unseen)]
    days, inside = (part.blocks[part.blocks > 0] for part in (reference, current))
    if not len(days) or not len(inside) or len(inside) < len(current.blocks):
        return None
    length = int(inside[-1] - inside[0]) + 1
    if length < _LEAST_DAYS:
        return None
    before = _stretches(days, reference.grouped(everything)[reference.blocks > 0], int(inside[0]), length)
    freedom = (int(days[-1] - days[0]) + 1) / max(length, _WEEK) - 1
    if freedom < _LEAST_FREEDOM or len(before) < _LEAST_FREEDOM + 1:
        return None
    now = current.grouped(everything).sum(axis=0).astype(np.float64)
    shares = before / before.sum(axis=1, keepdims=True)
    usual, rows = shares.mean(axis=0), float(now.sum())
    absent = (now == 0) & (usual * rows >= _SURELY_SOME)
    absent[-1] = False
    lost = float(usual[absent].sum())
    missed = ((before == 0) @ usual).max()
    if lost < _LEAST_SHARE or missed > _HALF * lost or _chance(shares[:, absent].sum(axis=1), rows, freedom) > alpha:
        return None
    names = [feature.bins.top[code] for code in np.flatnonzero(absent)[np.argsort(-usual[absent], kind="stable")]]
    return Cause(GONE, share=lost, details=(("values", names[:_SHOWN]), ("number", len(names))))


def finding_of(cause: Cause, feature: FeatureProfile, found: list[Finding]) -> list[Finding]:
    """The findings of a column with the `cause` in place of what its distribution says."""
    words = f"`{feature.name}`: {explain(cause)}"
    told = Finding(
        Aspect.DISTRIBUTION.value, feature.name, Outcome.FAIL, words, number=cause.share, cause=cause.to_dict()
    )
    return [told, *(one for one in found if one.check != Aspect.DISTRIBUTION)]


def _stretches(days: Integers, n: Integers, start: int, length: int) -> Floats:
    """Rows of each bin in every stretch of `length` days that lies within training and begins on the weekday of the day
    `start`, shape [stretches, bins]; without those that have no rows."""
    first = int(days[0]) + (start - int(days[0])) % _WEEK
    starts = range(first, int(days[-1]) - length + 2, _WEEK)
    found = [n[np.searchsorted(days, one) : np.searchsorted(days, one + length)].sum(axis=0) for one in starts]
    held = np.array(found, dtype=np.float64).reshape(len(found), n.shape[1])
    return np.asarray(held[held.sum(axis=1) > 0])


def _chance(shares: Floats, rows: float, freedom: float) -> float:
    """The probability that a share next to nothing follows on these, which wander by factors."""
    from scipy import special

    if rows * min(float(shares.mean()), float(shares[-1])) < _LEAST_ROWS:
        return 1.0
    levels = np.log(shares)
    wander = max(float(levels.std(ddof=1)), (1 / (rows * float(shares.mean()))) ** 0.5)
    out = (min(float(levels.mean()), float(levels[-1])) - np.log(_NONE / rows)) / wander
    return float(special.stdtr(freedom, -out / (1 + 1 / len(shares)) ** 0.5))
