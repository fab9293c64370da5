"""The held-out data of the quality gate: rows with a label, what the task is, and which rows belong together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.quality.data.groups import groups_of, queries_of
from tidegate_validation.quality.data.labels import LabelHints, Labels, read_labels
from tidegate_validation.quality.data.outputs import Prediction
from tidegate_validation.quality.evaluation import Evaluation, Task
from tidegate_validation.quality.metrics.classification import LEAST_OF_A_CLASS
from tidegate_validation.quality.metrics.ranking import check_relevances
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.statistics.arrays import Floats

_NUMBERS = 20_000_000


@dataclass(frozen=True, slots=True)
class HeldOut:
    """`table` (a pyarrow.Table) holds the evaluation's rows; `groups` says what a group is, `members` what is counted
    where rows go together; `notes` are findings.
    """

    table: Any
    evaluation: Evaluation
    groups: str
    notes: tuple[Finding, ...] = ()
    members: str = "groups"

    def take(self, rows: Any) -> HeldOut:
        """The same for some of the rows."""
        return replace(self, table=self.table.take(rows), evaluation=self.evaluation.take(rows))

    def too_little(self, rule: QualityRule) -> Finding | None:
        """A finding where the data cannot say anything, whatever the models do."""
        if len(self.evaluation) >= rule.min_rows and not _too_one_sided(self.evaluation):
            return None
        return _too_few(self.evaluation, rule.min_rows)


@dataclass(frozen=True, slots=True)
class ScoredExamples:
    """Held-out rows with the candidate's scores, and the baseline's where there is one; `inputs` are columns that the
    candidate reads, cut into slices where the policy names none; `labels` says that the candidate is to answer labels,
    which are no scores.
    """

    held_out: HeldOut
    candidate: Floats
    baseline: Floats | None
    inputs: tuple[str, ...] = ()
    labels: bool = False

    def take(self, rows: Any) -> ScoredExamples:
        """The same for some of the rows."""
        baseline = None if self.baseline is None else self.baseline[rows]
        return replace(self, held_out=self.held_out.take(rows), candidate=self.candidate[rows], baseline=baseline)

    @property
    def evaluation(self) -> Evaluation:
        """What the scores are compared with."""
        return self.held_out.evaluation


@dataclass(frozen=True, slots=True)
class Source:
    """Where held-out data comes from: the pyarrow.Table, its label, labels `known` from training, the event time."""

    table: Any
    label: str
    known: Sequence[str]
    event_time: str | None
    entity: str | None


def held_out_of(source: Source, predictions: Sequence[Prediction], rule: QualityRule) -> HeldOut:
    """Rows with a label, at most `max_rows`. Raises InvalidInput where labels or columns cannot be used.

    `predictions` say how the models answer, the candidate's first.
    """
    labels = read_labels(source.table, source.label, _hints(source, predictions, rule))
    everything = len(labels.rows) == source.table.num_rows
    table = source.table if everything else source.table.take(labels.rows)
    queries = queries_of(table, rule.group) if labels.task == Task.RANKING else None
    if queries is not None:
        check_relevances(labels.values, rule.exponential_gain)
    alone = rule.group if queries is not None else None
    grouped = groups_of(table, source.event_time, source.entity or rule.entity or rule.id or alone)
    evaluation = Evaluation(
        labels.task,
        labels.values,
        grouped.numbers,
        labels.classes,
        queries,
        clustered=grouped.clustered and grouped.words != f"40 buckets of `{alone}`",
        members=grouped.members,
        options=rule.options,
    )
    held = HeldOut(table, evaluation, grouped.words, tuple(_notes(labels)), grouped.members_are)
    most = min(rule.max_rows, _NUMBERS // (len(labels.classes) + 1))
    return held if len(evaluation) <= most else held.take(evaluation.sample(most))


def _hints(source: Source, predictions: Sequence[Prediction], rule: QualityRule) -> LabelHints:
    return LabelHints(
        task=rule.task,
        positive=rule.positive,
        queries=bool(rule.group),
        columns=predictions[0].columns,
        whole_numbers=predictions[0].output.dtype.startswith(("int", "uint", "string")),
        classes=[name for prediction in predictions for name in prediction.classes],
        known=source.known,
    )


def _notes(labels: Labels) -> list[Finding]:
    found = [_note("labels", labels.note)] if labels.note else []
    if labels.task == Task.MULTICLASS:
        counts = np.bincount(labels.values.astype(np.int64), minlength=len(labels.classes))
        rare = [name for name, count in zip(labels.classes, counts, strict=True) if count < LEAST_OF_A_CLASS]
        if rare:
            shown = ", ".join(f"`{name}`" for name in rare[:5]) + (" ..." if len(rare) > 5 else "")
            have = "has" if len(rare) == 1 else "have"
            sentence = f"{len(rare)} of {len(counts)} classes {have} fewer than {LEAST_OF_A_CLASS} examples ({shown}): "
            found.append(_note("classes", sentence + "metrics that are means over classes leave them out"))
    return found


def _too_one_sided(evaluation: Evaluation) -> bool:
    if evaluation.task == Task.RANKING:
        return len(evaluation.units()) < LEAST_OF_A_CLASS
    if evaluation.task == Task.REGRESSION:
        return False
    counts = np.sort(np.bincount(evaluation.labels.astype(np.int64), minlength=2))
    return int(counts[-2]) < LEAST_OF_A_CLASS


def _note(subject: str, sentence: str) -> Finding:
    """Something that one must know to read the other findings."""
    return Finding("held-out data", subject, Outcome.PASS, sentence)


def _too_few(evaluation: Evaluation, least: int) -> Finding:
    rows, labels, task = len(evaluation), evaluation.labels, evaluation.task
    if rows < least:
        sentence = f"{rows} held-out examples with a label are too few to judge by, {least} are needed: hold out more"
    elif task == Task.BINARY:
        ones = int(labels.sum())
        rare, label = (ones, 1) if 2 * ones <= rows else (rows - ones, 0)
        sentence = f"only {rare} of {rows} held-out labels are {label}: too one-sided to judge by"
    elif task == Task.RANKING:
        sentence = f"the {rows} held-out rows hold too few queries with a relevant row to judge by: hold out more"
    else:
        sentence = f"nearly all of {rows} held-out labels are of one class: too one-sided to judge by"
    return Finding(
        "held-out data", task, Outcome.INCONCLUSIVE, sentence, number=float(rows), limit=float(least), rows_needed=least
    )
