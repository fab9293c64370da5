"""The rule of the robustness gate: how an answer to a probe counts, given how likely the probe is in the world.

`gate` asks it for every answer; words are made in `finding`.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tidegate_serving.contract.tensors import Array
from tidegate_serving.contract.verdict import Outcome
from tidegate_validation.robustness.answer import Answer, AnswerKind
from tidegate_validation.robustness.probes import Likelihood


def judge_answer(likelihood: Likelihood, answer: Answer, baseline: Answer | None = None) -> Outcome:
    """FAIL for a process that ended or hung, and for no finite answer to an everyday input.

    A typed refusal is right for what is odd or malformed; for an everyday input it is a WARN where the baseline refuses
    the same, else a FAIL. NaN for an odd input, and an answer to a malformed one, are WARN.
    """
    if answer.fatal:
        return Outcome.FAIL
    everyday = likelihood is Likelihood.EVERYDAY
    if answer.kind is AnswerKind.REFUSED:
        if not everyday:
            return Outcome.PASS
        return Outcome.WARN if baseline is not None and baseline.kind is AnswerKind.REFUSED else Outcome.FAIL
    if answer.non_finite() is not None:
        return Outcome.FAIL if everyday else Outcome.WARN
    return Outcome.WARN if likelihood is Likelihood.MALFORMED else Outcome.PASS


def largest_difference(one: Mapping[str, Array], other: Mapping[str, Array]) -> float:
    """The largest difference between two answers, relative to values above 1; infinite for answers of other shapes."""
    if one.keys() != other.keys():
        return float("inf")
    largest = 0.0
    for name, left in one.items():
        right = other[name]
        if left.shape != right.shape:
            return float("inf")
        if left.dtype.kind in "fiu":
            largest = max(largest, _number_difference(left.astype(np.float64), right.astype(np.float64)))
        elif left.tolist() != right.tolist():
            return float("inf")
    return largest


def _number_difference(left: Array, right: Array) -> float:
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    if same.all():
        return 0.0
    with np.errstate(invalid="ignore"):
        difference = np.abs(left - right)[~same] / np.maximum(1.0, np.abs(right)[~same])
    return float(np.nan_to_num(difference, nan=np.inf, posinf=np.inf).max())
