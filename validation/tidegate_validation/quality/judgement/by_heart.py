"""Judges the held-out rows that training did not hold by themselves, where it held others."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.quality.data.held_out import ScoredExamples
from tidegate_validation.quality.judgement.comparison import judge_against, judge_alone
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.statistics.arrays import Mask


def judge_unknown(scored: ScoredExamples, known: Mask, rule: QualityRule) -> list[Finding]:
    """What refuses the candidate on the rows that training did not hold, where these are enough: what it knows by heart
    hides there what it does not know; a WARN where a first version is not surely better than chance there. `known` are
    the others, shape [n]."""
    rows = np.flatnonzero(~known)
    rest = scored.take(rows)
    if rest.held_out.too_little(rule) is not None:
        return []
    outcomes = {Outcome.FAIL: Outcome.FAIL}
    if rest.baseline is None:
        outcomes[Outcome.INCONCLUSIVE] = Outcome.WARN
        found = judge_alone(rest.evaluation, rest.candidate, rest.held_out.groups, rule)
    else:
        found = judge_against(rest, rest.baseline, rule)
    sentence = f"{known.sum():,} of {len(known):,} held-out examples stand in the training data as well; on the others,"
    return [
        replace(one, check="by heart", outcome=outcomes[one.outcome], sentence=f"{sentence} {one.sentence}")
        for one in found
        if one.outcome in outcomes
    ]
