"""Judges slices: those of columns, crosses, SQL conditions and a search; one finding per slice that is worse."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.outcomes import worst
from tidegate_validation.quality.allowance import Allowance
from tidegate_validation.quality.data.held_out import ScoredExamples
from tidegate_validation.quality.evaluation import Evaluation, is_hard, is_probability
from tidegate_validation.quality.metrics.gains import Gain
from tidegate_validation.quality.rule import QualityRule, slice_outcome
from tidegate_validation.quality.slices import finding as words
from tidegate_validation.quality.slices.attribution import Attribution, attribute_losses
from tidegate_validation.quality.slices.examples import worst_examples
from tidegate_validation.quality.slices.gains import (
    SliceGains,
    SliceTest,
    gain_within,
    gains_by_slice,
    members_of,
    slice_metrics,
    tested_slices,
)
from tidegate_validation.quality.slices.partitions import (
    Partition,
    conditions_of,
    crosses_of,
    partitions_of,
    ranges_of,
    requested_columns,
    text_partitions_of,
)
from tidegate_validation.quality.slices.search import Losses, search
from tidegate_validation.statistics.arrays import Floats, Mask

_FINE = 8
_FEWEST = 30
_PAIRED = 12
_DEFAULTS = QualityRule()
_SHOWN = 5


def partitions_by_policy(scored: ScoredExamples, rule: QualityRule) -> list[Partition]:
    """The slices that the policy names, and those of the candidate's inputs where it names no columns.

    InvalidInput for slices of the policy that cannot be.
    """
    table, evaluation = scored.held_out.table, scored.evaluation
    requested = [*conditions_of(table, evaluation, rule.sql), *crosses_of(table, evaluation, rule.crosses)]
    columns = rule.slice_columns or _columns(scored)
    ranges = ranges_of(table, evaluation, columns, rule.slice_rows)
    if rule.slice_columns:
        return requested + requested_columns(table, evaluation, columns) + ranges
    texts = text_partitions_of(table, evaluation, columns)
    return requested + partitions_of(table, evaluation, columns) + ranges + texts


def judge_slices(
    scored: ScoredExamples, baseline: Floats, partitions: Sequence[Partition], rule: QualityRule
) -> list[Finding]:
    """The slices that are worse in their own right, that none is, a table of all, and those without enough rows."""
    if _by_accuracy(scored, baseline, rule):
        rule = replace(rule, metrics=("accuracy",))
    measured = gains_by_slice(scored.evaluation, scored.candidate, baseline, partitions, rule)
    left_out = max(len(measured) - rule.max_slices, 0)
    known = [*measured[: rule.max_slices], *_searched(scored, baseline, rule)]
    few = [one for one in known if one.members is not None and one.members < rule.slice_groups]
    slices = tested_slices([one for one in known if one not in few])
    outcomes = {
        one.name: slice_outcome(one.p_margin, one.p_worse, one.gain.gain.value, one.margin, rule.alpha)
        for one in slices
    }
    small = _small(scored, baseline, partitions, rule)
    outcomes |= {one.name: Outcome.WARN for one in small}
    worse = [one for one in (*slices, *small) if outcomes[one.name] is not Outcome.PASS]
    reasons = attribute_losses(worse, scored.evaluation, scored.candidate, baseline, rule.alpha)
    found = [
        _with_examples(words.worse_slice(one, _gravest(one, outcomes), rule), one, scored, baseline)
        for one in reasons[:_SHOWN]
    ]
    if len(reasons) > _SHOWN:
        rest = [one.slice.name for one in reasons[_SHOWN:]]
        found.append(words.more_slices(rest, any(outcomes[name] is Outcome.FAIL for name in rest)))
    if slices and not any(one.outcome is Outcome.FAIL for one in found):
        found.append(words.no_worse_slice(slices, left_out, rule))
    if slices:
        found.append(words.slice_table(slices, outcomes, rule))
    if few:
        found.append(words.few_members(few, scored.held_out.members, rule))
    empty = [
        name
        for partition in partitions
        if partition.requested and len(partition.names) == 1
        for name, rows in zip(partition.names, partition.rows(), strict=True)
        if rows < rule.slice_rows
    ]
    return found + ([words.empty_slices(empty, rule)] if empty else [])


def _by_accuracy(scored: ScoredExamples, baseline: Floats, rule: QualityRule) -> bool:
    """Whether labels that the candidate is to answer are held against probabilities: what these rank within a slice no
    label can, so that slices are judged as all examples are."""
    declared = scored.labels and is_hard(scored.candidate) and not rule.metrics
    return declared and is_probability(baseline) and not is_hard(baseline)


def _small(
    scored: ScoredExamples, baseline: Floats, partitions: Sequence[Partition], rule: QualityRule
) -> list[SliceTest]:
    """Slices of too few examples to refuse a version for, that are surely worse by more than their margin all the same:
    a rare category of which every answer is wrong, or a value of one column together with one of another.
    """
    lone = [one for one in partitions if len(one.names) > 1 and "*" not in one.column][:_PAIRED]
    pairs = [first.crossed(second) for first, second in itertools.combinations(lone, 2)]
    return [one for family in (partitions, pairs) for one in _surely_worse(scored, baseline, family, rule)]


def _surely_worse(
    scored: ScoredExamples, baseline: Floats, partitions: Sequence[Partition], rule: QualityRule
) -> list[SliceTest]:
    evaluation, candidate = scored.evaluation, scored.candidate
    last = slice_metrics(evaluation, candidate, baseline, rule)[-1:]
    every = gains_by_slice(evaluation, candidate, baseline, partitions, replace(rule, slice_rows=_FEWEST), last)
    small = [
        one for one in every if one.rows < rule.slice_rows and (one.members or rule.slice_groups) >= rule.slice_groups
    ]
    return [one for one in tested_slices(small) if one.p_margin < rule.alpha]


def _with_examples(finding: Finding, reason: Attribution, scored: ScoredExamples, baseline: Floats) -> Finding:
    shown = worst_examples(scored, baseline, reason.slice.slice.inside())
    return replace(finding, example={"examples": shown}) if shown else finding


def _gravest(reason: Attribution, outcomes: Mapping[str, Outcome]) -> Outcome:
    """A slice's own outcome, or that of a graver one that is worse because of it."""
    return worst([outcomes[name] for name in (reason.slice.name, *reason.explains)])


