"""Judges the thresholds that a policy sets on single metrics, on all examples and on slices.

`gate` hands in scores and slices; findings come back, one per threshold and slice. A slice or metric that is not there
fails, as in TensorFlow Model Analysis; without a baseline limits on changes are left out.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tidegate_serving.admission.verdict import Finding, Outcome
from tidegate_validation.quality.catalogue import Metric, canonical, metrics_for
from tidegate_validation.quality.compared import gain_of, value_of
from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.finding import EVERYTHING, finite, known
from tidegate_validation.quality.metrics import Estimate, Floats, Groups
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.quality.slice_sets import Partition, whole_rows
from tidegate_validation.quality.thresholds import EVERY, HIGHER, Threshold, judge_change, judge_value

_WORDS = {
    Outcome.PASS: "keeps",
    Outcome.FAIL: "breaks",
    Outcome.INCONCLUSIVE: "may or may not keep",
}


@dataclass(frozen=True, slots=True)
class _Part:
    """One slice with both models' scores of its rows."""

    name: str
    evaluation: Evaluation
    candidate: Floats
    baseline: Floats | None


@dataclass(frozen=True, slots=True)
class _Judged:
    """A number held against a limit: its name, what came of it, and the limit, also in words."""

    name: str
    outcome: Outcome
    estimate: Estimate
    limit: float | None
    words: str


def judge_thresholds(
    evaluation: Evaluation,
    candidate: Floats,
    baseline: Floats | None,
    partitions: Sequence[Partition],
    rule: QualityRule,
) -> list[Finding]:
    """A finding for each threshold and slice that it names."""
    places = {
        name: (partition, place)
        for partition in partitions
        for place, name in enumerate(partition.names)
        if partition.rows()[place]
    }
    found: list[Finding] = []
    for threshold in rule.thresholds:
        if threshold.changes and baseline is None and threshold.lower is None and threshold.upper is None:
            continue
        names = _names(threshold, places, rule)
        if not names:
            found.append(_missing_slice(threshold))
        for name in names:
            rows = np.arange(len(evaluation))
            if name:
                partition, place = places[name]
                rows = whole_rows(partition.codes == place, evaluation)
            part = _part(name, evaluation, candidate, baseline, rows)
            found += _judge(threshold, part, rule)
    return found


def _names(threshold: Threshold, places: Mapping[str, tuple[Partition, int]], rule: QualityRule) -> list[str]:
    if threshold.slice == EVERY:
        return [name for name, (partition, place) in places.items() if partition.rows()[place] >= rule.slice_rows]
    if not threshold.slice:
        return [""]
    return [threshold.slice] if threshold.slice in places else []


def _part(name: str, evaluation: Evaluation, candidate: Floats, baseline: Floats | None, rows: Groups) -> _Part:
    theirs = None if baseline is None else baseline[rows]
    return _Part(name or EVERYTHING, evaluation.take(rows), candidate[rows], theirs)


def _judge(threshold: Threshold, part: _Part, rule: QualityRule) -> list[Finding]:
    metric = next((one for one in _metrics(part) if one.name == canonical(threshold.metric)), None)
    if metric is None:
        sentence = f"the policy limits {threshold.metric}, which the predictions for {part.name} do not allow to tell"
        return [Finding("threshold", part.name, Outcome.FAIL, sentence)]
    found = []
    if threshold.lower is not None or threshold.upper is not None:
        value = value_of(metric, part.evaluation, part.candidate)
        outcome = judge_value(threshold, value, rule.alpha)
        limit = threshold.lower if threshold.lower is not None else threshold.upper
        found.append(_finding(_Judged(metric.name, outcome, value, limit, _span(threshold)), part, threshold, rule))
    for relative, bound in ((False, threshold.absolute), (True, threshold.relative)):
        if part.baseline is not None and bound is not None:
            change = _change(metric, part, part.baseline, relative=relative)
            side = "at least" if threshold.direction == HIGHER else "at most"
            words = f"{side} {bound:+g}" + (" of the baseline's" if relative else "")
            outcome = judge_change(threshold, bound, change, rule.alpha)
            judged = _Judged(f"the change of {metric.name}", outcome, change, bound, words)
            found.append(_finding(judged, part, threshold, rule))
    return found


def _metrics(part: _Part) -> list[Metric]:
    return metrics_for(part.evaluation, [one for one in (part.candidate, part.baseline) if one is not None])


def _change(metric: Metric, part: _Part, baseline: Floats, *, relative: bool) -> Estimate:
    """Candidate minus baseline, as it stands: not turned round for metrics of which less is better."""
    gain = gain_of(metric, part.evaluation, part.candidate, baseline, relative).gain
    return gain if metric.higher else Estimate(-gain.value, gain.error, gain.freedom)


def _span(threshold: Threshold) -> str:
    if threshold.upper is None:
        return f"at least {threshold.lower:g}"
    return f"at most {threshold.upper:g}" if threshold.lower is None else f"{threshold.lower:g} to {threshold.upper:g}"


def _finding(judged: _Judged, part: _Part, threshold: Threshold, rule: QualityRule) -> Finding:
    low, high = judged.estimate.interval(rule.alpha)
    sure = "by its point estimate" if threshold.point_estimate else f"{low:.4g} to {high:.4g}"
    value = f"{judged.name} on {part.name} is {judged.estimate.value:.4g} ({sure})"
    sentence = f"{value} and {_WORDS[judged.outcome]} the policy's limit, {judged.words}"
    detectable = judged.estimate.detectable(rule.alpha)
    if judged.outcome is Outcome.INCONCLUSIVE:
        sentence += "; hold out more examples, or set point_estimate for this threshold"
    return Finding(
        "threshold",
        f"{part.name}: {threshold.metric}",
        judged.outcome,
        sentence,
        number=known(judged.estimate.value),
        interval=finite(low, high),
        limit=judged.limit,
        smallest_detectable=known(detectable),
        rule="quality.thresholds",
    )


def _missing_slice(threshold: Threshold) -> Finding:
    sentence = (
        f"the policy limits {threshold.metric} where `{threshold.slice}`, and no held-out example is there: correct "
        "the slice's name, or add its column to slice_columns"
    )
    return Finding("threshold", threshold.slice, Outcome.FAIL, sentence)
