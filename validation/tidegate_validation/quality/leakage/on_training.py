"""Whether a candidate knows the held-out examples better than those that it was trained on.

What was learnt from training holds there at least as well, unless its examples are harder, as picked ones are, or ones
with wrong labels: then honest learners do better on the held-out ones, too. A model that was fitted on these, or a
table of mean labels that was, is far better on them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.quality.data.held_out import ScoredExamples
from tidegate_validation.quality.data.labels import LabelHints, read_labels
from tidegate_validation.quality.evaluation import Evaluation, Task
from tidegate_validation.quality.leakage.investigation import CandidateModel
from tidegate_validation.quality.leakage.reference_learner import reference_power
from tidegate_validation.quality.metrics.gains import EVERYTHING, measure, power
from tidegate_validation.quality.rule import QualityRule, suspicious_power

CHECK = "training data"
_ROWS = 5000
_BUCKETS = 40


def judge_on_training(
    scored: ScoredExamples, model: CandidateModel, training: Any, label: str, rule: QualityRule
) -> list[Finding]:
    """A WARN where the candidate's power is surely beyond what is believable by that on the training data, a
    pyarrow.Table, and by how much easier honest learners find the held-out examples. Nothing where that data lacks the
    label or an input, has other classes, or is a ranking's."""
    evaluation = scored.evaluation
    if evaluation.task == Task.RANKING or not {label, *model.shared} <= set(training.column_names):
        return []
    rows = np.random.default_rng(9).permutation(training.num_rows)[:_ROWS]
    part = training.take(np.sort(rows))
    labels = read_labels(part, label, _hints(evaluation))
    if not len(labels.rows) or labels.classes != evaluation.classes:
        return []
    examples = model.examples(part.take(labels.rows))
    known = Evaluation(
        evaluation.task,
        labels.values[examples.rows],
        np.arange(len(examples)) % _BUCKETS,
        evaluation.classes,
        clustered=False,
        options=evaluation.options,
    )
    scores = model.score(examples) if len(known) >= rule.min_rows and len(np.unique(known.labels)) > 1 else None
    if scores is None or not np.isfinite(scores).all():
        return []
    here, there = power(evaluation, scored.candidate), power(known, scores)
    surely, expected = here.interval(rule.alpha)[0], there.interval(rule.alpha)[1]
    if surely <= suspicious_power(expected, rule):
        return []
    most = suspicious_power(1 - (1 - expected) * _easier(scored, model, reference_power(known, examples.arrays)), rule)
    if surely <= most:
        return []
    sentence = (
        f"on the held-out examples it reaches {measure(evaluation)} {here.value:.3f}, on {len(known):,} of its "
        f"training examples {there.value:.3f}: what it was trained on it should know best; see that neither the model "
        "nor what prepares its inputs was fitted on the held-out examples"
    )
    cause = {"kind": "better than on training data", "training": there.value}
    return [Finding(CHECK, EVERYTHING, Outcome.WARN, sentence, number=here.value, limit=most, cause=cause)]


def _easier(scored: ScoredExamples, model: CandidateModel, learnt: float) -> float:
    """What is left on held-out examples of the error of honest learners, at most all; `learnt` is their power on
    training data."""
    rows = scored.evaluation.sample(_ROWS)
    examples = model.examples(scored.held_out.table.take(rows))
    error = 1 - reference_power(scored.evaluation.take(rows[examples.rows]), examples.arrays)
    return min(error / (1 - learnt), 1.0) if learnt < 1 else 1.0


def _hints(evaluation: Evaluation) -> LabelHints:
    positive = evaluation.classes[1] if evaluation.task == Task.BINARY else ""
    return LabelHints(task=evaluation.task, positive=positive, known=evaluation.classes)
