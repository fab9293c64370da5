"""Numbers that a version keeps as float16, which ends at 65,504: the few examples above are answered as infinity is.

Asked of inputs whose real values reach beyond that alone. Nothing else shows it where such rows are too few to count.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.tensors import Array
from tidegate_validation.counts import counted
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.robustness.judgement import answered
from tidegate_validation.sandbox.examples import Examples

_ROWS = 8
_END = 65_504
_VALUES = (32_768.0, 65_472.0, 65_504.0, 65_520.0, 131_072.0, 262_144.0)
"""float16 holds the first three; the fourth is the least that it makes infinity of, closer to its end than the largest
number of 16 bits, 65,535, at which sensors end and trees part."""
_LEAPS = 20.0
"""Times as much as the answer changes over the same distance before."""


def half_precision(examination: Examination) -> None:
    """A WARN for each input beyond whose value of 65,504 answers leap, and never change again."""
    if examination.good is None or not examination.real_rows or not examination.steady:
        return
    rows = examination.answered_rows(_ROWS)
    for name, array in examination.data.arrays.items():
        if array.dtype.kind != "f" or array.dtype.itemsize < 4 or array.size != len(array):
            continue
        beyond = int((np.abs(np.where(np.isfinite(array), array, 0.0)) > _END).sum())
        if not beyond:
            continue
        tried = rows.take(np.tile(np.arange(len(rows)), len(_VALUES)))
        values = np.repeat(np.array(_VALUES, dtype=array.dtype), len(rows)).reshape(tried.arrays[name].shape)
        answer = examination.ask(tried.replaced(name, values))
        leap = _leap(examination, answer.outputs, len(rows)) if answered(answer) else 0.0
        if leap:
            _report(examination, name, beyond, leap, tried)


def _leap(examination: Examination, outputs: Mapping[str, Array], rows: int) -> float:
    """By how much answers change from below the end to behind it; 0 where they change before or behind as well."""
    parts = [{name: array[start : start + rows] for name, array in outputs.items()} for start in _starts(rows)]
    far, near, last, first, behind, further = parts
    tolerance = examination.limits.tolerance
    leap, before = examination.difference(first, last), examination.difference(last, near)
    still = max(examination.difference(behind, first), examination.difference(further, first))
    alive = examination.difference(near, far)
    leaps = leap > max(_LEAPS * before, tolerance) and alive > tolerance
    return leap if leaps and still <= tolerance else 0.0


def _starts(rows: int) -> range:
    return range(0, rows * len(_VALUES), rows)


def _report(examination: Examination, name: str, beyond: int, leap: float, tried: Examples) -> None:
    examination.report(
        "numbers",
        name,
        Outcome.WARN,
        f"beyond 65,504 in `{name}` its answers leap, by up to {leap:.3g}, and are the same for all such numbers: it "
        f"seems to keep them as float16, which ends there; {counted(beyond, 'row')} of the data lie beyond",
        number=float(beyond),
        limit=0.0,
        example={"input": tried.row(len(tried) // 2)},
        cause={"kind": "float16"},
    )
