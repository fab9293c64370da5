"""Says whether answers lie on another scale than the labels: percents for probabilities, another unit for numbers."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.quality.data.held_out import ScoredExamples
from tidegate_validation.quality.evaluation import Evaluation, Task, is_probability
from tidegate_validation.quality.metrics.gains import EVERYTHING, SERVING
from tidegate_validation.statistics.arrays import Floats

CHECK = "scale"
_LEAST_ROWS = 50
_MOST_LEFT = 0.25
"""Another scale explains the error where it leaves no more of it than this."""
_SIMPLER = 1.25
"""A factor or an offset alone will do where it leaves no more than this many times what both leave."""
_TELLING = 0.05
_USUAL = 0.02


@dataclass(frozen=True, slots=True)
class _Line:
    """Answers times `factor` plus `offset` leave the part `left` of the squared error of the answers themselves."""

    factor: float
    offset: float
    left: float


def judge_scale(scored: ScoredExamples) -> list[Finding]:
    """A WARN where answers are far better on another scale.

    Scores for classes that are no probabilities rank all the same; those of a first version that have no sign, as
    log-odds have, may be percents, or miss a sum of 1. Numbers are held against the labels, the baseline's answers
    beside them.
    """
    evaluation, candidate = scored.evaluation, scored.candidate
    if evaluation.task in (Task.BINARY, Task.MULTICLASS) and scored.baseline is None:
        return [_no_probabilities(candidate)] if candidate.min() >= 0 and not is_probability(candidate) else []
    line = _line(evaluation, candidate) if evaluation.task == Task.REGRESSION else None
    if line is None:
        return []
    before = None if scored.baseline is None else _line(evaluation, scored.baseline)
    return [_another_unit(line, before is not None and abs(before.factor / line.factor - 1) < _USUAL)]


def _line(evaluation: Evaluation, answers: Floats) -> _Line | None:
    """The simplest line on which answers fit the labels far better; None where none explains most of the error."""
    labels = evaluation.labels
    error = float(((labels - answers) ** 2).mean())
    if len(labels) < _LEAST_ROWS or error == 0 or not answers.std():
        return None
    slope = float(np.cov(answers, labels, bias=True)[0, 1] / answers.var())
    alone = float(answers @ labels / (answers @ answers))
    shift = float((labels - answers).mean())
    factor, offset, both = (
        _Line(factor, offset, float(((labels - factor * answers - offset) ** 2).mean()) / error)
        for factor, offset in ((alone, 0.0), (1.0, shift), (slope, float(labels.mean() - slope * answers.mean())))
    )
    found = next(one for one in (factor, offset, both) if one.left <= _SIMPLER * both.left)
    moved = abs(found.factor - 1) > _TELLING or abs(found.offset) > _TELLING * float(np.abs(labels).mean())
    return found if found.left <= _MOST_LEFT and found.factor > 0 and moved else None


def _no_probabilities(scores: Floats) -> Finding:
    low, high = float(scores.min()), float(scores.max())
    if scores.ndim == 2 and high <= 1:
        sums = scores.sum(axis=1)
        sentence = (
            f"its scores for the classes of an example add up to {sums.min():.3g} to {sums.max():.3g} and not to 1: "
            "they are no probabilities; where they are meant to be, divide them by their sum"
        )
        return Finding("predictions", "range", Outcome.WARN, sentence, interval=(float(sums.min()), float(sums.max())))
    sentence = (
        f"its scores, {low:.3g} to {high:.3g}, are no probabilities: accuracy, log loss and calibration are not "
        "measured; divide percents by 100, or answer log-odds where a mere order is meant"
    )
    return Finding("predictions", "range", Outcome.WARN, sentence, interval=(low, high))


def _another_unit(line: _Line, as_before: bool) -> Finding:
    parts = [f"times {line.factor:.4g}"] if line.factor != 1.0 else []
    parts += [f"{'plus' if line.offset > 0 else 'minus'} {abs(line.offset):.4g}"] if line.offset else []
    sentence = (
        f"its answers {' '.join(parts)} fit the labels far better: that explains {100 * (1 - line.left):.0f} % of the "
        "squared error. "
    )
    sentence += (
        f"Those of {SERVING} do, too: look at the unit of the labels"
        if as_before
        else "Another unit? Answer in that of the labels"
    )
    cause = {"kind": "factor" if not line.offset else "offset", "factor": line.factor, "offset": line.offset}
    return Finding(CHECK, EVERYTHING, Outcome.WARN, sentence, number=1 - line.left, cause=cause)
