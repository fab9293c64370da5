"""The quality gate: asks candidate and baseline for predictions of the same held-out examples, and judges them."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.contract.manifest import Manifest
from tidegate_serving.contract.signature import Signature
from tidegate_validation.case import Case, Version
from tidegate_validation.counts import counted
from tidegate_validation.quality.data.held_out import HeldOut, ScoredExamples, Source, held_out_of
from tidegate_validation.quality.data.labels import distinct_texts, profiled_texts
from tidegate_validation.quality.data.outputs import Prediction, UnreadableOutput, as_scores, prediction_of
from tidegate_validation.quality.data.predictions import Predictions, Read, predict, predict_table
from tidegate_validation.quality.evaluation import Evaluation, Task
from tidegate_validation.quality.judgement.by_heart import judge_unknown
from tidegate_validation.quality.judgement.further_outputs import judge_further_outputs
from tidegate_validation.quality.judgement.guessing import judge_guessing
from tidegate_validation.quality.judgement.history import against_history
from tidegate_validation.quality.judgement.input_order import judge_input_order
from tidegate_validation.quality.judgement.named_bounds import judge_named_bounds, pairs_by_name
from tidegate_validation.quality.judgement.scores import judge_scores
from tidegate_validation.quality.leakage.investigation import CandidateModel
from tidegate_validation.quality.leakage.judge import judge_leakage
from tidegate_validation.quality.leakage.on_training import judge_on_training
from tidegate_validation.quality.leakage.overlap import after_overlap, overlap
from tidegate_validation.quality.metrics.gains import SERVING
from tidegate_validation.quality.metrics.roc import write_roc
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.sandbox.answer import Answer, AnswerKind
from tidegate_validation.sandbox.examples import Examples, default_signature, examples_of, groups_of
from tidegate_validation.sandbox.limits import SandboxLimits
from tidegate_validation.sandbox.session import Session
from tidegate_validation.statistics.arrays import Floats

NO_ANSWER = "no answer"
"""The check of a finding about a candidate that answered not one example."""


@dataclass(frozen=True, slots=True)
class Model:
    """A version as this gate sees it."""

    directory: Path
    manifest: Manifest
    signature_name: str
    signature: Signature
    prediction: Prediction

    @classmethod
    def of(cls, version: Version, output: str, label: str) -> Model:
        """Its prediction is the `output`, where one is named; `label` is the column of the classes in its training.
        InvalidInput where it cannot be told."""
        name, signature = default_signature(version.manifest)
        profile = version.profile()
        classes = [] if profile is None else profiled_texts(profile, version.manifest.label or label)
        prediction = prediction_of(version.manifest, signature, output, classes)
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
    limits: SandboxLimits

    @classmethod
    def of(cls, case: Case, limits: SandboxLimits, output: str) -> _Pair:
        baseline = Model.of(case.baseline, output, case.label) if case.baseline is not None else None
        return cls(case, Model.of(case.candidate, output, case.label), baseline, limits)

    def session(self, model: Model) -> Session:
        """A sandbox for one of the models."""
        return Session(model.directory, self.limits, model.signature_name, self.case.probe)

    def ask(self, model: Model, session: Session, held: HeldOut, rule: QualityRule) -> Predictions:
        """A model's answers to the held-out rows, with those further outputs that can be judged."""
        read = model.reader(held.evaluation)
        return predict_table(session, model.signature, held.table, read, rule.batch_rows, self._further())

    def _further(self) -> list[str]:
        """Outputs of numbers that both models have, alike but for the sizes of axes; of a first version those that say
        by their names which lies below which."""
        if self.baseline is None:
            floats = [one.name for one in self.candidate.signature.outputs if one.dtype.startswith("float")]
            return list(dict.fromkeys(name for pair in pairs_by_name(floats) for name in pair))
        before = {(one.name, one.dtype, len(one.shape)) for one in self.baseline.signature.outputs}
        outputs = [one for one in self.candidate.signature.outputs if one.dtype != "string"]
        names = [one.name for one in outputs if (one.name, one.dtype, len(one.shape)) in before]
        return names if names != [self.candidate.prediction.output.name] else []


