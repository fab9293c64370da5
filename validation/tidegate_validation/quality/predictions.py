"""Predictions of a version for many examples, asked in bounded batches through the sandbox.

The quality gate makes one set per version and one per input that it takes away; a version that fails says how.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidegate_serving.contract.signature import TensorSpec
from tidegate_validation.quality.outputs import as_scores
from tidegate_validation.robustness.answer import Answer, AnswerKind
from tidegate_validation.robustness.examples import Examples
from tidegate_validation.robustness.session import Session


@dataclass(frozen=True, slots=True)
class Predictions:
    """`scores` per example, shape [n]; where a batch was not answered, `failure` is its answer and scores end there."""

    scores: npt.NDArray[np.float64]
    failure: Answer | None = None


def predict(session: Session, examples: Examples, output: TensorSpec, batch_rows: int) -> Predictions:
    """Asks for all examples, in order; stops at the first batch without an answer."""
    parts: list[npt.NDArray[np.float64]] = []
    for start in range(0, len(examples), batch_rows):
        batch = examples.take(np.arange(start, min(start + batch_rows, len(examples))))
        answer = session.ask(batch.arrays)
        if answer.kind is not AnswerKind.OUTPUTS:
            return Predictions(_joined(parts), answer)
        parts.append(as_scores(output, answer.outputs))
    return Predictions(_joined(parts))


def _joined(parts: list[npt.NDArray[np.float64]]) -> npt.NDArray[np.float64]:
    return np.concatenate(parts) if parts else np.empty(0)
