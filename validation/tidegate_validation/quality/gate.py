"""The quality gate: predictions of candidate and baseline for the same held-out examples, compared and mistrusted.

`gates` hands in the versions, the held-out table and the rule; findings come back.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_serving.contract.verdict import Finding, Outcome
from tidegate_validation.quality import finding as words
from tidegate_validation.quality.compared import Evaluation, compare_models, is_probability
from tidegate_validation.quality.groups import groups_of
from tidegate_validation.quality.labels import check_label
from tidegate_validation.quality.leak import investigate, lone_powers
from tidegate_validation.quality.metrics import Floats
from tidegate_validation.quality.outputs import prediction_output
from tidegate_validation.quality.predictions import Predictions, predict
from tidegate_validation.quality.rule import QualityRule, good_enough, not_inferior, suspicious_power
from tidegate_validation.quality.slices import worse_slices
from tidegate_validation.robustness.examples import Examples, examples_of
from tidegate_validation.robustness.gate import default_signature
from tidegate_validation.robustness.limits import RobustnessLimits
from tidegate_validation.robustness.session import Session, probe_command

_LEAST_OF_A_CLASS = 10


@dataclass(frozen=True, slots=True)
class Model:
    """A version as this gate sees it."""

    directory: Path
    manifest: Manifest
    signature_name: str
    signature: Signature
    output: TensorSpec

    @classmethod
    def of(cls, directory: Path, manifest: Manifest) -> Model:
        """From a version directory and its manifest. InvalidInput where its prediction cannot be told."""
        name, signature = default_signature(manifest)
        output = prediction_output(manifest, signature)
        return cls(directory, manifest, name, signature, next(one for one in signature.outputs if one.name == output))

    @property
    def inputs(self) -> frozenset[str]:
        """Inputs that the model uses; the event time is none."""
        return frozenset(self.signature.input_names) - {self.manifest.event_time}


@dataclass(frozen=True, slots=True)
class QualitySubject:
    """What is compared: models, the held-out pyarrow.Table with its label, and how to open a sandbox."""

    candidate: Model
    baseline: Model | None
    held_out: Any
    label: str
    entity: str | None
    limits: RobustnessLimits
    probe: Sequence[str] | None = None

    def session(self, model: Model) -> Session:
        """A sandbox for one of the models."""
        command = probe_command(model.directory, self.probe, self.limits)
        return Session(command, self.limits, model.signature_name)


@dataclass(frozen=True, slots=True)
class _Scored:
    """Both models' scores for the same examples."""

    evaluation: Evaluation
    examples: Examples
    candidate: Floats
    baseline: Floats | None
    groups: str


def judge_quality(subject: QualitySubject, rule: QualityRule) -> list[Finding]:
    """All findings. Raises InvalidInput where labels or columns cannot be used."""
    table, labels, task = _labelled(subject, rule)
    if len(labels) < rule.min_rows or _too_one_sided(labels, task):
        return [words.too_few(len(labels), rule.min_rows, labels, task)]
    with subject.session(subject.candidate) as session:
        examples = examples_of(subject.candidate.signature, table)
        made = predict(session, examples, subject.candidate.output, rule.batch_rows)
        unusable = _unusable(made, examples)
        if unusable:
            return unusable
        scored, trouble = _score(subject, table, labels, task, examples, made.scores)
        found = _compare(scored, rule)
        found += _collapse(scored, rule)
        found += _too_good(subject, scored, session, rule)
    return [*trouble, *found]


def _labelled(subject: QualitySubject, rule: QualityRule) -> tuple[Any, Floats, str]:
    """Rows with a label, at most `max_rows`; their labels; and the task."""
    import pyarrow as pa
    import pyarrow.compute as pc

    check_label(subject.held_out, subject.label)
    table = subject.held_out.filter(pc.is_valid(subject.held_out[subject.label]))
    if table.num_rows > rule.max_rows:
        chosen = np.sort(np.random.default_rng(3).choice(table.num_rows, rule.max_rows, replace=False))
        table = table.take(pa.array(chosen))
    column = table[subject.label].combine_chunks()
    if pa.types.is_boolean(column.type):
        column = column.cast(pa.int8())
    labels = column.to_numpy(zero_copy_only=False).astype(np.float64)
    keep = np.isfinite(labels)
    binary = bool(np.isin(labels[keep], (0.0, 1.0)).all())
    if rule.task == "binary" and not binary:
        raise InvalidInput(f"label {subject.label!r} holds more than 0 and 1: set quality.task to regression")
    task = ("binary" if binary else "regression") if rule.task == "auto" else rule.task
    return table.filter(pa.array(keep)), labels[keep], task


def _too_one_sided(labels: Floats, task: str) -> bool:
    positives = float(labels.sum())
    return task == "binary" and min(positives, len(labels) - positives) < _LEAST_OF_A_CLASS


def _unusable(made: Predictions, examples: Examples) -> list[Finding]:
    if made.failure is not None:
        return [words.unanswered(made.failure, len(made.scores))]
    if not len(made.scores):
        raise InvalidInput("no held-out row can be sent: every one lacks a whole number that the model needs")
    strange = np.flatnonzero(~np.isfinite(made.scores))
    return [words.not_finite(len(strange), len(examples), examples.row(int(strange[0])))] if len(strange) else []


