"""Ids of which none ends any more with a digit that a part of training's ended with on all days: the part of a log or
of a database that holds these did not come, or large numbers went through 64-bit floats, after which all are even."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.columns.narrowed import NARROWED
from tidegate_validation.statistics.arrays import Integers
from tidegate_validation.statistics.bins import CategoryBins
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sql import Family
from tidegate_validation.statistics.texts import LAST_CHARACTER, WHOLE_IN_FLOATS

CHECK = LAST_CHARACTER
WIDER = NARROWED.replace("32", "64")
MISSING_IDS = "missing ids"
_ODD = {"1", "3", "5", "7", "9"}
_SURELY = 30.0
_STRAY = 0.01
"""So many rows were to come of an end that is gone, and so small a part of them may have come."""
_A_DAY, _RARELY = 5.0, 0.05
"""An end of which a day was to have so many rows had none on so small a part of training's days."""
_MOST, _INSTEAD = 0.6, 0.5
_MANY, _AS_MANY = 0.4, 0.8
"""Where so large a part of a day's rows were missing, it would have fewer than this part of training's."""
_UNTIMED = 0.25
"""Where rows have no times, so large a part may be the last digits of days that a window has not, or a writer that
others took the place of."""
_OF_NUMBERS = tuple({*signs} for signs in ("0123456789", "0123456789abcdef", "0123456789ABCDEF"))
_OTHERS = 0.02
"""So small a part of the rows may end with other signs than numbers do."""
_ALIKE, _ERRORS = 0.15, 4.0
"""How far the parts that end with one digit may be from each other, and from stretch to stretch, beside one of them."""
_STRETCHES = 7
_SHOWN = 3


def ends_gone(
    known: FeatureProfile, ends: FeatureProfile, reference: FeatureCounts, current: FeatureCounts, *, by_day: bool
) -> Finding | None:
    """A FAIL about ids some of whose last digits, in training with such `ends` and spread evenly, surely come no more,
    and none new in their place; a WARN where that were so many of the rows `by_day` that days had to have fewer, and
    have not: the ids are given out otherwise."""
    if not isinstance(ends.bins, CategoryBins):
        return None
    names = ends.bins.top
    groups = [*((code,) for code in range(len(names))), (ends.bins.other, ends.bins.unseen)]
    before, by_block = reference.grouped(groups), current.grouped(groups)
    now = by_block.sum(axis=0)
    shares = before.sum(axis=0) / max(before.sum(), 1)
    wanted = shares * now.sum()
    expected = before.sum(axis=1, keepdims=True) * shares
    told = expected >= _A_DAY
    lacking = ((before == 0) & told).sum(axis=0) / np.maximum(told.sum(axis=0), 1)
    gone = (wanted >= _SURELY) & (now <= _STRAY * wanted) & told.any(axis=0) & (lacking <= _RARELY)
    gone[-1] = False
    share = float(shares[gone].sum())
    if not gone.any() or share > _MOST or now[-1] >= _INSTEAD * share * now.sum():
        return None
    absent = [names[code] for code in np.flatnonzero(gone)]
    if known.family is Family.INTEGER and _largest(known) >= WHOLE_IN_FLOATS and {*absent} == _ODD:
        sentence = (
            f"`{known.name}`: all whole numbers are even, {100 * share:.0f} % were odd in training: they went through "
            "64-bit floats, which hold no odd numbers beyond 9e15: ids among them are no longer what they were"
        )
        cause = {"kind": WIDER, "share": 1.0}
        return Finding(CHECK, known.name, Outcome.FAIL, sentence, number=share, cause=cause)
    if not _spread_evenly(names, before):
        return None
    more = f" and {len(absent) - _SHOWN} more" if len(absent) > _SHOWN else ""
    named = ", ".join(f"“{one}”" for one in absent[:_SHOWN])
    words = f"`{known.name}`: none of its values ends with {named}{more}, as {100 * share:.1f} % did in training"
    if not by_day and share >= _UNTIMED:
        sentence = f"{words} (is a part of the data missing, or do ids end with dates?)"
        return Finding(CHECK, known.name, Outcome.WARN, sentence, number=share)
    if by_day and share >= _MANY and _a_day(by_block) >= _AS_MANY * _a_day(before):
        sentence = f"{words}, and there are as many rows (are ids given out otherwise?)"
        return Finding(CHECK, known.name, Outcome.WARN, sentence, number=share)
    cause = {"kind": MISSING_IDS, "share": round(share, 4), "values": absent[:_SHOWN]}
    sentence = f"{words} (is a part of the data missing?)"
    return Finding(CHECK, known.name, Outcome.FAIL, sentence, number=share, cause=cause)


def _spread_evenly(names: Sequence[str], rows: Integers) -> bool:
    """Whether training's ids ended with all digits, or all even or all odd ones, and with each as often in all
    stretches of its days, as numbers do that count up or are drawn: other ends are codes, as of a site or a status."""
    total = float(rows.sum())
    ends = {name: rows[:, code] for code, name in enumerate(names) if rows[:, code].sum() >= _OTHERS * total}
    if not any({*ends} in (signs, {*sorted(signs)[::2]}, {*sorted(signs)[1::2]}) for signs in _OF_NUMBERS):
        return False
    found = np.stack([*ends.values()], axis=1)
    if found.sum() < (1 - _OTHERS) * total:
        return False
    stretches = np.array([part.sum(axis=0) for part in np.array_split(found, min(_STRETCHES, len(found)))])
    return all(_alike(part) for part in (found.sum(axis=0), *stretches))


def _alike(rows: Integers) -> bool:
    """Whether so many rows of each digit are as many, beside what chance makes of them."""
    usual: float = rows.mean()
    return bool(np.abs(rows - usual).max() <= _ALIKE * usual + _ERRORS * usual**0.5)


def _a_day(rows: Integers) -> float:
    """The rows of a usual day."""
    found = rows.sum(axis=1)
    return float(np.median(found[found > 0])) if found.any() else 0.0


def _largest(known: FeatureProfile) -> float:
    return max(abs(known.minimum or 0.0), abs(known.maximum or 0.0))
