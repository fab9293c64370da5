"""Columns such as ids of which hardly any value came twice in training, and many do in a window: as new ones all of
these are nothing strange, and no single one weighs much.

However many rows a window has, fewer of them repeat a value than of the whole of training, which is longer. Which of
training's days had these is not known: a window of a day or two may be of the kind that had them all.
"""

from __future__ import annotations

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.statistics.profile import FeatureProfile
from tidegate_validation.statistics.sample import TextSample, ValueSample
from tidegate_validation.statistics.sql import Family

CHECK = "repeated values"
REUSED = "repeated values"
_KINDS = (Family.TEXT, Family.INTEGER)
_HARDLY = 0.02
"""The most rows of training that may repeat another one's value."""
_MANY = 0.05
"""So many rows of a window are no chance,"""
_TIMES = 3.0
"""and so many times what training had."""
_LEAST_ROWS = 100
_HALF = 0.5
_FEW_DAYS = 3
_ERRORS = 2.0
"""So many standard errors the share lies above its limit: on a day of a hundred rows some come twice by chance."""


def reused(feature: FeatureProfile, sample: ValueSample | TextSample) -> Finding | None:
    """A finding where values of a column repeat that did not in training: a FAIL where they do on half of the days at
    least, and days are several or have more such rows than all of training. None of a window that has more rows."""
    present = feature.rows - feature.missing - feature.infinite
    rows = int(sample.n.sum())
    if feature.family not in _KINDS or not _LEAST_ROWS <= rows <= present:
        return None
    usual = max(1 - feature.distinct / present, 0.0)
    limit = max(_MANY, _TIMES * usual)
    values, place = sample.placed
    share = 1 - len(values) / rows
    if usual > _HARDLY or share - _ERRORS * (limit * (1 - limit) / rows) ** 0.5 <= limit:
        return None
    several = np.bincount(place, sample.n)[place] > 1
    days, day = np.unique(sample.blocks, return_inverse=True)
    by_day = np.bincount(day, sample.n * several, len(days)) / np.bincount(day, sample.n, len(days))
    enough = len(days) >= _FEW_DAYS or share * rows > usual * present
    outcome = Outcome.FAIL if np.mean(by_day > limit) >= _HALF and enough else Outcome.WARN
    sentence = (
        f"`{feature.name}`: {100 * share:.1f} % of the rows repeat the value of another row, "
        f"{100 * usual:.1f} % did in the whole of training (ids that are used again?)"
    )
    cause = {"kind": REUSED, "share": round(share, 4)}
    return Finding(CHECK, feature.name, outcome, sentence, number=share, limit=limit, cause=cause)
