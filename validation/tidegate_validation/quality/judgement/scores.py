"""Judges two sets of scores for the same examples: metrics, slices, thresholds, churn and calibration.

Nothing here asks a model, so whoever has scores from elsewhere can call it alone.
"""

from __future__ import annotations

from dataclasses import replace

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.quality.data.held_out import ScoredExamples
from tidegate_validation.quality.judgement.comparison import judge_against, judge_alone
from tidegate_validation.quality.judgement.order import judge_order
from tidegate_validation.quality.judgement.predictions import (
    judge_change,
    judge_collapse,
    judge_constant_slices,
    judge_decisions,
)
from tidegate_validation.quality.judgement.scale import judge_scale
from tidegate_validation.quality.judgement.thresholds import judge_thresholds
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.quality.slices.judge import judge_slices, partitions_by_policy


def judge_scores(scored: ScoredExamples, rule: QualityRule) -> list[Finding]:
    """All findings about the scores: what refuses a version whose classes are in another order, or whose scores have
    become decisions, begins with that. Raises InvalidInput for slices or metrics of the policy that cannot be.
    """
    partitions = partitions_by_policy(scored, rule)
    if scored.baseline is None:
        found = judge_alone(scored.evaluation, scored.candidate, scored.held_out.groups, rule)
    else:
        found = judge_against(scored, scored.baseline, rule)
        found += judge_slices(scored, scored.baseline, partitions, rule)
    collapsed = judge_collapse(scored, rule)
    found = [*(collapsed or judge_constant_slices(scored, partitions)), *found]
    found += judge_thresholds(scored.evaluation, scored.candidate, scored.baseline, partitions, rule)
    causes = judge_order(scored, rule) + judge_decisions(scored)
    if any(one.outcome is Outcome.FAIL for one in found):
        found, causes = [*(replace(one, outcome=Outcome.FAIL) for one in causes), *found], []
    return [*found, *causes, *judge_change(scored, rule), *judge_scale(scored)]