def _columns(scored: ScoredExamples) -> list[str]:
    return [name for name in scored.inputs if name in scored.held_out.table.column_names]


def _searched(scored: ScoredExamples, baseline: Floats, rule: QualityRule) -> list[SliceGains]:
    """Regions that a search proposes by the last metric that is a mean, judged by the last one that judges."""
    evaluation = scored.evaluation
    judging = slice_metrics(evaluation, scored.candidate, baseline, rule)
    means = [
        one for one in (*slice_metrics(evaluation, scored.candidate, baseline, _DEFAULTS), *judging) if not one.whole
    ]
    if not means or not judging or rule.auto_slices <= 0:
        return []
    columns = rule.slice_columns or _columns(scored)
    table = scored.held_out.table
    fine = partitions_of(table, evaluation, columns, bins=_FINE)
    fine += ranges_of(table, evaluation, columns, rule.slice_rows, bins=_FINE)
    margins = Allowance.of(evaluation, baseline, rule).slices

    def measure(units: Mask) -> Gain | None:
        return gain_within(judging[-1], evaluation, scored.candidate, baseline, margins, units)

    found = search(Losses.of(means[-1], evaluation, scored.candidate, baseline), fine, measure, rule)
    return [replace(one, members=_tested_members(one, evaluation)) for one in found]


def _tested_members(one: SliceGains, evaluation: Evaluation) -> int | None:
    """Half of its entities or days: the others proposed the region."""
    members = members_of(one.inside(), evaluation)
    return None if members is None else members // 2
