"""Categories that training had all along, of which hundreds of rows were to come, and that next to no row of a window
holds.

Over all categories they may weigh no more than days differ by. They are held against training's own stretches that
begin on the same weekday, on those of their days on which the window has rows too: none of them missed half as much,
and the share that they had in each says how unlikely one next to nothing is. What comes on a few days alone, as a
weekly job does, may come a day late: it must be unlikely that none of the days brings any.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.diagnosis.categories import GONE, counted_as_another
from tidegate_validation.skew.diagnosis.cause import Cause
from tidegate_validation.skew.finding import explain
from tidegate_validation.skew.rule import Aspect
from tidegate_validation.statistics.arrays import Floats, Integers, Mask
from tidegate_validation.statistics.bins import CategoryBins
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile

_WEEK = 7
_LEAST_DAYS = 5
"""Over a long weekend of holidays, some have no rows by nature."""
_FEW_ROWS = 0.05
"""A day of fewer of the rows that a usual day of the window has is one of strays: clocks gone wrong, a holiday."""
_LEAST_SHARE = 0.05
_LEAST_ROWS = 100
_SURELY_SOME = 8.0
"""Of a category of which so many rows are to come, none comes by chance once in three thousand times."""
_STRAY = 0.01
"""A part of the rows that were to come which does not make a category one that still comes."""
_LEAST_HELD = 3.0
"""Days that were to have rows of the categories, the window's first and last aside, which may be parts of days."""
_LEAST_STRETCHES = 2.9
_SURE_STRETCHES = 6.0
"""Fewer, independent of each other, know too little of what comes and goes: no more than a WARN follows."""
_QUIETER = 0.7
_PROBABLE = 0.95
_HALF = 0.5
_SHOWN = 3


def may_have_vanished(found: list[Finding]) -> bool:
    """Whether the findings of a column leave it open what has happened to its values, or how sure that is."""
    return all(one.outcome is not Outcome.FAIL and (one.cause or {}).get("kind", GONE) == GONE for one in found)


def vanished(
    feature: FeatureProfile, reference: FeatureCounts, current: FeatureCounts, alpha: float
) -> tuple[Cause, Outcome] | None:
    """The categories that are gone as surely as `alpha` says, and a FAIL, or a WARN where training has few stretches or
    where that is not sure without the window's quiet days; None where none are."""
    if not isinstance(feature.bins, CategoryBins):
        return None
    groups = [(code,) for code in range(len(feature.bins.top))]
    everything = [*groups, (feature.bins.other, feature.bins.unseen)]
    known = reference.blocks, reference.grouped(everything)
    days, n = _usual_days(current.blocks, current.grouped(everything))
    found = _gone(*known, days, n, alpha)
    if found is None:
        return None
    sure, quiet = found.sure, found.before.quiet(n, found.absent)
    if quiet.any():
        others = _gone(*known, days[~quiet], n[~quiet], alpha)
        sure = others is not None and others.sure and bool(others.absent[found.absent].all())
    absent = np.flatnonzero(found.absent)
    names = [feature.bins.top[code] for code in absent[np.argsort(-found.usual[absent], kind="stable")]]
    details = [("values", names[:_SHOWN]), ("number", len(names)), *([("rows", found.left)] if found.left else [])]
    if found.sure and not sure:
        details.append(("quiet", int(quiet.sum())))
    gone = Cause(GONE, share=found.share, details=tuple(details))
    cause = (sure and counted_as_another(feature, reference, current, gone)) or gone
    return cause, Outcome.FAIL if sure else Outcome.WARN


def finding_of(cause: Cause, outcome: Outcome, feature: FeatureProfile, found: list[Finding]) -> list[Finding]:
    """The findings of a column with the `cause` in place of what its distribution says."""
    words = f"`{feature.name}`: {explain(cause)}"
    told = Finding(Aspect.DISTRIBUTION.value, feature.name, outcome, words, number=cause.share, cause=cause.to_dict())
    return [told, *(one for one in found if one.check != Aspect.DISTRIBUTION)]


def _usual_days(days: Integers, n: Integers) -> tuple[Integers, Integers]:
    """The window's days that have about as many rows as its others, and their rows, shape [days, bins]; rows without a
    time have none."""
    rows = n.sum(axis=1)
    kept = (days > 0) & (rows > 0)
    kept &= rows >= _FEW_ROWS * (np.median(rows[kept]) if kept.any() else 0)
    return days[kept], n[kept]


