"""Says of a first version that beats chance whether guessing does as well: it may have been trained on mixed-up labels.

Where inputs tell the label, a model that learnt nothing points somewhere all the same, and by luck partly in the right
direction; on ever more examples its power is surely not 0.5. So it is held against linear models whose labels were
shuffled, which are as lucky, and is no suspect unless it is further from what a simple learner finds in the same inputs
than from chance.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_serving.contract.tensors import Array
from tidegate_validation.quality.data.held_out import ScoredExamples
from tidegate_validation.quality.evaluation import Evaluation, Task
from tidegate_validation.quality.leakage.investigation import CandidateModel
from tidegate_validation.quality.leakage.reference_learner import reference_scores, spread_columns
from tidegate_validation.quality.metrics.catalogue import metrics_for
from tidegate_validation.quality.metrics.gains import EVERYTHING, chance, gain_of, measure, power
from tidegate_validation.quality.metrics.margins import Margin
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.statistics.arrays import Floats

CHECK = "guessing"
_ROWS = 5000
_TRIES = 199
_RIDGE = 1.0


def judge_guessing(scored: ScoredExamples, model: CandidateModel, rule: QualityRule) -> list[Finding]:
    """A WARN where more than `alpha` of the guesses are as good (as bad, where it is worse than chance) and a simple
    learner is surely better, by more than the margin and than what the candidate is above chance. Of numbers nothing is
    said: a guess has an R² of 0 or less.
    """
    whole = scored.evaluation
    if scored.baseline is not None or whole.task == Task.REGRESSION:
        return []
    rows = whole.sample(_ROWS)
    examples = model.examples(scored.held_out.table.take(rows))
    rows = rows[examples.rows]
    evaluation, scores = whole.take(rows), scored.candidate[rows]
    inputs = {name: array for name, array in examples.arrays.items() if name in model.shared}
    reached, guessed = power(evaluation, scores).value, guesses(evaluation, inputs)
    as_far = guessed >= reached if reached >= chance(evaluation) else guessed <= reached
    as_good = float((1 + as_far.sum()) / (1 + len(guessed)))
    if as_good <= rule.alpha:
        return []
    learnt = reference_scores(evaluation, inputs)
    (metric,) = [one for one in metrics_for(evaluation, [scores, learnt]) if one.name == measure(evaluation)]
    gain = gain_of(metric, evaluation, learnt, scores, Margin(0.0, False)).gain
    if gain.interval(rule.alpha)[0] <= rule.margin or gain.value <= reached - chance(evaluation):
        return []
    return [_finding(evaluation, reached, as_good, reached + gain.value)]


def guesses(evaluation: Evaluation, inputs: Mapping[str, Array]) -> Floats:
    """The power of linear models on these inputs whose labels were shuffled, shape [tries]."""
    features = np.nan_to_num(spread_columns(inputs))
    features = (features - features.mean(axis=0)) / np.maximum(features.std(axis=0), 1e-12)
    labels = evaluation.labels[:, None]
    if evaluation.task == Task.MULTICLASS:
        labels = np.asarray(evaluation.labels[:, None] == np.arange(evaluation.k), dtype=np.float64)
    labels = labels - labels.mean(axis=0)
    inner = features.T @ features + _RIDGE * np.eye(features.shape[1])
    random = np.random.default_rng(4)
    found = np.empty(_TRIES)
    for place in range(_TRIES):
        weights = np.linalg.solve(inner, features.T @ random.permutation(labels))
        scores = features @ weights
        found[place] = power(evaluation, scores if evaluation.task == Task.MULTICLASS else scores[:, 0]).value
    return found


def _finding(evaluation: Evaluation, reached: float, as_good: float, learnt: float) -> Finding:
    name, good = measure(evaluation), "good" if reached >= chance(evaluation) else "bad"
    sentence = (
        f"{name} {reached:.3f} is what guessing gives: of models trained on shuffled labels {100 * as_good:.0f} % are "
        f"as {good}, while a simple learner gets {learnt:.3f} out of the same inputs: see whether training mixed up "
        "labels or columns"
    )
    return Finding(CHECK, EVERYTHING, Outcome.WARN, sentence, number=reached, limit=learnt, rule="quality.margin")