def _score(
    subject: QualitySubject, table: Any, labels: Floats, task: str, examples: Examples, scores: Floats
) -> tuple[_Scored, list[Finding]]:
    """Both models' scores on the rows that both can be sent; a baseline that fails is a finding, not the end."""
    groups, described = groups_of(table, subject.candidate.manifest.event_time, subject.entity)
    evaluation = Evaluation(task, labels[examples.rows], groups[examples.rows])
    alone = _Scored(evaluation, examples, scores, None, described)
    if subject.baseline is None:
        return alone, []
    theirs = examples_of(subject.baseline.signature, table)
    with subject.session(subject.baseline) as session:
        made = predict(session, theirs, subject.baseline.output, 1024)
    if made.failure is not None or not np.isfinite(made.scores).all():
        return alone, [words.baseline_unusable(made.failure)]
    common, mine, other = np.intersect1d(examples.rows, theirs.rows, return_indices=True)
    return (
        _Scored(
            Evaluation(task, labels[common], groups[common]),
            examples.take(mine),
            scores[mine],
            made.scores[other],
            described,
        ),
        [],
    )


def _compare(scored: _Scored, rule: QualityRule) -> list[Finding]:
    evaluation = scored.evaluation
    if scored.baseline is None:
        least = rule.least_power if evaluation.task == "binary" else 2 * rule.least_power - 1
        power = evaluation.power(scored.candidate)
        outcome = good_enough(power, least, rule.alpha)
        return [words.first_version(evaluation, power, least, outcome, scored.groups, rule.alpha)]
    found = []
    for gain in compare_models(evaluation, scored.candidate, scored.baseline):
        margin = rule.margin if gain.metric == "AUC" else rule.loss_margin
        outcome = not_inferior(gain.gain, margin, rule.alpha)
        found.append(words.compared(gain, margin, outcome, scored.groups, rule.alpha))
    if evaluation.task == "binary" and is_probability(scored.baseline) and not is_probability(scored.candidate):
        found.append(words.no_probability(scored.candidate))
    return found + _slices(scored, rule)


def _slices(scored: _Scored, rule: QualityRule) -> list[Finding]:
    if scored.baseline is None or not _comparable(scored):
        return []
    labels = scored.evaluation.labels
    losses = [(labels - scores) ** 2 for scores in (scored.candidate, scored.baseline)]
    slices = worse_slices(scored.examples, losses[0], losses[1], scored.evaluation.groups, rule.slice_margin)
    worse = [words.worse_slice(one, rule) for one in slices if one.p_value < rule.alpha]
    return worse or ([words.no_worse_slice(len(slices), rule)] if slices else [])


def _comparable(scored: _Scored) -> bool:
    """Whether squared errors of both models mean the same: for labels of 0 and 1 both must answer probabilities."""
    both = [scores for scores in (scored.candidate, scored.baseline) if scores is not None]
    return scored.evaluation.task == "regression" or all(is_probability(scores) for scores in both)


def _collapse(scored: _Scored, rule: QualityRule) -> list[Finding]:
    shares = [_mode_share(scores) for scores in (scored.candidate, scored.baseline) if scores is not None]
    if shares[0] <= rule.collapse:
        return []
    same = len(shares) > 1 and shares[1] > rule.collapse
    return [words.collapsed(shares[0], rule.collapse, Outcome.WARN if same else Outcome.FAIL)]


def _mode_share(scores: Floats) -> float:
    _, counts = np.unique(np.round(scores, 6), return_counts=True)
    return float(counts.max() / len(scores))


def _too_good(subject: QualitySubject, scored: _Scored, session: Session, rule: QualityRule) -> list[Finding]:
    evaluation = scored.evaluation
    power = evaluation.power(scored.candidate)
    known = {
        name: subject.baseline is not None and name in subject.baseline.inputs for name in subject.candidate.inputs
    }
    if scored.baseline is not None:
        reference = evaluation.power(scored.baseline).value
        limit = suspicious_power(reference, rule)
        suspected = power.interval(rule.alpha)[0] > limit
    else:
        reference = 0.5 if evaluation.task == "binary" else 0.0
        limit = rule.first_limit
        alone = lone_powers(evaluation, scored.examples, frozenset(scored.examples.arrays.keys() - known.keys()))
        strong = [name for name, value in alone.items() if value >= rule.lone_limit and name not in rule.trusted]
        suspected = power.interval(rule.alpha)[0] > limit or bool(strong)
    if not suspected:
        return [words.believable(evaluation, power.value, limit)]

    def score(examples: Examples) -> Floats | None:
        made = predict(session, examples, subject.candidate.output, rule.batch_rows)
        return made.scores if made.failure is None and np.isfinite(made.scores).all() else None

    suspicion = investigate(evaluation, scored.examples, power.value, reference, known, score)
    return [words.too_good(evaluation, power.value, reference, limit, suspicion, rule, first=scored.baseline is None)]