def judge_quality(case: Case, limits: SandboxLimits, rule: QualityRule) -> list[Finding]:
    """All findings; `limits` hold for the processes that models run in. InvalidInput where labels or columns cannot be
    used.
    """
    subject = _Pair.of(case, limits, rule.output)
    models = [model for model in (subject.candidate, subject.baseline) if model is not None]
    event_time = subject.candidate.manifest.event_time
    source = Source(case.held_out, case.label, _known_labels(case), event_time, case.entity)
    held = held_out_of(source, [model.prediction for model in models], rule)
    little = held.too_little(rule)
    if little is not None:
        return [little, *held.notes]
    with subject.session(subject.candidate) as session:
        made = subject.ask(subject.candidate, session, held, rule)
        unusable = _unusable(made, held, subject.candidate)
        if unusable:
            return unusable
        scored, trouble, further = _score(subject, held, made, rule)
        if case.report is not None:
            write_roc(scored.evaluation, scored.candidate, case.report)
        found = judge_scores(scored, rule)
        model = _candidate_model(subject, scored, session, rule)
        if any(one.outcome is Outcome.FAIL for one in found):
            found = [*judge_input_order(scored, model), *found]
        shared = overlap(scored.held_out.table, case.training) if case.training is not None else None
        leakage = after_overlap(judge_leakage(scored, model, rule), shared)
        guessed = judge_guessing(scored, model, rule)
        if case.training is not None:
            guessed += judge_on_training(scored, model, case.training, case.label, rule)
    found += [leakage, *guessed, *against_history(subject.candidate.directory, found, rule), *further, *held.notes]
    if shared is not None:
        refused = any(one.outcome is Outcome.FAIL for one in found)
        found += [shared.finding] if refused else [*judge_unknown(scored, shared.known, rule), shared.finding]
    return [*trouble, *found]


def _known_labels(case: Case) -> list[str]:
    """By the training data, else by the profile of it that the candidate brings."""
    if case.training is not None:
        return distinct_texts(case.training, case.label)
    profile = case.candidate.profile()
    return [] if profile is None else profiled_texts(profile, case.label)


def _unusable(made: Predictions, held: HeldOut, model: Model) -> list[Finding]:
    if made.failure is not None:
        return [_unanswered(made.failure, made)]
    if not len(made.scores):
        raise InvalidInput("no held-out row can be sent: every one lacks a whole number that the model needs")
    strange = made.strange()
    if len(strange):
        row = examples_of(model.signature, held.table.slice(int(made.rows[strange[0]]), 1)).row(0)
        return [_not_finite(len(strange), len(made.scores), row)]
    present = np.unique(held.evaluation.labels).astype(np.int64)
    if made.scores.ndim == 2 and (made.scores[:, present].max(axis=1) <= made.scores.min(axis=1)).all():
        known = ", ".join(held.evaluation.classes[place] for place in present[:6])
        raise InvalidInput(f"the candidate answers none of the classes {known}: name its classes in metadata 'classes'")
    return []


def _score(
    subject: _Pair, held: HeldOut, mine: Predictions, rule: QualityRule
) -> tuple[ScoredExamples, list[Finding], list[Finding]]:
    """Both models' scores on the rows that both answer with a number; a baseline that fails on some of them is a
    finding, and one that leaves too few to compare is none. Then what further outputs say."""
    labels = not subject.candidate.prediction.output.dtype.startswith("float")
    alone = ScoredExamples(_rows(held, mine.rows), mine.scores, None, subject.candidate.inputs, labels)
    if subject.baseline is None:
        return alone, [], judge_named_bounds(mine.kept)
    with subject.session(subject.baseline) as session:
        try:
            theirs = subject.ask(subject.baseline, session, held, rule)
        except UnreadableOutput as error:
            return alone, [_baseline_unusable(error.message)], judge_named_bounds(mine.kept)
    finite = np.delete(np.arange(len(theirs.scores)), theirs.strange())
    common, first, second = np.intersect1d(mine.rows, theirs.rows[finite], return_indices=True)
    compared = _rows(held, common)
    if not len(common) or (not theirs.usable and compared.too_little(rule) is not None):
        why = theirs.failure.words if theirs.failure is not None else "it answers NaN or infinity"
        return alone, [_baseline_unusable(why)], []
    pair: tuple[Floats, Floats] = mine.scores[first], theirs.scores[finite][second]
    trouble = [] if theirs.usable else [_baseline_in_part(theirs, len(mine.rows) - len(common), len(mine.rows))]
    further = _further(mine, theirs, subject.candidate.prediction, held.evaluation)
    return ScoredExamples(compared, *pair, subject.candidate.inputs, labels), trouble, further


