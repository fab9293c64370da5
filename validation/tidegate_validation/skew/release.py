"""The skew gate of a release: was the candidate trained on data like those that are served?

The seasons move the training data of candidate and baseline away from what is served now; a release is refused only
where the candidate is further away than what it replaces.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.skew.columns.copied import CHECK as EQUAL
from tidegate_validation.skew.columns.growing import CHECK as GROWTH
from tidegate_validation.skew.columns.schema import CHECK as SCHEMA
from tidegate_validation.skew.columns.texts import CHECK as TEXT
from tidegate_validation.skew.columns.together import CHECK as TOGETHER
from tidegate_validation.skew.compare import Comparison, compare
from tidegate_validation.skew.diagnosis.cause import Cause
from tidegate_validation.skew.diagnosis.conversion import find_cause
from tidegate_validation.skew.finding import explain
from tidegate_validation.skew.measures.distance import BlockDistance
from tidegate_validation.skew.measures.numbers import FeatureNumbers
from tidegate_validation.skew.rule import SkewRule
from tidegate_validation.skew.trained_apart import trained_apart, would_list
from tidegate_validation.statistics.profile import FeatureProfile, Profile
from tidegate_validation.statistics.sample import ValueSample
from tidegate_validation.statistics.window import Window

_SAME_FACTOR = 0.02
_SAME_SHARE = 0.1
_MIDDLE = (0.25, 0.75)
_TRAINED = "the candidate's training values are"
_NO_BETTER = "no more so than for the version that serves now"


@dataclass(frozen=True, slots=True)
class Evidence:
    """A window of what is served, or of held-out data where nothing was served yet; `served` says which."""

    window: Window
    served: bool

    @property
    def words(self) -> str:
        """For sentences."""
        return "those that are served" if self.served else "those held out"


def release_findings(candidate: Profile, baseline: Profile | None, evidence: Evidence, rule: SkewRule) -> list[Finding]:
    """One finding per input of the candidate at least."""
    now = compare(candidate, evidence.window, rule)
    before = compare(baseline, evidence.window, rule) if baseline is not None else None
    found = [
        _judge(_Case(feature, candidate, baseline, now, before, evidence, rule), finding)
        for feature in candidate.inputs
        for finding in now.findings.get(feature.name, ())
    ]
    if baseline is None or before is None:
        return found
    return [*found, *trained_apart(candidate, baseline, before, evidence.window, evidence.words)]


@dataclass(frozen=True, slots=True)
class _Case:
    feature: FeatureProfile
    candidate: Profile
    baseline: Profile | None
    now: Comparison
    before: Comparison | None
    evidence: Evidence
    rule: SkewRule

    @property
    def name(self) -> str:
        return self.feature.name

    @property
    def known(self) -> FeatureProfile | None:
        """The same input of the baseline."""
        return self.baseline.features.get(self.name) if self.baseline is not None else None


def _judge(case: _Case, finding: Finding) -> Finding:
    if finding.check == SCHEMA:
        return _schema(case, finding)
    if finding.outcome is Outcome.FAIL:
        return _failing(case, finding)
    if finding.outcome is Outcome.INCONCLUSIVE:
        return _unclear(case, finding)
    if finding.outcome is Outcome.WARN and case.before is not None and not _worse(case, finding, None):
        return replace(finding, outcome=Outcome.PASS, sentence=f"{finding.sentence}; {_NO_BETTER}")
    return finding


def _schema(case: _Case, finding: Finding) -> Finding:
    """A column that is not served is new if the baseline does not take it; nobody can know yet what will be sent."""
    column = case.evidence.window.columns.get(case.name)
    if column in case.evidence.window.types:
        return finding
    if case.evidence.served and case.known is None:
        sentence = f"`{case.name}` is a new input: what will be served for it is not known yet"
        return replace(finding, outcome=Outcome.WARN, sentence=sentence)
    if case.evidence.served:
        return replace(finding, outcome=Outcome.WARN, sentence=f"`{case.name}` is not in the inference log")
    return replace(finding, sentence=f"`{case.name}`, an input of the candidate, is not in the held-out data")


def _failing(case: _Case, finding: Finding) -> Finding:
    cause = case.now.causes.get(case.name) if finding.cause else None
    cause = cause if cause is not None and cause.is_conversion else None
    told = cause.inverse() if cause is not None else None
    if told is not None:
        words = explain(told, who=_TRAINED, of=case.evidence.words)
        finding = replace(finding, sentence=f"`{case.name}`: {words}", cause=told.to_dict())
    if case.before is None:
        believed = cause is not None and cause.by_values
        return finding if believed else replace(finding, outcome=Outcome.WARN)
    if _worse(case, finding, cause):
        return finding
    return replace(finding, outcome=Outcome.WARN, sentence=f"{finding.sentence}; {_NO_BETTER}")


def _worse(case: _Case, finding: Finding, cause: Cause | None) -> bool:
    """Whether the baseline's own training is nearer to the window, by the measure that the finding is about."""
    before = case.before
    if before is not None and (finding.check in (TEXT, GROWTH) or case.name not in case.now.numbers):
        theirs = [one for one in before.findings.get(case.name, ()) if finding.check != TEXT or one.check == TEXT]
        return not theirs or theirs[0].outcome is not Outcome.FAIL
    if before is None or case.known is None or case.name not in before.numbers:
        return cause is not None and cause.by_values
    if cause is not None:
        return not _as_far(case, cause, before.causes.get(case.name))
    now, then = case.now.numbers[case.name], before.numbers[case.name]
    rule = case.rule
    if finding.check == "distribution":
        return now.distribution.delta > then.distribution.delta + rule.margin
    if finding.check == "missing":
        gaps = [abs(one.missing_shares.current - one.missing_shares.reference) for one in (now, then)]
        return gaps[0] > gaps[1] + rule.missing_margin
    apart = {"digits": (now.digits, then.digits), "sign": (_signs(now), _signs(then))}
    one, two = apart.get(finding.check, (None, None))
    if one is not None and two is not None:
        return one.delta > two.delta + rule.margin
    pairs = {"unseen": (now.unseen, then.unseen), "range": (now.far, then.far)}
    mine, other = pairs.get(finding.check, (None, None))
    if mine is not None and other is not None:
        return mine.share > other.share + rule.unseen_floor
    return _told_of_the_candidate_alone(case, finding, before)


