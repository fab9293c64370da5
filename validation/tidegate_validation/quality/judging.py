"""Everything that two sets of scores for the same examples say: metrics, slices, thresholds, churn and calibration.

`gate` calls it once it has asked the models; whoever has scores from elsewhere can call it alone.
"""

from __future__ import annotations

from dataclasses import dataclass

from tidegate_serving.admission.verdict import Finding, Outcome
from tidegate_validation.quality import drift, slice_finding
from tidegate_validation.quality import prediction_finding as words
from tidegate_validation.quality.blame import blame
from tidegate_validation.quality.bounds import judge_thresholds
from tidegate_validation.quality.calibration import recalibration
from tidegate_validation.quality.compared import losses_of
from tidegate_validation.quality.comparison import judge_against, judge_alone
from tidegate_validation.quality.evaluation import Evaluation, Task, is_probability
from tidegate_validation.quality.held_out import HeldOut
from tidegate_validation.quality.metrics import Floats
from tidegate_validation.quality.rule import QualityRule, slice_outcome
from tidegate_validation.quality.search import Losses, search
from tidegate_validation.quality.slice_sets import (
    Partition,
    asked_columns,
    conditions_of,
    crosses_of,
    partitions_of,
)
from tidegate_validation.quality.slices import Tested, adjusted, gains_by_slice, slice_metrics

_FINE = 8
_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Scored:
    """Held-out rows with the candidate's scores, and the baseline's where there is one; `inputs` are columns that the
    candidate reads, cut into slices where the policy names none.
    """

    held_out: HeldOut
    candidate: Floats
    baseline: Floats | None
    inputs: tuple[str, ...] = ()

    @property
    def evaluation(self) -> Evaluation:
        """What scores are held against."""
        return self.held_out.evaluation


def judge_scores(scored: Scored, rule: QualityRule) -> list[Finding]:
    """All findings about the scores. Raises InvalidInput for slices or metrics of the policy that cannot be."""
    evaluation, candidate, baseline = scored.evaluation, scored.candidate, scored.baseline
    partitions = _partitions(scored, rule)
    if baseline is None:
        found = judge_alone(evaluation, candidate, scored.held_out.groups, rule)
    else:
        found = judge_against(evaluation, candidate, baseline, scored.held_out.groups, rule)
        found += _slices(scored, baseline, partitions, rule)
    found = [*_collapse(scored, rule), *found]
    found += judge_thresholds(evaluation, candidate, baseline, partitions, rule)
    if baseline is not None:
        found.append(words.churned(evaluation.task, drift.churn(evaluation, candidate, baseline), rule))
        if is_probability(candidate) == is_probability(baseline):
            found.append(words.shifted(drift.shift(evaluation, candidate, baseline)))
    return found + _calibration(scored, rule)


def _partitions(scored: Scored, rule: QualityRule) -> list[Partition]:
    table, evaluation = scored.held_out.table, scored.evaluation
    asked = [*conditions_of(table, evaluation, rule.sql), *crosses_of(table, evaluation, rule.crosses)]
    if rule.slice_columns:
        return asked + asked_columns(table, evaluation, rule.slice_columns)
    return asked + partitions_of(table, evaluation, _columns(scored))


def _columns(scored: Scored) -> list[str]:
    return [name for name in scored.inputs if name in scored.held_out.table.column_names]


def _slices(scored: Scored, baseline: Floats, partitions: list[Partition], rule: QualityRule) -> list[Finding]:
    tested = gains_by_slice(scored.evaluation, scored.candidate, baseline, partitions, rule)
    left_out = max(len(tested) - rule.max_slices, 0)
    slices = adjusted([*tested[: rule.max_slices], *_searched(scored, baseline, rule)], rule)
    outcomes = {
        one.name: slice_outcome(one.p_margin, one.p_worse, one.gain.gain.value, one.margin, rule.alpha)
        for one in slices
    }
    worse = [one for one in slices if outcomes[one.name] is not Outcome.PASS]
    blamed = blame(worse, scored.evaluation, scored.candidate, baseline, rule.alpha)
    found = [slice_finding.worse_slice(one, outcomes[one.slice.name], rule) for one in blamed[:_SHOWN]]
    if len(blamed) > _SHOWN:
        rest = [one.slice.name for one in blamed[_SHOWN:]]
        found.append(slice_finding.more_slices(rest, max(outcomes[name] is Outcome.FAIL for name in rest)))
    if slices and not any(one.outcome is Outcome.FAIL for one in found):
        found.append(slice_finding.no_worse_slice(slices, left_out, rule))
    if slices:
        found.append(slice_finding.slice_table(slices, outcomes, rule))
    empty = [
        name
        for partition in partitions
        if partition.asked and len(partition.names) == 1
        for name, rows in zip(partition.names, partition.rows(), strict=True)
        if rows < rule.slice_rows
    ]
    return found + ([slice_finding.empty_slices(empty, rule)] if empty else [])


def _searched(scored: Scored, baseline: Floats, rule: QualityRule) -> list[Tested]:
    """Regions found by the search, judged by the first metric that is a mean."""
    evaluation = scored.evaluation
    means = [metric for metric in slice_metrics(evaluation, scored.candidate, baseline) if metric.whole is None]
    if not means or rule.auto_slices <= 0:
        return []
    columns = rule.slice_columns or _columns(scored)
    fine = partitions_of(scored.held_out.table, evaluation, columns, bins=_FINE)
    metric = means[-1]
    above, below = losses_of(metric, evaluation, scored.candidate, baseline)
    groups = evaluation.groups[evaluation.units()]
    return search(Losses(metric, above, below, groups, evaluation.clustered), fine, rule)


def _collapse(scored: Scored, rule: QualityRule) -> list[Finding]:
    found = drift.collapse(scored.evaluation, scored.candidate, scored.baseline)
    if drift.nearly_constant(found) and found.share <= rule.collapse:
        return [words.collapsed(found, Outcome.FAIL, rule)]
    if found.share <= rule.collapse or (found.spread is None and found.before > rule.collapse):
        return []
    return [words.collapsed(found, Outcome.WARN if found.before > rule.usual * rule.collapse else Outcome.FAIL, rule)]


def _calibration(scored: Scored, rule: QualityRule) -> list[Finding]:
    evaluation = scored.evaluation
    if evaluation.task != Task.BINARY or not is_probability(scored.candidate):
        return []
    line = recalibration(evaluation, scored.candidate)
    if line is None:
        return []
    usable = scored.baseline is not None and is_probability(scored.baseline)
    before = recalibration(evaluation, scored.baseline) if usable and scored.baseline is not None else None
    return [words.calibrated(line, before, rule)]
