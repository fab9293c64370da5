"""Says whether answers are read for the wrong classes: scores that rank the wrong way round, columns out of order."""

from __future__ import annotations

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.quality.data.held_out import ScoredExamples
from tidegate_validation.quality.evaluation import Evaluation, Task, decisions, is_hard
from tidegate_validation.quality.metrics.classification import LEAST_OF_A_CLASS
from tidegate_validation.quality.metrics.gains import EVERYTHING, power
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.statistics.arrays import Floats, Integers

CHECK = "class order"
_WRONG_WAY = 0.4
"""Surely less AUC than that is more than bad luck in most tasks."""
_FITS_BETTER = 0.1
_ERRORS = 3.0
_SHOWN = 4


def judge_order(scored: ScoredExamples, rule: QualityRule) -> list[Finding]:
    """A WARN where classes in another order fit the candidate's answers far better; what refuses it are the metrics."""
    evaluation, scores = scored.evaluation, scored.candidate
    if evaluation.task == Task.BINARY:
        reached = power(evaluation, scores)
        return [_wrong_way(evaluation, reached.value)] if reached.interval(rule.alpha)[1] < _WRONG_WAY else []
    if evaluation.task == Task.MULTICLASS:
        return _other_columns(evaluation, scores)
    return []


def _wrong_way(evaluation: Evaluation, reached: float) -> Finding:
    other, positive = evaluation.classes
    sentence = (
        f"its scores rank the wrong way round: AUC {reached:.3f} where `{positive}` is the positive class is "
        f"{1 - reached:.3f} where `{other}` is. Name that under quality.positive of the policy, or answer the "
        f"probability of `{positive}`"
    )
    cause = {"kind": CHECK, "positive": other}
    return Finding(CHECK, EVERYTHING, Outcome.WARN, sentence, number=reached, limit=_WRONG_WAY, cause=cause)


def _other_columns(evaluation: Evaluation, scores: Floats) -> list[Finding]:
    """By recalls: of a class always answered as another, whatever the share of each."""
    from scipy import optimize

    k, labels = evaluation.k, evaluation.labels.astype(np.int64)
    rows = np.bincount(labels, minlength=k)
    known = np.flatnonzero(rows >= LEAST_OF_A_CLASS)
    decided = decisions(evaluation, scores)
    recalls = np.array([[np.mean(decided[labels == one] == other) for other in known] for one in known])
    fits: Integers = optimize.linear_sum_assignment(recalls, maximize=True)[1] if len(known) else known
    places = np.arange(len(known))
    gains = recalls[places, fits] - np.diag(recalls)
    if not _far_better(gains, rows[known]):
        return []
    cycles = _cycles(fits)
    sure = [_far_better(gains[cycle], rows[known][cycle]) for cycle in cycles]
    for cycle, far_better in zip(cycles, sure, strict=True):
        if any(sure) and not far_better:
            fits[cycle] = cycle
    as_read, as_fits = np.diag(recalls), recalls[places, fits]
    names = evaluation.classes
    moved = {names[known[fit]]: names[one] for one, fit in zip(known, fits.tolist(), strict=True) if known[fit] != one}
    return [_moved(moved, float(as_read.mean()), float(as_fits.mean()), is_hard(scores))]


def _far_better(gains: Floats, rows: Integers) -> bool:
    """Whether recalls of classes with so many rows gain surely more than chance brings, in the mean."""
    error = float(np.sqrt(np.sum(0.5 / rows))) / max(len(rows), 1)
    return len(gains) > 0 and float(gains.mean()) >= _FITS_BETTER + _ERRORS * error


def _cycles(order: Integers) -> list[Integers]:
    """The places that an order changes among themselves: classes that are hardly ever answered change for nothing."""
    found: list[Integers] = []
    seen: set[int] = set()
    for start in range(len(order)):
        cycle, place = [], start
        while place not in seen:
            seen.add(place)
            cycle.append(place)
            place = int(order[place])
        if len(cycle) > 1:
            found.append(np.array(cycle))
    return found


def _moved(moved: dict[str, str], as_read: float, as_fits: float, hard: bool) -> Finding:
    """Of a version that is `hard`, whose answers are classes and no scores, no order of columns is to be told."""
    shown = ", ".join(f"`{read}` fits `{fits}`" for read, fits in [*moved.items()][:_SHOWN])
    more = " ..." if len(moved) > _SHOWN else ""
    what = "it answers other classes than it means" if hard else "its classes are in another order"
    cure = "Mend how it numbers or names its classes"
    if not hard:
        cure = "Name the classes in the order of its columns, in metadata 'classes'"
    sentence = (
        f"{what}: what is read as {shown}{more}; so read it recalls {100 * as_fits:.0f} % of a class instead of "
        f"{100 * as_read:.0f} %. {cure}"
    )
    cause = {"kind": CHECK, "classes": moved}
    return Finding(CHECK, EVERYTHING, Outcome.WARN, sentence, number=as_read, limit=as_fits, cause=cause)
