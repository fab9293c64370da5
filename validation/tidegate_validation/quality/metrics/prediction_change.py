"""How predictions changed from the baseline to the candidate, whatever the labels say: churn, shift and collapse."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tidegate_validation.quality.evaluation import Evaluation, Task, decisions, is_hard, is_probability
from tidegate_validation.quality.metrics.ranking import first_rows
from tidegate_validation.statistics.arrays import Floats, Integers
from tidegate_validation.statistics.bins import quantile_edges
from tidegate_validation.statistics.jackknife import Estimate, paired_ratio, ratio

_BINS = 10
_NEARLY = 0.01
_NOTHING = 1e-100
_SAME = 1e-6
_VARIES = 0.1


@dataclass(frozen=True, slots=True)
class Collapse:
    """The share of the candidate's most frequent answer, in words `answer`, and that of the same answer
    `before`: of the baseline, or the labels. `spread` is the candidate's spread as a share of the baseline's, None if
    not comparable.
    """

    share: float
    before: float
    answer: str
    spread: float | None


def churn(evaluation: Evaluation, candidate: Floats, baseline: Floats) -> Estimate:
    """The share of examples with another decision; of numbers the mean change over the baseline's standard deviation;
    of rankings the share of queries with another first row.
    """
    groups = evaluation.groups
    if evaluation.task == Task.RANKING:
        mine, theirs = (first_rows(evaluation, scores) for scores in (candidate, baseline))
        moved, groups = (mine != theirs).astype(np.float64), groups[theirs]
    elif _numbers(evaluation, candidate, baseline):
        moved = np.abs(candidate - baseline) / max(float(baseline.std()), _NOTHING)
    else:
        moved = (decisions(evaluation, candidate) != decisions(evaluation, baseline)).astype(np.float64)
    ones = np.ones(len(moved))
    return ratio(moved, ones, groups).estimate() if evaluation.clustered else paired_ratio(moved, ones)


def shift(evaluation: Evaluation, candidate: Floats, baseline: Floats) -> float:
    """Distance of the two distributions of answers: the root of the sum of (p - q)² / mean, 0.1 being a tenth of a
    standard deviation; over tenths of the baseline's answers, or over classes.
    """
    if candidate.ndim == 2:
        size = candidate.shape[1]
        first, second = (np.bincount(decisions(evaluation, one), minlength=size) for one in (candidate, baseline))
    else:
        edges = quantile_edges(baseline, _BINS)
        size = len(edges) + 1
        first, second = (
            np.bincount(np.searchsorted(edges, one, side="right"), minlength=size) for one in (candidate, baseline)
        )
    p, q = first / len(candidate), second / len(baseline)
    middle = (p + q) / 2
    return float(np.sqrt(((p - q)[middle > 0] ** 2 / middle[middle > 0]).sum()))


def collapse(evaluation: Evaluation, candidate: Floats, baseline: Floats | None) -> Collapse:
    """How much the candidate gives one answer only, or nearly. Decisions are held against the labels where there is no
    baseline: where one class is frequent, so is the answer.
    """
    if candidate.ndim == 2 or (evaluation.task == Task.BINARY and is_hard(candidate)):
        mine = decisions(evaluation, candidate)
        most = int(np.bincount(mine).argmax())
        earlier = evaluation.labels if baseline is None else decisions(evaluation, baseline)
        name = evaluation.classes[most] if most < evaluation.k else "another class"
        before = max(float((earlier == most).mean()), float((evaluation.labels == most).mean()))
        return Collapse(float((mine == most).mean()), before, f"the class `{name}`", None)
    unit = _same_within(evaluation, candidate)
    value, share = _mode(candidate, unit)
    before = _mode(baseline, unit)[1] if baseline is not None else 0.0
    spread = None
    if baseline is not None and is_probability(candidate) == is_probability(baseline):
        spread = float(candidate.std()) / max(float(baseline.std()), _NOTHING)
    elif baseline is None and evaluation.task == Task.REGRESSION:
        spread = float(candidate.std()) / max(float(evaluation.labels.std()), _NOTHING)
    return Collapse(share, before, f"{value:.6g}", spread)


def constant_within(
    evaluation: Evaluation, candidate: Floats, baseline: Floats, codes: Integers, least: int
) -> list[tuple[int, int, float]]:
    """The codes of `least` rows or more that the candidate answers alike, unlike the baseline, each with its number of
    rows and the answer; arrays of shape [n]. None where these are most rows, as by a model that does without an input.
    """
    unit, usual = _same_within(evaluation, candidate), float(baseline.std())
    found = []
    for code in np.flatnonzero(np.bincount(codes[codes >= 0]) >= least):
        mine, theirs = candidate[codes == code], baseline[codes == code]
        if mine.max() - mine.min() <= unit and theirs.std() > _VARIES * usual:
            found.append((int(code), len(mine), float(mine[0])))
    return found if 2 * sum(rows for _, rows, _ in found) < len(candidate) else []


def nearly_constant(found: Collapse) -> bool:
    """Whether answers differ, but by next to nothing."""
    return found.spread is not None and found.spread < _NEARLY


def _numbers(evaluation: Evaluation, candidate: Floats, baseline: Floats) -> bool:
    """Whether there are no decisions to compare: numbers, or scores of two classes that are no probabilities."""
    return candidate.ndim == 1 and (
        evaluation.task == Task.REGRESSION or not (is_probability(candidate) and is_probability(baseline))
    )


def _same_within(evaluation: Evaluation, scores: Floats) -> float:
    """Answers so near to each other are one: a millionth of how far labels spread, of scores for classes or ranks a
    millionth, or of the largest where all are below 1.
    """
    numbers = evaluation.task == Task.REGRESSION
    size = float(evaluation.labels.std()) if numbers else min(1.0, float(np.abs(scores).max()))
    return _SAME * (size or 1.0)


def _mode(scores: Floats, unit: float) -> tuple[float, float]:
    values, counts = np.unique(np.round(scores / unit), return_counts=True)
    most = int(counts.argmax())
    return float(values[most]) * unit, float(counts[most] / len(scores))
