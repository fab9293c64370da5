"""The rule of the robustness gate: how an answer to a probe counts, given how likely the probe is in serving."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.tensors import Array
from tidegate_validation.robustness.probes import Likelihood
from tidegate_validation.sandbox.answer import Answer, AnswerKind

_ACCIDENTS = frozenset(
    [
        "ArithmeticError",
        "AssertionError",
        "AttributeError",
        "BufferError",
        "EOFError",
        "ImportError",
        "LookupError",
        "MemoryError",
        "NameError",
        "NotImplementedError",
        "OSError",
        "RecursionError",
        "ReferenceError",
        "StopIteration",
        "SystemError",
        "SystemExit",
        "KeyboardInterrupt",
        "GeneratorExit",
    ]
)
_FINEST = {8: 1e-9, 4: 1e-2}
"""By the bytes of a float: answers smaller than that are told apart as if the largest were so large. In a float of four
bytes what is left of 1 has an error of 6e-8."""
_BARE_ACCIDENTS = frozenset({"Exception", "RuntimeError"})


def answered(answer: Answer) -> bool:
    """Whether finite numbers came."""
    return answer.kind is AnswerKind.OUTPUTS and answer.non_finite() is None


def by_accident(answer: Answer) -> bool:
    """Whether a refusal is an exception that no code raises to say that an input is wrong.

    A ValueError, a TypeError, an error of our family and a library's or model's own class say that; a KeyError, an
    IndexError, an OverflowError, a bare RuntimeError and the like are what a crash looks like in Python.
    """
    if answer.kind is not AnswerKind.REFUSED or not answer.raised:
        return False
    return answer.raised[0] in _BARE_ACCIDENTS or bool(_ACCIDENTS & set(answer.raised))


def judge_answer(likelihood: Likelihood, answer: Answer, baseline: Answer | None = None) -> Outcome:
    """FAIL for a process that ended or hung, for no finite answer to an everyday input, and for an accident.

    A typed refusal is right for what is rare, extreme or malformed. NaN is a FAIL for what is rare, a WARN for what is
    extreme; an answer to a malformed input is a WARN. What would FAIL is a WARN where the baseline does the same.
    """
    if answer.fatal:
        return Outcome.FAIL
    if answer.kind is AnswerKind.REFUSED:
        if likelihood is not Likelihood.EVERYDAY and not by_accident(answer):
            return Outcome.PASS
        return Outcome.WARN if baseline is not None and baseline.kind is AnswerKind.REFUSED else Outcome.FAIL
    if answer.non_finite() is not None:
        if likelihood is Likelihood.RARE and baseline is not None and baseline.non_finite() is not None:
            return Outcome.WARN
        return Outcome.FAIL if likelihood in (Likelihood.EVERYDAY, Likelihood.RARE) else Outcome.WARN
    return Outcome.WARN if likelihood is Likelihood.MALFORMED else Outcome.PASS


def units_of(outputs: Mapping[str, Array], before: Mapping[str, float]) -> dict[str, float]:
    """By the name of an output, the largest number of these answers and of those `before`, but 1 at the most."""
    found = dict(before)
    for name, array in outputs.items():
        if array.dtype.kind == "f" and array.size:
            largest = max(before.get(name, 0.0), _FINEST.get(array.dtype.itemsize, 1.0), float(np.abs(array).max()))
            found[name] = min(1.0, largest)
    return found


def rough_units(units: Mapping[str, float], outputs: Mapping[str, Array]) -> dict[str, float]:
    """The units, but 1 for floats of four bytes: what is left of large terms has the rounding errors of those, which
    other sizes of a batch change."""
    return {name: units[name] if array.dtype.itemsize > 4 else 1.0 for name, array in outputs.items() if name in units}


def largest_difference(
    one: Mapping[str, Array], other: Mapping[str, Array], units: Mapping[str, float] | None = None
) -> float:
    """The largest difference between two answers: of fractions as a share of the value, or of the output's unit where
    that is more (1 without `units`, see `units_of`); of whole numbers, which may be names of classes or items, as it
    is; infinite for answers of other shapes.
    """
    if one.keys() != other.keys():
        return float("inf")
    largest = 0.0
    for name, left in one.items():
        right = other[name]
        if left.shape != right.shape:
            return float("inf")
        if left.dtype.kind in "iu" and right.dtype.kind in "iu":
            largest = max(largest, _whole_difference(left, right))
        elif left.dtype.kind in "fiu":
            largest = max(largest, _number_difference(left, right, (units or {}).get(name, 1.0)))
        elif left.tolist() != right.tolist():
            return float("inf")
    return largest


def _whole_difference(left: Array, right: Array) -> float:
    """0, or at least 1 also where a float does not tell the numbers apart."""
    other = left != right
    distance = np.abs(left[other].astype(np.float64) - right[other].astype(np.float64))
    return max(1.0, float(distance.max())) if other.any() else 0.0


def _number_difference(left: Array, right: Array, unit: float) -> float:
    left, right = left.astype(np.float64), right.astype(np.float64)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    if same.all():
        return 0.0
    with np.errstate(invalid="ignore"):
        difference = np.abs(left - right)[~same] / np.maximum(unit, np.abs(right)[~same])
    return float(np.nan_to_num(difference, nan=np.inf, posinf=np.inf).max())
