"""The rule of the robustness gate: how an answer to a probe counts, given how likely the probe is in serving."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.tensors import Array
from tidegate_validation.robustness.probes import Likelihood
from tidegate_validation.sandbox.answer import Answer, AnswerKind
from tidegate_validation.statistics.arrays import Floats

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
_FAR = 0.15
"""Numbers far from 0, such as times, differ by this share of where they lie at the least: `tolerance` of it is 12 units
in the last place of float32 or more, and less than an hour of Unix seconds."""
_EXACT, _BITS = 1e-15, 24.0
"""Logarithms in float64 of what exp() made of numbers in float32 are these, but for so much of 1 or of themselves; that
many bits of theirs, of all together, have to say so."""
_NO_DECIMAL = "decimal.ConversionSyntax"
_BARE_ACCIDENTS = frozenset({"Exception", "RuntimeError"})


def answered(answer: Answer) -> bool:
    """Whether finite numbers came."""
    return answer.kind is AnswerKind.OUTPUTS and answer.non_finite() is None


def by_accident(answer: Answer) -> bool:
    """Whether a refusal is an exception that no code raises to say that an input is wrong.

    A ValueError, a TypeError, an error of our family and a library's or model's own class say that; a KeyError, an
    IndexError, an OverflowError, a bare RuntimeError and the like are what a crash looks like in Python. What Decimal()
    raises for a text that is no number is an ArithmeticError too.
    """
    if answer.kind is not AnswerKind.REFUSED or not answer.raised or _NO_DECIMAL in answer.words:
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


@dataclass(frozen=True, slots=True)
class Unit:
    """What the fractions of one output are like: `size` is the largest, but 1 at the most, `low` and `high` are their
    ends, and `single` says that floats of four bytes hold them all, or their logarithms, so that these may have been
    rounded as such.
    """

    size: float = 1.0
    low: float = 0.0
    high: float = 0.0
    single: bool = True

    def scale(self, values: Floats) -> Floats:
        """By what a difference from each value is divided: by the value, or the size where that is more. Far from 0, as
        times in seconds are, by no more than the range of the answers or 15 % of where they lie.
        """
        sizes = np.maximum(self.size, np.abs(values))
        if self.single:
            return sizes
        middle = self.low + (self.high - self.low) / 2
        room = max(self.high - self.low, _FAR * abs(middle), self.size)
        return np.minimum(sizes, np.maximum(room, np.abs(values - middle)))


def units_of(outputs: Mapping[str, Array], before: Mapping[str, Unit]) -> dict[str, Unit]:
    """By the name of an output, what the fractions of these answers and of those `before` are like."""
    found = dict(before)
    for name, array in outputs.items():
        if array.dtype.kind == "f" and array.size:
            low, high = float(array.min()), float(array.max())
            known = before.get(name, Unit(0.0, low, high))
            size = max(known.size, _FINEST.get(array.dtype.itemsize, 1.0), abs(low), abs(high))
            single = known.single and (_in_four_bytes(array) or _made_by_exp(array))
            found[name] = Unit(min(1.0, size), min(known.low, low), max(known.high, high), single)
    return found


def _in_four_bytes(array: Array) -> bool:
    with np.errstate(over="ignore"):
        return bool((array.astype(np.float32).astype(array.dtype) == array).all())


def _made_by_exp(array: Array) -> bool:
    """Whether they are e, 2 or 10 to the power of numbers in float32, a multiple of that, or what expm1() makes of
    them. The difference of two numbers in float32 that are less than twice as large as each other is in float32 too.
    """
    if not (array > 0).all():
        return False
    flat = array.ravel().astype(np.float64)
    for logarithm in (np.log, np.log1p, np.log2, np.log10):
        powers = logarithm(flat)
        room = _EXACT * np.maximum(1.0, np.abs(powers))
        for exact in (powers, powers - powers[0]):
            rounded = exact.astype(np.float32)
            bits = np.log2(np.maximum(1.0, np.abs(np.spacing(rounded)) / (2 * room)))
            if (np.abs(rounded - exact) <= room).all() and bits.sum() >= _BITS:
                return True
    return False


def rough_units(units: Mapping[str, Unit], outputs: Mapping[str, Array]) -> dict[str, Unit]:
    """The units, but 1 for floats of four bytes: what is left of large terms has the rounding errors of those, which
    other sizes of a batch change. Larger floats may come of such: far from 0 they differ by their size."""
    return {
        name: Unit(units[name].size if array.dtype.itemsize > 4 else 1.0)
        for name, array in outputs.items()
        if name in units
    }


def largest_difference(
    one: Mapping[str, Array], other: Mapping[str, Array], units: Mapping[str, Unit] | None = None
) -> float:
    """The largest difference between two answers: of fractions as a share of what `Unit.scale` says (of the value, or
    of 1 where that is more, without `units`); of whole numbers, which may be names of classes or items, as it
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
            largest = max(largest, _number_difference(left, right, (units or {}).get(name, Unit())))
        elif left.tolist() != right.tolist():
            return float("inf")
    return largest


def _whole_difference(left: Array, right: Array) -> float:
    """0, or at least 1 also where a float does not tell the numbers apart."""
    other = left != right
    distance = np.abs(left[other].astype(np.float64) - right[other].astype(np.float64))
    return max(1.0, float(distance.max())) if other.any() else 0.0


def _number_difference(left: Array, right: Array, unit: Unit) -> float:
    left, right = left.astype(np.float64), right.astype(np.float64)
    same = (left == right) | (np.isnan(left) & np.isnan(right))
    if same.all():
        return 0.0
    with np.errstate(invalid="ignore"):
        difference = np.abs(left - right)[~same] / unit.scale(right[~same])
    return float(np.nan_to_num(difference, nan=np.inf, posinf=np.inf).max())