def _further(mine: Predictions, theirs: Predictions, prediction: Prediction, evaluation: Evaluation) -> list[Finding]:
    """About the outputs beside the prediction, on rows that both models answered."""
    rows, first, second = np.intersect1d(mine.kept_rows, theirs.kept_rows, return_indices=True)
    widths = [{name: array.shape[1:] for name, array in made.kept.items()} for made in (mine, theirs)]
    names = [name for name, width in widths[0].items() if widths[1].get(name) == width]
    return judge_further_outputs(
        {name: mine.kept[name][first] for name in names},
        {name: theirs.kept[name][second] for name in names},
        prediction.output.name,
        evaluation.labels[rows] if evaluation.task == Task.REGRESSION else None,
    )


def _rows(held: HeldOut, rows: Any) -> HeldOut:
    return held if len(rows) == len(held.evaluation) else held.take(rows)


def _candidate_model(subject: _Pair, scored: ScoredExamples, session: Session, rule: QualityRule) -> CandidateModel:
    model, before = subject.candidate, subject.baseline
    shared = {name: before is not None and name in before.inputs for name in model.inputs}
    read = model.reader(scored.evaluation)

    def score(examples: Examples) -> Floats | None:
        made = predict(session, examples, read, rule.batch_rows)
        return made.scores if made.usable else None

    width = sum(math.prod(abs(size) for size in spec.shape) for spec in model.signature.inputs)
    return CandidateModel(shared, lambda table: groups_of(model.signature, table)[0], score, width)


def _unanswered(answer: Answer, made: Predictions) -> Finding:
    """The candidate failed on held-out rows."""
    log = {"log": answer.log} if answer.log else None
    done = len(made.scores)
    if not done:
        words = f"the candidate answers nothing of what it is asked: {answer.words}"
        return Finding(NO_ANSWER, "held-out data", Outcome.FAIL, words, example=log)
    if answer.kind is not AnswerKind.REFUSED:
        sentence = f"after {counted(done, 'held-out example')} the candidate no longer answered: {answer.words}"
    elif made.refused:
        least = "at least " if made.untried else ""
        of_all = f"{least}{made.refused:,} of {counted(done + made.refused + made.untried, 'held-out example')}"
        sentence = f"the candidate does not answer {of_all}: {answer.words}"
    else:
        sentence = f"the candidate refuses {_too_many(made)}: {answer.words}"
    return Finding("predictions", "held-out data", Outcome.FAIL, sentence, example=log)


def _too_many(made: Predictions) -> str:
    """For a version of which no row was refused alone."""
    done = "some of which it answers" if made.untried else "which it answers"
    return f"{counted(made.at_once, 'held-out example')} at once, {done} in smaller batches"


def _not_finite(count: int, rows: int, example: Mapping[str, Any]) -> Finding:
    """The candidate answered NaN or infinity."""
    sentence = f"the candidate answers NaN or infinity for {count:,} of {counted(rows, 'held-out example')}"
    shown = {"input": dict(example)}
    return Finding("predictions", "held-out data", Outcome.FAIL, sentence, number=count / rows, example=shown)


def _baseline_unusable(why: str) -> Finding:
    """The baseline failed, so that there is nothing to compare with; that must not hold its successor back."""
    sentence = f"{SERVING} cannot answer the held-out examples, so nothing is compared with it: {why}"
    return Finding("predictions", "baseline", Outcome.WARN, sentence)


def _baseline_in_part(theirs: Predictions, lost: int, rows: int) -> Finding:
    """The baseline failed on some rows; the others are compared."""
    why = theirs.failure.words if theirs.failure is not None else "it answers NaN or infinity"
    of_all = f"{'some of ' if theirs.untried else ''}{lost:,} of {counted(rows, 'held-out example')}"
    sentence = f"{SERVING} cannot answer {of_all}, and is compared on the others: {why}"
    if not lost:
        sentence = f"{SERVING} refuses {_too_many(theirs)}: {why}"
    return Finding("predictions", "baseline", Outcome.WARN, sentence, number=lost / rows)
