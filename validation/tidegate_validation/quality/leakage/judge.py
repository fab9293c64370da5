"""Judges whether a candidate is better than an honest model could be, and if so, which input gives the label away."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.quality.data.held_out import ScoredExamples
from tidegate_validation.quality.evaluation import Evaluation, Task
from tidegate_validation.quality.leakage import finding as words
from tidegate_validation.quality.leakage.copies import copies
from tidegate_validation.quality.leakage.investigation import (
    CandidateModel,
    UnexpectedPower,
    investigate,
    power_without,
)
from tidegate_validation.quality.leakage.nudged import known_by_heart
from tidegate_validation.quality.leakage.partial import Answers, partial_leak
from tidegate_validation.quality.leakage.single_feature import single_feature_powers
from tidegate_validation.quality.metrics.gains import chance, power
from tidegate_validation.quality.rule import QualityRule, suspicious_power
from tidegate_validation.sandbox.examples import Examples

_ROWS = 20_000
_NUMBERS = 20_000_000
_FEWEST = 200
_MOST = 0.5


def judge_leakage(scored: ScoredExamples, model: CandidateModel, rule: QualityRule) -> Finding:
    """Whether the candidate is believable, and if not why."""
    evaluation = scored.evaluation
    reached = power(evaluation, scored.candidate)
    rows = evaluation.sample(max(min(_ROWS, _NUMBERS // model.width), _FEWEST))
    examples = model.examples(scored.held_out.table.take(rows))
    rows = rows[examples.rows]
    part = evaluation.take(rows)
    from_here = _scaled(evaluation, rule.single_feature_limit)

    def giveaway(name: str, alone: float) -> bool:
        return alone >= from_here and name not in rule.trusted

    told: dict[str, float] = {}
    if scored.baseline is not None:
        reference = power(evaluation, scored.baseline).value
        limit = suspicious_power(reference, rule)
    else:
        reference, limit = chance(evaluation), _scaled(evaluation, rule.first_limit)
        alone = single_feature_powers(part, examples.arrays, frozenset(examples.arrays.keys() - model.shared.keys()))
        told = {name: one for name, one in alone.items() if giveaway(name, one)}
    surely = reached.interval(rule.alpha)[0]
    if surely > limit or (told and surely > reference):
        unexpected = UnexpectedPower(reached.value, reference, lambda honest: suspicious_power(honest, rule), giveaway)
        suspicion = investigate(part, examples, unexpected, model)
        if surely > limit or (suspicion.suspect is not None and suspicion.suspect.name in told):
            against = reference if scored.baseline is not None else None
            found = words.too_good(evaluation, reached.value, against, limit, suspicion, rule)
            suspect = suspicion.suspect
            if suspicion.honest or (suspect is not None and giveaway(suspect.name, suspect.alone)):
                return found
            return _proven(_Doubt(part, examples, reference, told), model, rule) or found
    theirs = None if scored.baseline is None else scored.baseline[rows]
    leak = partial_leak(Answers(part, examples, scored.candidate[rows], theirs), model, rule)
    if leak is None and told:
        left = power_without(part, examples, model, told)
        return words.tells(evaluation, told, reached.value, left, rule)
    return leak or words.believable(evaluation, reached.value, limit)


@dataclass(frozen=True, slots=True)
class _Doubt:
    """A candidate that is too good by no one input that gives the label away: the rows looked at, the power that was
    expected, and the inputs that each tell the label."""

    evaluation: Evaluation
    examples: Examples
    reference: float
    told: Mapping[str, float]


def _proven(doubt: _Doubt, model: CandidateModel, rule: QualityRule) -> Finding | None:
    """Where it knows the examples by heart, or lives on inputs that each tell the label: copies of one that tells it
    nearly surely refuse it, and of those that were measured apart it is told."""
    evaluation, examples, told = doubt.evaluation, doubt.examples, doubt.told
    heart = known_by_heart(evaluation, examples, model, doubt.reference)
    if heart is not None:
        return words.by_heart(evaluation, heart)
    if len(told) < 2:
        return None
    same = copies(evaluation, examples.arrays, told)
    nearly_surely = told[same[0]] >= (1 + _scaled(evaluation, rule.first_limit)) / 2
    for names, outcome in ((same, Outcome.FAIL), (list(told), Outcome.WARN)):
        if len(names) < 2 or (outcome is Outcome.FAIL and not nearly_surely):
            continue
        left = power_without(evaluation, examples, model, names)
        if left is not None and left[0] - left[1] > _MOST * (left[0] - doubt.reference):
            return words.give_away(evaluation, {name: told[name] for name in names}, left, outcome)
    return None


def _scaled(evaluation: Evaluation, limit: float) -> float:
    """A limit on power; of a ranking, where much is reached by chance, that share of the way from chance to 1."""
    if evaluation.task != Task.RANKING:
        return limit
    guess = chance(evaluation)
    return guess + limit * (1 - guess)
