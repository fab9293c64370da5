"""Judges the metrics on all examples: those that decide are tested against their margins, the others are kept."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.quality.allowance import Allowance
from tidegate_validation.quality.data.held_out import ScoredExamples
from tidegate_validation.quality.evaluation import Evaluation, Task, is_hard, is_probability
from tidegate_validation.quality.judgement import finding as words
from tidegate_validation.quality.judgement.finding import Basis
from tidegate_validation.quality.metrics.catalogue import DECIDING, Metric, canonical, metrics_for
from tidegate_validation.quality.metrics.gains import Gain, chance, compare_models, power, value_of
from tidegate_validation.quality.metrics.margins import Margins
from tidegate_validation.quality.rule import QualityRule, good_enough, not_inferior
from tidegate_validation.statistics.arrays import Floats
from tidegate_validation.statistics.false_discovery import benjamini_hochberg, rejection_level


def judge_against(scored: ScoredExamples, baseline: Floats, rule: QualityRule) -> list[Finding]:
    """The candidate against the baseline: deciding metrics first, then every metric's value."""
    evaluation, candidate = scored.evaluation, scored.candidate
    names, allowed = deciding(scored, baseline, rule), Allowance.of(evaluation, baseline, rule)

    def margins(metric: Metric) -> Margins:
        return allowed.deciding if metric.name in names else allowed.warning

    gains = {gain.metric: gain for gain in compare_models(evaluation, candidate, baseline, margins)}
    found = [words.missing_metric(name, evaluation.task) for name in names if name not in gains]
    found += _decide(
        [gains[name] for name in names if name in gains],
        Basis(
            len(evaluation.units()),
            scored.held_out.groups,
            "queries" if evaluation.task == Task.RANKING else "examples",
        ),
        rule,
    )
    if evaluation.task in (Task.BINARY, Task.MULTICLASS) and is_probability(baseline) and not is_probability(candidate):
        found.append(words.no_probability(candidate))
    others = [gain for name, gain in gains.items() if name not in names]
    p_values = [gain.gain.p_below(-gain.margin) for gain in others]
    surely = dict(zip([gain.metric for gain in others], benjamini_hochberg(p_values), strict=True))
    for name, gain in gains.items():
        if gain.own is not None:
            p_value = surely.get(name, 1.0)
            warned = p_value if p_value < rule.alpha else None
            found.append(words.metric_value(name, gain.own, gain, warned, rule))
    return found


def judge_alone(evaluation: Evaluation, candidate: Floats, groups: str, rule: QualityRule) -> list[Finding]:
    """A first version: held against chance, and its values kept."""
    guess = chance(evaluation)
    classes = evaluation.task in (Task.BINARY, Task.MULTICLASS)
    least = max(rule.least_power if classes else 2 * rule.least_power - 1, guess)
    strength = power(evaluation, candidate)
    outcome = good_enough(strength, least, rule.alpha)
    found = [words.first_version(evaluation, strength, least, outcome, groups, rule.alpha)]
    found += [
        words.metric_value(metric.name, value_of(metric, evaluation, candidate), None, None, rule)
        for metric in metrics_for(evaluation, [candidate])
    ]
    return [*found, words.rubber_stamp(sum(threshold.changes for threshold in rule.thresholds))]


def deciding(scored: ScoredExamples, baseline: Floats, rule: QualityRule) -> tuple[str, ...]:
    """Names of the metrics that decide: the policy's, else the task's that the scores allow. Decisions are compared by
    accuracy where the baseline makes them or the candidate is to answer labels: one that is to answer scores, and
    answers decisions, is held to what scores are."""
    evaluation = scored.evaluation
    if rule.metrics:
        return tuple(canonical(name) for name in rule.metrics)
    fitting = {metric.name for metric in metrics_for(evaluation, [scored.candidate, baseline])}
    decisions = is_hard(baseline) or (scored.labels and is_hard(scored.candidate))
    if decisions and evaluation.task in (Task.BINARY, Task.MULTICLASS):
        return ("accuracy",) if "accuracy" in fitting else ("AUC",)
    return tuple(name for name in DECIDING[evaluation.task] if name in fitting)


def _decide(gains: Sequence[Gain], basis: Basis, rule: QualityRule) -> list[Finding]:
    raw = [gain.gain.p_below(-gain.margin) for gain in gains]
    level, found = rejection_level(raw, rule.alpha), []
    for gain, p_value in zip(gains, benjamini_hochberg(raw), strict=True):
        outcome = not_inferior(gain.gain, gain.margin, rule.alpha, p_value)
        interval = gain.gain.interval(rule.alpha)[0], gain.gain.interval(level)[1]
        found.append(words.deciding_metric(gain, interval, outcome, p_value, basis, rule))
    order = (Outcome.FAIL, Outcome.INCONCLUSIVE, Outcome.PASS)
    return sorted(found, key=lambda one: order.index(one.outcome))
