"""Predictions of a version for many examples, asked in bounded batches through the sandbox.

Rows of a table become tensors one batch at a time, so that only the scores take memory that grows with the table.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tidegate_serving.contract.signature import Signature
from tidegate_serving.contract.tensors import Array
from tidegate_validation.sandbox.answer import Answer, AnswerKind
from tidegate_validation.sandbox.examples import Examples, groups_of
from tidegate_validation.sandbox.session import Session
from tidegate_validation.statistics.arrays import Floats, Integers

Read = Callable[[dict[str, Array]], Floats]
_HALVED, _HALVED_SECONDS = 2000, 60.0
"""Batches that are refused are halved so often and asked in parts for so long, all of them together; then they are left
out as a whole."""
_IN_VAIN, _PLACES = 30, 4
"""A batch is given up after so many halvings by which none of its rows was answered, and a table after so many places
where none was."""

_KEPT_ROWS, _KEPT_WIDTH = 20_000, 64
"""Of outputs that are kept beside the scores, so many rows, and only those with so many numbers a row."""


@dataclass(frozen=True, slots=True)
class Predictions:
    """`scores` per example, shape [n] or [n, k], of the table's `rows`, shape [n].

    `refused` rows have none, for they were refused one by one, and `untried` rows, of batches that were not halved
    further; `kept` holds further outputs of the first rows asked by name, shape [m, k], of the table's `kept_rows`,
    shape [m]. `failure` is the first refusal, and `at_once` how many rows the smallest batch had that was refused.
    Where a batch ended the process, `failure` is what came of it, and no more was asked.
    """

    scores: Floats
    rows: Integers
    failure: Answer | None = None
    refused: int = 0
    untried: int = 0
    at_once: int = 0
    kept: Mapping[str, Array] = field(default_factory=dict)
    kept_rows: Integers = field(default_factory=lambda: np.empty(0, dtype=np.int64))

    def strange(self) -> Integers:
        """Places of examples with NaN or infinity."""
        finite = np.isfinite(self.scores)
        return np.flatnonzero(~(finite if finite.ndim == 1 else finite.all(axis=1)))

    @property
    def usable(self) -> bool:
        """Whether every example has a finite score."""
        return self.failure is None and not len(self.strange())


def predict_table(
    session: Session, signature: Signature, table: Any, read: Read, batch_rows: int, keep: Sequence[str] = ()
) -> Predictions:
    """Asks for all rows of a pyarrow.Table that can be sent; the scores are in the table's order. `keep` names outputs
    that are wanted as they are, too.

    Batches that are refused are halved, so that one bad row does not cost the others. They are asked from all over the
    table in turn: one that is sorted has the rows that are refused in one place.
    """
    asked = _Asked(session, read, keep)
    places = -(-table.num_rows // batch_rows)
    in_vain = 0
    for done, place in enumerate(_spread(places)):
        start, most = place * batch_rows, asked.halved + -(-(_HALVED - asked.halved) // (places - done))
        for batch in groups_of(signature, table.slice(start, batch_rows)):
            if len(batch):
                asked.ask(Examples(batch.arrays, batch.rows + start), most)
        in_vain += asked.failure is not None and not asked.parts
        if asked.over or in_vain == _PLACES:
            break
    return asked.predictions()


def predict(session: Session, examples: Examples, read: Read, batch_rows: int) -> Predictions:
    """Asks for all examples, in order, until a batch is refused."""
    asked = _Asked(session, read, ())
    for start in range(0, len(examples), batch_rows):
        asked.ask(examples.take(np.arange(start, min(start + batch_rows, len(examples)))), 0)
        if asked.failure is not None:
            break
    return asked.predictions()


def _spread(count: int) -> list[int]:
    """0 to `count` - 1, in an order that soon comes to all parts: by the bits of each, the last one first."""
    bits = max(count - 1, 1).bit_length()
    return sorted(range(count), key=lambda place: f"{place:0{bits}b}"[::-1])


@dataclass(slots=True)
class _Asked:
    """What was answered so far, by batch; `over` where a batch ended the process."""

    session: Session
    read: Read
    keep: Sequence[str]
    parts: list[Floats] = field(default_factory=list)
    rows: list[Integers] = field(default_factory=list)
    failure: Answer | None = None
    refused: int = 0
    untried: int = 0
    at_once: int = 0
    halved: int = 0
    halved_seconds: float = 0.0
    over: bool = False
    kept: list[dict[str, Array]] = field(default_factory=list)
    kept_rows: list[Integers] = field(default_factory=list)

    def ask(self, batch: Examples, most: int) -> None:
        """Halves what is refused until `halved` is `most`. As long as none of the rows is answered the largest part is
        asked next in every other turn: rows that are refused may lie side by side as well as scattered."""
        waiting, begun, answered = [batch], self.halved, len(self.parts)
        while waiting and not self.over:
            in_vain = len(self.parts) == answered
            part = waiting.pop(0 if in_vain and self.halved % 2 else -1)
            answer = self.session.ask(part.arrays)
            self.halved_seconds += answer.seconds if len(part) < len(batch) else 0.0
            if answer.kind is AnswerKind.OUTPUTS:
                self.parts.append(self.read(dict(answer.outputs)))
                self.rows.append(part.rows)
                self._keep(answer.outputs, part.rows)
                continue
            self.over = answer.kind is not AnswerKind.REFUSED
            self.failure = answer if self.failure is None or self.over else self.failure
            self.at_once = min(self.at_once or len(part), len(part))
            left = self.halved < most and self.halved_seconds < _HALVED_SECONDS
            if len(part) == 1:
                self.refused += 1
            elif left and not (in_vain and self.halved - begun >= _IN_VAIN):
                self.halved += 1
                first, second = np.array_split(np.arange(len(part)), 2)
                waiting = sorted([*waiting, part.take(second), part.take(first)], key=len, reverse=True)
            else:
                self.untried += len(part)

    def _keep(self, outputs: Mapping[str, Array], rows: Integers) -> None:
        if self.keep and sum(map(len, self.kept_rows)) < _KEPT_ROWS:
            flat = {name: outputs[name].reshape(len(rows), -1) for name in self.keep}
            self.kept.append({name: array for name, array in flat.items() if array.shape[1] <= _KEPT_WIDTH})
            self.kept_rows.append(rows)

    def _kept(self) -> dict[str, Array]:
        """Of outputs that have as many numbers in every row."""
        widths = {name: {part[name].shape[1] if name in part else 0 for part in self.kept} for name in self.keep}
        alike = [name for name, found in widths.items() if len(found) == 1 and 0 not in found]
        return {name: np.concatenate([part[name] for part in self.kept]) for name in alike}

    def predictions(self) -> Predictions:
        """In the order of the rows."""
        rows = np.concatenate([np.empty(0, dtype=np.int64), *self.rows])
        scores = np.concatenate(self.parts) if self.parts else np.empty(0)
        order = np.argsort(rows, kind="stable")
        kept = self._kept(), np.concatenate([np.empty(0, dtype=np.int64), *self.kept_rows])
        return Predictions(scores[order], rows[order], self.failure, self.refused, self.untried, self.at_once, *kept)
