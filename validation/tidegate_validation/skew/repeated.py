"""Are there rows twice: sent again, joined wrongly, or logged twice. A finding about the rows, not about a feature."""

from __future__ import annotations

import math

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.distance import block_distance
from tidegate_validation.skew.rule import SkewRule
from tidegate_validation.statistics.counting import count_repeated
from tidegate_validation.statistics.counts import REPEATED
from tidegate_validation.statistics.profile import Profile
from tidegate_validation.statistics.window import Window

SUBJECT = "rows"
CHECK = "repeated rows"


def repeated_rows(profile: Profile, window: Window, rule: SkewRule) -> list[Finding]:
    """A finding where more rows than in training repeat another one of their day, nothing where they do not.

    Rows without a time of their own repeat each other by nature, so nothing is said of them.
    """
    reference = profile.counts.get(REPEATED)
    if reference is None or window.event_time is None or profile.event_time is None:
        return []
    columns = [window.columns.get(one.name, one.name) for one in profile.inputs]
    present = [column for column in columns if column in window.types]
    if len(present) < len(columns):
        return []
    current = count_repeated(window.connection, window.relation, window.block, [*present, window.event_time])
    before, now = (float(part.of((1,)).sum()) / max(part.rows, 1) for part in (reference, current))
    distance = block_distance(reference, current, [(0,), (1,)])
    middle = (before + now) / 2
    limit = rule.missing_margin / math.sqrt(max(middle * (1 - middle), 1e-12))
    if now <= before or distance.p_value(limit) >= rule.alpha / 2:
        return []
    outcome = Outcome.FAIL if distance.block_robust else Outcome.WARN
    share = (now - before) / (1 - before)
    sentence = f"{100 * now:.1f} % of the rows repeat another row of their day, {100 * before:.1f} % did in training"
    cause = {"kind": "duplicated rows", "share": round(share, 4)}
    return [Finding(CHECK, SUBJECT, outcome, sentence, number=now - before, limit=rule.missing_margin, cause=cause)]
