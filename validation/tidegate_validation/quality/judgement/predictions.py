"""Judges the predictions themselves: collapse to one answer, churn and shift against the baseline, calibration."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.quality.data.held_out import ScoredExamples
from tidegate_validation.quality.evaluation import Task, is_hard, is_probability
from tidegate_validation.quality.judgement import finding as words
from tidegate_validation.quality.metrics.calibration import excess, recalibration
from tidegate_validation.quality.metrics.prediction_change import (
    churn,
    collapse,
    constant_within,
    nearly_constant,
    shift,
)
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.quality.slices.partitions import FEW, Partition

_FAR_OFF = 0.15
"""Of the rarer class' share."""


def judge_collapse(scored: ScoredExamples, rule: QualityRule) -> list[Finding]:
    """A finding where the candidate gives nearly one answer only; a WARN where that was nearly so before."""
    found = collapse(scored.evaluation, scored.candidate, scored.baseline)
    if nearly_constant(found) and found.share <= rule.collapse:
        return [words.collapsed(found, Outcome.FAIL, rule)]
    if found.share <= rule.collapse or (found.spread is None and found.before > rule.collapse):
        return []
    return [words.collapsed(found, Outcome.WARN if found.before > rule.usual * rule.collapse else Outcome.FAIL, rule)]


def judge_constant_slices(scored: ScoredExamples, partitions: Sequence[Partition]) -> list[Finding]:
    """A WARN for each slice, however few its examples, in which the candidate alone gives one answer only."""
    evaluation, candidate, baseline = scored.evaluation, scored.candidate, scored.baseline
    if baseline is None or candidate.ndim > 1 or evaluation.task == Task.RANKING or is_hard(candidate):
        return []
    return [
        words.constant_slice(partition.names[code], rows, answer)
        for partition in partitions
        for code, rows, answer in constant_within(evaluation, candidate, baseline, partition.codes, FEW)
    ]


def judge_decisions(scored: ScoredExamples) -> list[Finding]:
    """A WARN where the candidate is to answer scores, as the baseline does, and answers 0 and 1 alone."""
    baseline, classes = scored.baseline, scored.evaluation.task in (Task.BINARY, Task.MULTICLASS)
    if baseline is None or scored.labels or not classes or is_hard(baseline) or not is_hard(scored.candidate):
        return []
    return [words.only_decisions()]


def judge_change(scored: ScoredExamples, rule: QualityRule) -> list[Finding]:
    """How far predictions moved from the baseline's, and the candidate's calibration where scores are probabilities."""
    evaluation, candidate, baseline = scored.evaluation, scored.candidate, scored.baseline
    found = []
    if baseline is not None:
        found.append(words.churned(evaluation.task, churn(evaluation, candidate, baseline), rule))
        if is_probability(candidate) == is_probability(baseline):
            found.append(words.shifted(shift(evaluation, candidate, baseline)))
    if evaluation.task == Task.BINARY and is_probability(candidate):
        line = recalibration(evaluation, candidate)
        if line is not None:
            usable = baseline is not None and is_probability(baseline)
            before = recalibration(evaluation, baseline) if usable and baseline is not None else None
            found.append(words.calibrated(line, before, rule))
    return [*found, *_on_the_whole(scored, rule)]


def _on_the_whole(scored: ScoredExamples, rule: QualityRule) -> list[Finding]:
    """A WARN where probabilities are surely too high or too low in the mean, which the baseline's are not."""
    evaluation, candidate, baseline = scored.evaluation, scored.candidate, scored.baseline
    if baseline is None or evaluation.task != Task.BINARY:
        return []
    if not all(is_probability(one) and not is_hard(one) for one in (candidate, baseline)):
        return []
    mine, before = (excess(evaluation, one).estimate() for one in (candidate, baseline))
    share = float(evaluation.labels.mean())
    low, high = mine.interval(rule.alpha)
    far = max(low, -high) > _FAR_OFF * min(share, 1 - share)
    if not far or abs(before.value) > abs(mine.value) / 2:
        return []
    return [words.off_on_the_whole(mine, before, share, rule)]
