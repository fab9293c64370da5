"""Whether a candidate knows the held-out examples by heart: numbers moved by next to nothing are other rows to it.

An honest model hardly answers otherwise, however good it is, for what it learnt holds beside an example as well. Where
it does, as one that subtracts two large numbers or reads the hour out of a time, it answers differently on either side;
one that knows examples by heart answers alike on both sides, and otherwise on the example alone.
"""

from __future__ import annotations

import numpy as np

from tidegate_serving.contract.tensors import Array
from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.leakage.investigation import CandidateModel
from tidegate_validation.quality.metrics.gains import power
from tidegate_validation.sandbox.examples import Examples
from tidegate_validation.statistics.arrays import Floats

_ROWS = 6000
_SHARE = 1e-4
"""Numbers move by such a share of their spread, all of a row the same way: what lies between them hardly changes."""
_DISTINCT = 0.5
"""Columns of fractions of which so many differ are measured; others may be codes, which a model looks up."""
_OFTEN = 0.01
"""A value that so many rows share, as nought or what stands for a missing one, may be a code as well."""
_QUARTERS = 1.349
"""How many standard deviations lie between the quarters of a normal distribution: a few huge numbers move none."""
_DECIMALS = 3
"""Numbers of so few decimals, such as prices, move by whole ones: what is decided by the cents stays as it is."""
_WHOLE = 0.1
"""The most that a whole one may be as a share of their spread."""
_MOST = 0.5
_ALIKE = 0.5


def known_by_heart(
    evaluation: Evaluation, examples: Examples, model: CandidateModel, reference: float
) -> tuple[float, float] | None:
    """The candidate's power, and what is left of it with all measured numbers nudged up or down, where either is less
    than half of what it has above the reference and both come of much the same answers; else None, as without such
    numbers."""
    rows = evaluation.sample(_ROWS)
    evaluation, examples = evaluation.take(rows), examples.take(rows)
    every = {name: _steps(array) for name, array in examples.arrays.items() if array.dtype.kind == "f"}
    steps = {name: step for name, step in every.items() if step.any()}
    whole = model.score(examples) if steps else None
    if whole is None:
        return None
    reached, beside = power(evaluation, whole).value, list[Floats]()
    for way in (1.0, -1.0):
        moved = examples
        for name, step in steps.items():
            moved = moved.replaced(name, _nudged(examples.arrays[name], way * step))
        scores = model.score(moved)
        if scores is None or reached - power(evaluation, scores).value <= _MOST * (reached - reference):
            return None
        beside.append(scores)
    apart, off = (float(np.abs(one - beside[0]).mean()) for one in (beside[1], whole))
    left = max(power(evaluation, scores).value for scores in beside)
    return (reached, left) if apart <= _ALIKE * off else None


def _steps(array: Array) -> Floats:
    """By how much each number moves, shape [n, ...]; of vectors each part by itself."""
    parts = array.reshape(len(array), -1)
    steps = np.zeros(parts.shape)
    for place in range(parts.shape[1]):
        steps[:, place] = _step(parts[:, place])
    return steps.reshape(array.shape)


def _step(column: Array) -> Floats:
    """By how much each number of a column moves, shape [n]: 0 in columns that are not measured."""
    values, place, counts = np.unique(column, return_inverse=True, return_counts=True)
    single = np.isfinite(values) & (counts <= max(_OFTEN * len(column), 1))
    measured = values[single].astype(np.float64)
    if len(values) <= _DISTINCT * len(column) or (measured == np.round(measured)).all():
        return np.zeros(len(column))
    low, high = np.quantile(measured, [0.25, 0.75])
    spread = min(float(high - low) / _QUARTERS, float(measured.std()))
    step = _SHARE * spread
    if _WHOLE * spread >= 1 and _has_few_decimals(values[single]):
        step = max(1.0, np.round(step))
    return np.asarray(np.where(single, step, 0.0)[place])


def _has_few_decimals(values: Array) -> bool:
    """Whether each is, as nearly as its dtype holds it, a number of a few decimals."""
    exact = values.astype(np.float64)
    with np.errstate(over="ignore"):
        return bool((np.abs(exact - exact.round(_DECIMALS)) <= np.spacing(np.abs(values))).all())


def _nudged(array: Array, step: Floats) -> Array:
    """Each number moved by its step, at least to the next one that its dtype has."""
    moved = (array + step).astype(array.dtype)
    beside = np.nextafter(array, np.copysign(np.inf, step).astype(array.dtype))
    return np.asarray(np.where((moved == array) & (step != 0), beside, moved))
