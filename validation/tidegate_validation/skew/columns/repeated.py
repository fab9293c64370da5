"""Are there rows twice: sent again, joined wrongly, or logged twice. A finding about the rows, not about a feature."""

from __future__ import annotations

import math

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.measures.distance import block_distance
from tidegate_validation.skew.measures.level import level_shift, normal_scores
from tidegate_validation.skew.measures.likeness import Timeline
from tidegate_validation.skew.rule import SkewRule
from tidegate_validation.statistics.counting import count_repeated
from tidegate_validation.statistics.counts import REPEATED, FeatureCounts
from tidegate_validation.statistics.profile import Profile
from tidegate_validation.statistics.rows import Rows
from tidegate_validation.statistics.window import Window

SUBJECT = "rows"
CHECK = "repeated rows"
_FEWEST_DAYS = 3
_SEVERAL_TIMES = 1.5
_MUCH = 0.02
"""One day or two do not say how days differ: more than twice as many, and two in a hundred besides, are not theirs."""


def columns_that_tell_rows(profile: Profile, window: Window) -> list[str]:
    """The columns of a window in which rows differ: all of training's and the time, none where one of them is missing.

    Rows without a time of their own repeat each other by nature, so nothing is said of them.
    """
    if REPEATED not in profile.counts or window.event_time is None or profile.event_time is None:
        return []
    columns = [window.columns.get(one.name, one.name) for one in profile.inputs]
    return [*columns, window.event_time] if all(one in window.types for one in columns) else []


def repeated_rows(profile: Profile, window: Window, read: Rows, rule: SkewRule) -> list[Finding]:
    """A finding where more rows than in training repeat another one of their day, nothing where they do not; `read` are
    the window's rows."""
    columns = columns_that_tell_rows(profile, window)
    if not columns:
        return []
    reference = profile.counts[REPEATED]
    current = count_repeated(window.connection, window.relation, window.block, columns, read, window.rows)
    before, now = (float(part.of((1,)).sum()) / max(part.rows, 1) for part in (reference, current))
    distance = block_distance(reference, current, [(0,), (1,)])
    few = len(reference.blocks) < _FEWEST_DAYS
    margin = max(rule.missing_margin, _SEVERAL_TIMES * before + _MUCH) if few and before > 0 else rule.missing_margin
    middle = (before + now) / 2
    p_value = distance.p_value(margin / math.sqrt(max(middle * (1 - middle), 1e-12)))
    if not distance.block_robust and not few:
        p_value = max(p_value, _by_days(reference, current, rule.missing_margin))
    if now <= before or p_value >= rule.alpha / 2:
        return []
    outcome = Outcome.FAIL if distance.block_robust else Outcome.WARN
    share = (now - before) / (1 - before)
    sentence = f"{100 * now:.1f} % of the rows repeat another row of their day, {100 * before:.1f} % did in training"
    cause = {"kind": "duplicated rows", "share": round(share, 4)}
    return [Finding(CHECK, SUBJECT, outcome, sentence, number=now - before, limit=rule.missing_margin, cause=cause)]


def _by_days(reference: FeatureCounts, current: FeatureCounts, margin: float) -> float:
    """P-value of so many more, where training's few days say how days differ; 0 where training had none at all, so that
    only rows count.
    """
    ref, cur = (
        np.stack([part.of((code,)) for code in (0, 1)], axis=1).astype(np.float64) for part in (reference, current)
    )
    if not ref[:, 1].any():
        return 0.0
    days = (part.blocks.astype(np.float64) for part in (reference, current))
    line = Timeline.of(next(days), ref.sum(axis=1), next(days), cur.sum(axis=1))
    low, high = normal_scores(ref)
    return level_shift(ref, cur, line).p_value(margin * float(high - low))
