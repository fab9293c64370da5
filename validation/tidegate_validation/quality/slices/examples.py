"""The examples of a slice that got worst: what was asked, the truth, and what both versions answer."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate_validation.quality.data.held_out import ScoredExamples
from tidegate_validation.quality.evaluation import Evaluation, Task
from tidegate_validation.sandbox.examples import plain
from tidegate_validation.statistics.arrays import Floats, Mask

_SHOWN = 3


def worst_examples(scored: ScoredExamples, baseline: Floats, units: Mask) -> list[dict[str, Any]]:
    """Three of the units, worst first; none of a ranking, where an answer by itself says nothing."""
    evaluation = scored.evaluation
    if evaluation.task == Task.RANKING:
        return []
    lost = _missed(evaluation, scored.candidate) - _missed(evaluation, baseline)
    rows = np.flatnonzero(units)
    return [_example(scored, baseline, int(row)) for row in rows[np.argsort(-lost[rows], kind="stable")[:_SHOWN]]]


def _missed(evaluation: Evaluation, scores: Floats) -> Floats:
    """By how much each answer misses the truth."""
    if scores.ndim == 1:
        return np.asarray(np.abs(scores - evaluation.labels))
    return np.asarray(1.0 - scores[np.arange(len(scores)), evaluation.labels.astype(np.int64)])


def _example(scored: ScoredExamples, baseline: Floats, row: int) -> dict[str, Any]:
    evaluation, table = scored.evaluation, scored.held_out.table
    label = evaluation.labels[row]
    known = [name for name in scored.inputs if name in table.column_names]
    return {
        "input": {name: plain(table[name][row].as_py()) for name in known},
        "truth": evaluation.classes[int(label)] if evaluation.classes else float(label),
        "candidate": _answer(evaluation, scored.candidate, row),
        "serves now": _answer(evaluation, baseline, row),
    }


def _answer(evaluation: Evaluation, scores: Floats, row: int) -> Any:
    """A number, or of several classes the one that gets most, with its share."""
    if scores.ndim == 1:
        return float(f"{scores[row]:.6g}")
    place = int(scores[row].argmax())
    name = evaluation.classes[place] if place < len(evaluation.classes) else "another class"
    return f"{name} ({scores[row, place]:.3g})"
