"""Predictions of a version for many examples, asked in bounded batches through the sandbox.

Rows of a table become tensors one batch at a time, so that only the scores take memory that grows with the table.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidegate_serving.contract.signature import Signature
from tidegate_serving.contract.tensors import Array
from tidegate_validation.sandbox.answer import Answer, AnswerKind
from tidegate_validation.sandbox.examples import Examples, groups_of
from tidegate_validation.sandbox.session import Session
from tidegate_validation.statistics.arrays import Floats, Integers

Read = Callable[[dict[str, Array]], Floats]
_HALVED, _IN_VAIN = 2000, 100
"""Calls that are tried again in halves: after so many a batch that is refused is left out as a whole, and after so many
by which no row was answered, nothing more is asked."""


@dataclass(frozen=True, slots=True)
class Predictions:
    """`scores` per example, shape [n] or [n, k], of the table's `rows`, shape [n].

    Rows that were refused, `left_out` in number, have none, and `failure` is the first refusal. Where a batch ended the
    process, `failure` is what came of it, and scores end there.
    """

    scores: Floats
    rows: Integers
    failure: Answer | None = None
    left_out: int = 0

    def strange(self) -> Integers:
        """Places of examples with NaN or infinity."""
        finite = np.isfinite(self.scores)
        return np.flatnonzero(~(finite if finite.ndim == 1 else finite.all(axis=1)))

    @property
    def usable(self) -> bool:
        """Whether every example has a finite score."""
        return self.failure is None and not len(self.strange())


def predict_table(session: Session, signature: Signature, table: Any, read: Read, batch_rows: int) -> Predictions:
    """Asks for all rows of a pyarrow.Table that can be sent; the scores are in the table's order."""
    made = _predict(session, _batches(signature, table, batch_rows), read)
    order = np.argsort(made.rows, kind="stable")
    return Predictions(made.scores[order], made.rows[order], made.failure, made.left_out)


def predict(session: Session, examples: Examples, read: Read, batch_rows: int) -> Predictions:
    """Asks for all examples, in order."""
    starts = range(0, len(examples), batch_rows)
    batches = (examples.take(np.arange(start, min(start + batch_rows, len(examples)))) for start in starts)
    return _predict(session, batches, read)


def _batches(signature: Signature, table: Any, batch_rows: int) -> Iterator[Examples]:
    for start in range(0, table.num_rows, batch_rows):
        for batch in groups_of(signature, table.slice(start, batch_rows)):
            if len(batch):
                yield Examples(batch.arrays, batch.rows + start)


def _predict(session: Session, batches: Iterator[Examples], read: Read) -> Predictions:
    """Halves batches that are refused, so that one bad row does not cost the others."""
    parts: list[Floats] = []
    rows: list[Integers] = []
    failure: Answer | None = None
    left_out, halved = 0, 0
    waiting: list[Examples] = []
    while (batch := waiting.pop() if waiting else next(batches, None)) is not None:
        answer = session.ask(batch.arrays)
        if answer.kind is AnswerKind.OUTPUTS:
            parts.append(read(dict(answer.outputs)))
            rows.append(batch.rows)
            continue
        refused = answer.kind is AnswerKind.REFUSED
        failure = failure if failure is not None and refused else answer
        if not refused or (not parts and halved >= _IN_VAIN):
            break
        if len(batch) > 1 and halved < _HALVED:
            halved += 1
            first, second = np.array_split(np.arange(len(batch)), 2)
            waiting += [batch.take(second), batch.take(first)]
        else:
            left_out += len(batch)
    scores = np.concatenate(parts) if parts else np.empty(0)
    return Predictions(scores, np.concatenate([np.empty(0, dtype=np.int64), *rows]), failure, left_out)