def _as_far(case: _Case, cause: Cause, known: Cause | None) -> bool:
    """Whether what is served is at least as far from the baseline's training, by the same conversion: the same factor,
    no smaller an offset in the same direction, if it has one at all, and about as many rows or more."""
    if known is None or not known.is_conversion or known.factor * cause.factor <= 0:
        return False
    low, high = np.interp(_MIDDLE, case.feature.levels, case.feature.quantiles)
    further = (cause.offset - known.offset) * np.sign(cause.offset)
    return bool(
        abs(np.log(known.factor / cause.factor)) <= _SAME_FACTOR
        and further <= case.rule.margin * abs(cause.factor) * (high - low)
        and cause.share <= known.share + _SAME_SHARE
    )


def _signs(numbers: FeatureNumbers) -> BlockDistance | None:
    return None if numbers.signs is None else numbers.signs.distance


def _told_of_the_candidate_alone(case: _Case, finding: Finding, before: Comparison) -> bool:
    """Whether the baseline's training could tell it, and nothing is told of the baseline by the check that the finding
    is from, nor, where that is about the column's own values, fails by any other."""
    of_pairs = finding.check in (EQUAL, TOGETHER)
    return _baseline_can_tell(case, finding, before) and not any(
        one.check == finding.check or (not of_pairs and one.subject == case.name and one.outcome is Outcome.FAIL)
        for found in before.findings.values()
        for one in found
        if one.outcome in (Outcome.FAIL, Outcome.WARN) and f"`{case.name}`" in one.sentence
    )


def _baseline_can_tell(case: _Case, finding: Finding, before: Comparison) -> bool:
    """Whether the baseline's training was large enough, and long enough, for what the finding says."""
    if case.baseline is None:
        return False
    cause = finding.cause or {}
    if finding.check == EQUAL:
        other = cause.get("column")
        agreements = case.baseline.agreements
        return bool(agreements.columns) if other is None else agreements.of(case.name, other) is not None
    if finding.check == TOGETHER:
        others = {*cause.get("columns", ())}
        pairs = [one for one in case.candidate.pairs if others & {one.first, one.second} - {case.name}]
        pairs = [one for one in pairs if one.telling and case.name in (one.first, one.second)]
        pairs = [one for one in pairs if {one.first, one.second} <= case.baseline.counts.keys()]
        return not pairs or any(would_list(one, one.strength, case.baseline) for one in pairs)
    return before.numbers[case.name].distribution.block_robust


def _unclear(case: _Case, finding: Finding) -> Finding:
    """The window cannot tell; then it matters whether the candidate's training differs from the baseline's at all."""
    known = case.known
    if known is None:
        return replace(finding, outcome=Outcome.WARN)
    numbers = bool(known.quantiles and case.feature.quantiles)
    counts = case.candidate.counts[case.name]
    cause = find_cause(case.feature, counts, _sketch(known), margin=case.rule.margin) if numbers else None
    if cause is None or not cause.by_values:
        if _worse(case, finding, None):
            return replace(finding, outcome=Outcome.WARN)
        return replace(finding, outcome=Outcome.PASS, sentence=f"{finding.sentence}; {_NO_BETTER}")
    told = cause.inverse()
    words = explain(told, who=_TRAINED, of="those of the version that serves now")
    sentence = f"`{case.name}`: {words}, and too little was served to say which is right"
    return replace(finding, sentence=sentence, cause=told.to_dict())


def _sketch(feature: FeatureProfile) -> ValueSample:
    """The values that a profile still knows: all of them where they are few, else its quantiles."""
    if feature.support:
        values = np.array([value for value, _ in feature.support])
        n = np.array([count for _, count in feature.support], dtype=np.int64)
    else:
        values, n = np.array(feature.quantiles), np.ones(len(feature.quantiles), dtype=np.int64)
    return ValueSample(values, np.zeros(len(values), dtype=np.int64), n)
