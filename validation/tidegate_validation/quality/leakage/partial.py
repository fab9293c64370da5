"""Judges whether an input gives the label away in a part of the rows, and whether the candidate lives on that."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate_serving.admission import Finding
from tidegate_validation.quality.evaluation import Evaluation, Task
from tidegate_validation.quality.leakage import finding as words
from tidegate_validation.quality.leakage.investigation import CandidateModel
from tidegate_validation.quality.leakage.parts import Part, parts_of
from tidegate_validation.quality.metrics.gains import chance, power
from tidegate_validation.quality.rule import QualityRule, suspicious_power
from tidegate_validation.sandbox.examples import Examples
from tidegate_validation.statistics.arrays import Floats, Integers, Mask

_MOST = 0.5
_ROWS = 6000
_TRIED = 12


@dataclass(frozen=True, slots=True)
class Answers:
    """Labels and inputs of the rows looked at, with both models' scores of them."""

    evaluation: Evaluation
    examples: Examples
    candidate: Floats
    baseline: Floats | None


def partial_leak(answers: Answers, model: CandidateModel, rule: QualityRule) -> Finding | None:
    """The leak that the candidate lives on in the most rows; None without one.

    It counts where the candidate is as good there as no honest model is (given the baseline), and loses most of that
    once the input is shuffled.
    """
    if answers.evaluation.task == Task.RANKING:
        return None

    def suspicious(inside: Mask) -> bool:
        return _gain(_pool(inside, answers.evaluation), answers, rule) is not None

    limits = rule.leak_share, rule.single_feature_limit
    parts = parts_of(answers.evaluation, answers.examples.arrays, *limits, suspicious)
    for part in sorted(parts, key=lambda one: -one.inside.sum())[:_TRIED]:
        if _lives_on(part, answers, model, rule):
            return words.partial(part.name, part.where, float(part.inside.mean()), part.alone, rule)
    return None


def _lives_on(part: Part, answers: Answers, model: CandidateModel, rule: QualityRule) -> bool:
    rows = _pool(part.inside, answers.evaluation)
    gain = _gain(rows, answers, rule)
    if gain is None:
        return False
    reached = power(answers.evaluation.take(rows), answers.candidate[rows]).value
    scores = model.score(_shuffled(part.name, answers.examples.take(rows)))
    return scores is not None and reached - power(answers.evaluation.take(rows), scores).value >= _MOST * gain


def _gain(rows: Integers, answers: Answers, rule: QualityRule) -> float | None:
    """What the candidate has above the baseline or chance in these rows, None where that is believable."""
    evaluation, baseline = answers.evaluation.take(rows), answers.baseline
    reached = power(evaluation, answers.candidate[rows])
    reference = chance(evaluation) if baseline is None else power(evaluation, baseline[rows]).value
    suspicious = rule.first_limit if baseline is None else suspicious_power(reference, rule)
    return reached.value - reference if reached.interval(rule.alpha)[0] > suspicious else None


def _pool(part: Mask, evaluation: Evaluation) -> Integers:
    """The part's rows, and where they are of one class those outside of the others: power needs more than one."""
    inside = part
    if evaluation.task != Task.REGRESSION and len(np.unique(evaluation.labels[part])) < 2:
        inside = part | ~np.isin(evaluation.labels, evaluation.labels[part])
    rows = np.flatnonzero(inside)
    if len(rows) <= _ROWS:
        return rows
    return np.sort(np.random.default_rng(13).choice(rows, _ROWS, replace=False))


def _shuffled(name: str, examples: Examples) -> Examples:
    array = examples.arrays[name]
    return examples.replaced(name, np.asarray(array[np.random.default_rng(5).permutation(len(array))]))