@dataclass(frozen=True, slots=True)
class _Stretches:
    """Training by stretches of days: `n[s, bin]` rows in each, `places[s, day]` of its days among those `by_day`, -1
    where one has no rows, and how many are `independent` of each other."""

    n: Floats
    places: Integers
    by_day: Integers
    independent: float

    @classmethod
    def of(cls, blocks: Integers, n: Integers, inside: Integers) -> _Stretches:
        """Those that lie within training's days, with as many `inside` days, as far apart, from the same weekday on;
        without stretches that have no rows."""
        there = (blocks > 0) & (n.sum(axis=1) > 0)
        days, by_day = blocks[there], n[there]
        if not len(days):
            return cls(np.zeros((0, n.shape[1])), np.zeros((0, len(inside)), dtype=np.int64), by_day, 0.0)
        length = int(inside[-1] - inside[0]) + 1
        first = int(days[0] + (inside[0] - days[0]) % _WEEK)
        wanted = np.arange(first, int(days[-1]) - length + 2, _WEEK)[:, None] + (inside - inside[0])
        places = np.minimum(np.searchsorted(days, wanted), len(days) - 1)
        places = np.where(days[places] == wanted, places, -1)
        places = places[(places >= 0).any(axis=1)]
        found = [by_day[one[one >= 0]].sum(axis=0) for one in places]
        span = int(days[-1] - days[0]) + 1
        independent = min(span / max(length, _WEEK), len(days) / len(inside))
        return cls(np.array(found, dtype=np.float64).reshape(len(found), n.shape[1]), places, by_day, independent)

    def chance_of_no_day(self, chosen: Mask) -> float:
        """The probability that no whole day of the window has rows of the `chosen` bins; 1 where few days had any."""
        held: Mask = np.asarray(self.by_day[:, chosen].any(axis=1))
        there = self.places[:, 1:-1] >= 0
        shares = (there & held[self.places[:, 1:-1]]).sum(axis=0) / (there.sum(axis=0) + 1)
        return float(np.prod(1 - shares)) if shares.sum() >= _LEAST_HELD else 1.0

    def quiet(self, now: Integers, chosen: Mask) -> Mask:
        """The whole days of the window, [days, bins], on which clearly fewer rows came of bins that are not `chosen`
        than on any such day of training, and than on the window's best day by that measure: a log of which a part is
        kept has none, nor are days quiet that training never had."""
        others, usual = now[:, ~chosen].sum(axis=1), self.by_day[:, ~chosen].sum(axis=1)
        least = np.where(self.places >= 0, usual[self.places], np.inf).min(axis=0)
        part = np.where(np.isfinite(least), others / np.maximum(least, 1), np.nan)
        quiet: Mask = part < _QUIETER * min(1.0, float(np.nanmax(part)))
        quiet[[0, -1]] = False
        return quiet


@dataclass(frozen=True, slots=True)
class _Gone:
    """The bins that are `absent`, of which `left` rows came; `usual` are the shares that bins had `before`."""

    absent: Mask
    left: int
    usual: Floats
    before: _Stretches

    @property
    def share(self) -> float:
        """Of training's rows, those that the absent bins had."""
        return float(self.usual[self.absent].sum())

    @property
    def sure(self) -> bool:
        """Whether training has stretches enough to know what comes and goes."""
        return self.before.independent >= _SURE_STRETCHES


def _gone(blocks: Integers, n: Integers, days: Integers, now_by_day: Integers, alpha: float) -> _Gone | None:
    """What is gone, as surely as `alpha` says, of training's `n` rows per block and bin in the window's `days`; None
    where nothing is."""
    if len(days) < _LEAST_DAYS:
        return None
    before = _Stretches.of(blocks, n, days)
    if before.independent < _LEAST_STRETCHES or len(before.n) < _LEAST_STRETCHES:
        return None
    now = now_by_day.sum(axis=0).astype(np.float64)
    shares = before.n / before.n.sum(axis=1, keepdims=True)
    usual, rows = shares.mean(axis=0), float(now.sum())
    absent = (now <= _STRAY * usual * rows) & (usual * rows >= _SURELY_SOME)
    absent[-1] = False
    found = _Gone(absent, int(now[absent].sum()), usual, before)
    missed = ((before.n == 0) @ usual).max()
    if found.share < _LEAST_SHARE or missed > _HALF * found.share or before.chance_of_no_day(absent) > alpha:
        return None
    chance = _chance(shares[:, absent].sum(axis=1), rows, found.left, before.independent - 1)
    return found if chance <= alpha else None


def _chance(shares: Floats, rows: float, left: int, freedom: float) -> float:
    """The probability that no more than the rows that are `left` follow on these shares, which wander by factors."""
    from scipy import special

    if rows * min(float(shares.mean()), float(shares[-1])) < _LEAST_ROWS:
        return 1.0
    levels = np.log(shares)
    wander = max(float(levels.std(ddof=1)), (1 / (rows * float(shares.mean()))) ** 0.5)
    most = float(special.gammaincinv(left + 1, _PROBABLE))
    out = (min(float(levels.mean()), float(levels[-1])) - np.log(most / rows)) / wander
    return float(special.stdtr(freedom, -out / (1 + 1 / len(shares)) ** 0.5))
