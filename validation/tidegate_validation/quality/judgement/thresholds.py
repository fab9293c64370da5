"""Judges the thresholds that a policy sets on single metrics, on all examples and on slices.

As in TensorFlow Model Analysis, a slice or metric that is not there fails, and without a baseline limits on changes are
left out. Unlike there, a limit inside the interval is open, unless the threshold asks for point estimates.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.metrics.catalogue import Metric, canonical, metrics_for
from tidegate_validation.quality.metrics.gains import EVERYTHING, gain_of, value_of
from tidegate_validation.quality.metrics.margins import Margin
from tidegate_validation.quality.rule import EVERY, HIGHER, QualityRule, Threshold
from tidegate_validation.quality.slices.gains import members_of
from tidegate_validation.quality.slices.partitions import Partition, whole_rows
from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.jackknife import Estimate
from tidegate_validation.statistics.numbers import finite_or_none

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

    def few(self, rule: QualityRule) -> bool:
        """Whether it is a slice of too few entities or days to say anything of."""
        members = members_of(np.ones(len(self.evaluation.units()), dtype=bool), self.evaluation)
        return self.name != EVERYTHING and members is not None and members < rule.slice_groups


@dataclass(frozen=True, slots=True)
class _Limit:
    """A number and the limit on it, also in words, with what came of it."""

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
    slices = {
        name: (partition.codes == place, int(rows))
        for partition in partitions
        for place, (name, rows) in enumerate(zip(partition.names, partition.rows(), strict=True))
        if rows
    }
    found: list[Finding] = []
    for threshold in rule.thresholds:
        if threshold.changes and baseline is None and threshold.lower is None and threshold.upper is None:
            continue
        names = _names(threshold, {name: rows for name, (_, rows) in slices.items()}, rule)
        if not names:
            found.append(_missing_slice(threshold))
        for name in names:
            rows = whole_rows(slices[name][0], evaluation) if name else np.arange(len(evaluation))
            part = _part(name, evaluation, candidate, baseline, rows)
            found += _judge(threshold, part, rule)
    return found


def judge_value(threshold: Threshold, value: Estimate, alpha: float) -> Outcome:
    """Whether a metric keeps within lower and upper. NaN fails."""
    low = -math.inf if threshold.lower is None else threshold.lower
    high = math.inf if threshold.upper is None else threshold.upper
    return _within(value, low, high, threshold.point_estimate, alpha)


def judge_change(threshold: Threshold, limit: float, change: Estimate, alpha: float) -> Outcome:
    """Whether candidate minus baseline keeps to the limit, `absolute` or `relative`. NaN fails."""
    low, high = (limit, math.inf) if threshold.direction == HIGHER else (-math.inf, limit)
    return _within(change, low, high, threshold.point_estimate, alpha)


def _within(estimate: Estimate, low: float, high: float, point: bool, alpha: float) -> Outcome:
    if math.isnan(estimate.value):
        return Outcome.FAIL
    least, most = (estimate.value, estimate.value) if point else estimate.interval(alpha)
    if math.isnan(least) or math.isnan(most):
        return Outcome.INCONCLUSIVE
    if most < low or least > high:
        return Outcome.FAIL
    return Outcome.PASS if low <= least and most <= high else Outcome.INCONCLUSIVE


def _names(threshold: Threshold, rows: Mapping[str, int], rule: QualityRule) -> list[str]:
    """Names of the slices that a threshold is about; the empty name is all examples."""
    if threshold.slice == EVERY:
        return [name for name, count in rows.items() if count >= rule.slice_rows]
    return [threshold.slice] if not threshold.slice or threshold.slice in rows else []


def _part(name: str, evaluation: Evaluation, candidate: Floats, baseline: Floats | None, rows: Integers) -> _Part:
    theirs = None if baseline is None else baseline[rows]
    return _Part(name or EVERYTHING, evaluation.take(rows), candidate[rows], theirs)


def _judge(threshold: Threshold, part: _Part, rule: QualityRule) -> list[Finding]:
    scores = [one for one in (part.candidate, part.baseline) if one is not None]
    known = {metric.name: metric for metric in metrics_for(part.evaluation, scores)}
    metric = known.get(canonical(threshold.metric))
    if metric is None:
        sentence = f"the policy limits {threshold.metric}, which the predictions for {part.name} do not allow to tell"
        return [Finding("threshold", part.name, Outcome.FAIL, sentence)]
    limits = _limits(metric, threshold, part, rule.alpha)
    if not threshold.point_estimate and part.few(rule):
        limits = (replace(limit, outcome=Outcome.INCONCLUSIVE) for limit in limits)
    return [_finding(limit, part, threshold, rule) for limit in limits]


def _limits(metric: Metric, threshold: Threshold, part: _Part, alpha: float) -> Iterator[_Limit]:
    """The threshold's limits on the value, then on the change where there is a baseline."""
    if threshold.lower is not None or threshold.upper is not None:
        value = value_of(metric, part.evaluation, part.candidate)
        limit = threshold.lower if threshold.lower is not None else threshold.upper
        yield _Limit(metric.name, judge_value(threshold, value, alpha), value, limit, _span(threshold))
    for relative, bound in ((False, threshold.absolute), (True, threshold.relative)):
        if part.baseline is not None and bound is not None:
            change = _change(metric, part, part.baseline, relative=relative)
            side = "at least" if threshold.direction == HIGHER else "at most"
            words = f"{side} {bound:+g}" + (" of the baseline's" if relative else "")
            outcome = judge_change(threshold, bound, change, alpha)
            yield _Limit(f"the change of {metric.name}", outcome, change, bound, words)


def _change(metric: Metric, part: _Part, baseline: Floats, *, relative: bool) -> Estimate:
    """Candidate minus baseline, as it stands: not turned round for metrics of which less is better."""
    gain = gain_of(metric, part.evaluation, part.candidate, baseline, Margin(0.0, relative)).gain
    return gain if metric.higher else Estimate(-gain.value, gain.error, gain.freedom)


def _span(threshold: Threshold) -> str:
    if threshold.upper is None:
        return f"at least {threshold.lower:g}"
    return f"at most {threshold.upper:g}" if threshold.lower is None else f"{threshold.lower:g} to {threshold.upper:g}"


def _finding(limit: _Limit, part: _Part, threshold: Threshold, rule: QualityRule) -> Finding:
    low, high = limit.estimate.interval(rule.alpha)
    sure = "by its point estimate" if threshold.point_estimate else f"{low:.4g} to {high:.4g}"
    value = f"{limit.name} on {part.name} is {limit.estimate.value:.4g} ({sure})"
    sentence = f"{value} and {_WORDS[limit.outcome]} the policy's limit, {limit.words}"
    if limit.outcome is Outcome.INCONCLUSIVE:
        sentence += "; hold out more examples, or set point_estimate for this threshold"
    return Finding(
        "threshold",
        f"{part.name}: {threshold.metric}",
        limit.outcome,
        sentence,
        number=finite_or_none(limit.estimate.value),
        interval=limit.estimate.finite_interval(rule.alpha),
        limit=limit.limit,
        smallest_detectable=finite_or_none(limit.estimate.detectable(rule.alpha)),
        rule="quality.thresholds",
    )


def _missing_slice(threshold: Threshold) -> Finding:
    sentence = (
        f"the policy limits {threshold.metric} where `{threshold.slice}`, and no held-out example is there: correct "
        "the slice's name, or add its column to slice_columns"
    )
    return Finding("threshold", threshold.slice, Outcome.FAIL, sentence)
