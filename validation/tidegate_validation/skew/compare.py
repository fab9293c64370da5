"""Compares a window of served examples with a training profile: schema first, then numbers, rule, cause and finding."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.diagnosis.cause import Cause, find_cause
from tidegate_validation.skew.diagnosis.sample import read_sample
from tidegate_validation.skew.finding import findings_of
from tidegate_validation.skew.numbers import FeatureNumbers, measure_feature
from tidegate_validation.skew.rule import Aspect, Judgement, SkewRule, judge
from tidegate_validation.skew.schema import compare_schema
from tidegate_validation.statistics.counting import count_relation
from tidegate_validation.statistics.counts import FeatureCounts
from tidegate_validation.statistics.profile import FeatureProfile, Profile
from tidegate_validation.statistics.window import Window


@dataclass(frozen=True, slots=True)
class Comparison:
    """All that is known about how a window differs from a profile; `findings` by feature, the gravest first."""

    rows: int
    findings: Mapping[str, Sequence[Finding]]
    numbers: Mapping[str, FeatureNumbers] = field(default_factory=dict)
    causes: Mapping[str, Cause] = field(default_factory=dict)
    counts: Mapping[str, FeatureCounts] = field(default_factory=dict)


def compare(profile: Profile, window: Window, rule: SkewRule) -> Comparison:
    """Compares the inputs of `profile` with the rows of a window, which must have some."""
    known = [name for name in (profile.label, profile.event_time) if name]
    schema = compare_schema(profile.inputs, window.types, window.columns, known)
    counts = count_relation(window.connection, window.relation, window.block, schema.comparable, window.columns)
    numbers = {
        feature.name: measure_feature(feature, profile.counts[feature.name], counts[feature.name])
        for feature in schema.comparable
    }
    judgements: dict[str, list[Judgement]] = {name: [] for name in numbers}
    for judgement in judge(list(numbers.values()), rule):
        judgements[judgement.feature].append(judgement)
    causes = {
        feature.name: cause
        for feature in schema.comparable
        if (cause := _cause(profile, feature, window, judgements[feature.name], rule)) is not None
    }
    findings: dict[str, list[Finding]] = {}
    for name, measured in numbers.items():
        findings[name] = findings_of(measured, judgements[name], causes.get(name), rule)
    for finding in schema.findings:
        findings.setdefault(finding.subject, []).append(finding)
    return Comparison(window.rows, findings, numbers, causes, counts)


def _cause(
    profile: Profile, feature: FeatureProfile, window: Window, judgements: Sequence[Judgement], rule: SkewRule
) -> Cause | None:
    about_values = [one.outcome for one in judgements if one.test not in (Aspect.MISSING, Aspect.INFINITE)]
    if all(outcome is Outcome.PASS for outcome in about_values) or not feature.family.numeric:
        return None
    column = window.columns.get(feature.name, feature.name)
    sample = read_sample(window.connection, window.relation, window.block, column, window.types[column])
    cause = find_cause(feature, profile.counts[feature.name], sample, margin=rule.margin)
    settled = all(outcome in (Outcome.PASS, Outcome.INCONCLUSIVE) for outcome in about_values)
    return None if cause is not None and settled and not cause.by_values else cause
