"""The quality gate: predictions of candidate and baseline for the same held-out examples, compared and mistrusted.

`gates` hands in the case and the rule; findings come back.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.admission.verdict import Finding
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.signature import Signature
from tidegate_validation.case import Case, Version
from tidegate_validation.quality import finding as words
from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.held_out import HeldOut, Source, held_out_of
from tidegate_validation.quality.history import against_history
from tidegate_validation.quality.judging import Scored, judge_scores
from tidegate_validation.quality.metrics import Floats
from tidegate_validation.quality.mistrust import Witness, mistrust
from tidegate_validation.quality.outputs import Prediction, as_scores, prediction_of
from tidegate_validation.quality.overlap import overlap
from tidegate_validation.quality.predictions import Predictions, Read, predict, predict_table
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.robustness.examples import Examples, examples_of
from tidegate_validation.robustness.gate import default_signature
from tidegate_validation.robustness.limits import RobustnessLimits
from tidegate_validation.robustness.session import Session, probe_command


@dataclass(frozen=True, slots=True)
class Model:
    """A version as this gate sees it."""

    directory: Path
    manifest: Manifest
    signature_name: str
    signature: Signature
    prediction: Prediction

    @classmethod
    def of(cls, version: Version) -> Model:
        """InvalidInput where the version's prediction cannot be told."""
        name, signature = default_signature(version.manifest)
        prediction = prediction_of(version.manifest, signature)
        return cls(version.directory, version.manifest, name, signature, prediction)

    @property
    def inputs(self) -> tuple[str, ...]:
        """Inputs that the model uses; the event time is none."""
        return tuple(name for name in self.signature.input_names if name != self.manifest.event_time)

    def reader(self, evaluation: Evaluation) -> Read:
        """How its answers become scores."""
        return lambda outputs: as_scores(self.prediction, evaluation.task, evaluation.classes, outputs)


@dataclass(frozen=True, slots=True)
class _Pair:
    """What is compared, on which case, and within which limits models are asked."""

    case: Case
    candidate: Model
    baseline: Model | None
    limits: RobustnessLimits

    @classmethod
    def of(cls, case: Case, limits: RobustnessLimits) -> _Pair:
        baseline = Model.of(case.baseline) if case.baseline is not None else None
        return cls(case, Model.of(case.candidate), baseline, limits)

    def session(self, model: Model) -> Session:
        """A sandbox for one of the models."""
        command = probe_command(model.directory, self.case.probe, self.limits)
        return Session(command, self.limits, model.signature_name)


def judge_quality(case: Case, limits: RobustnessLimits, rule: QualityRule) -> list[Finding]:
    """All findings; `limits` hold for the processes that models run in. InvalidInput where labels or columns cannot be
    used.
    """
    subject = _Pair.of(case, limits)
    models = [model for model in (subject.candidate, subject.baseline) if model is not None]
    event_time = subject.candidate.manifest.event_time
    source = Source(case.held_out, case.label, case.training, event_time, case.entity)
    held = held_out_of(source, [model.prediction for model in models], rule)
    little = held.too_little(rule)
    if little is not None:
        return [little, *held.notes]
    with subject.session(subject.candidate) as session:
        made = _ask(subject.candidate, session, held, rule)
        unusable = _unusable(made, held, subject.candidate)
        if unusable:
            return unusable
        scored, trouble = _score(subject, held, made, rule)
        found = judge_scores(scored, rule)
        suspicion = mistrust(scored, _witness(subject, scored, session, rule), rule)
    found += [suspicion, *against_history(subject.candidate.directory, found, rule), *held.notes]
    shared = overlap(held.table, case.training) if case.training is not None else None
    return [*trouble, *found, *([shared] if shared is not None else [])]


def _ask(model: Model, session: Session, held: HeldOut, rule: QualityRule) -> Predictions:
    return predict_table(session, model.signature, held.table, model.reader(held.evaluation), rule.batch_rows)


def _unusable(made: Predictions, held: HeldOut, model: Model) -> list[Finding]:
    if made.failure is not None:
        return [words.unanswered(made.failure, len(made.scores))]
    if not len(made.scores):
        raise InvalidInput("no held-out row can be sent: every one lacks a whole number that the model needs")
    strange = made.strange()
    if len(strange):
        row = examples_of(model.signature, held.table.slice(int(made.rows[strange[0]]), 1)).row(0)
        return [words.not_finite(len(strange), len(made.scores), row)]
    present = np.unique(held.evaluation.labels).astype(np.int64)
    if made.scores.ndim == 2 and made.scores[:, present].max() <= 0:
        known = ", ".join(held.evaluation.classes[place] for place in present[:6])
        raise InvalidInput(f"the candidate answers none of the classes {known}: name its classes in metadata 'classes'")
    return []


def _score(subject: _Pair, held: HeldOut, mine: Predictions, rule: QualityRule) -> tuple[Scored, list[Finding]]:
    """Both models' scores on the rows that both can be sent; a baseline that fails is a finding, not the end."""
    alone = Scored(_rows(held, mine.rows), mine.scores, None, subject.candidate.inputs)
    if subject.baseline is None:
        return alone, []
    with subject.session(subject.baseline) as session:
        theirs = _ask(subject.baseline, session, held, rule)
    if not theirs.usable or not len(theirs.scores):
        return alone, [words.baseline_unusable(theirs.failure)]
    common, first, second = np.intersect1d(mine.rows, theirs.rows, return_indices=True)
    pair: tuple[Floats, Floats] = mine.scores[first], theirs.scores[second]
    return Scored(_rows(held, common), *pair, subject.candidate.inputs), []


def _rows(held: HeldOut, rows: Any) -> HeldOut:
    return held if len(rows) == len(held.evaluation) else held.take(rows)


def _witness(subject: _Pair, scored: Scored, session: Session, rule: QualityRule) -> Witness:
    model, before = subject.candidate, subject.baseline
    known = {name: before is not None and name in before.inputs for name in model.inputs}
    read = model.reader(scored.evaluation)

    def score(examples: Examples) -> Floats | None:
        made = predict(session, examples, read, rule.batch_rows)
        return made.scores if made.usable else None

    width = sum(math.prod(abs(size) for size in spec.shape) for spec in model.signature.inputs)
    return Witness(known, lambda table: examples_of(model.signature, table), score, width)
