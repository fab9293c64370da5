"""Whether a candidate knows the held-out examples by heart: numbers moved by next to nothing are other rows to it.

An honest model hardly answers otherwise, however good it is, for what it learnt holds beside an example as well.
"""

from __future__ import annotations

import numpy as np

from tidegate_serving.contract.tensors import Array
from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.leakage.investigation import CandidateModel
from tidegate_validation.quality.metrics.gains import power
from tidegate_validation.sandbox.examples import Examples

_ROWS = 6000
_SHARE = 1e-4
"""Numbers move by such a share of their spread, at most."""
_DISTINCT = 0.5
"""Columns of fractions of which so many differ are measured; others may be codes, which a model looks up."""
_MOST = 0.5


def known_by_heart(
    evaluation: Evaluation, examples: Examples, model: CandidateModel, reference: float
) -> tuple[float, float] | None:
    """The candidate's power, and what is left of it with all measured numbers nudged, where that is less than half of
    what it has above the reference; else None, as without such numbers."""
    rows = evaluation.sample(_ROWS)
    evaluation, examples = evaluation.take(rows), examples.take(rows)
    random, nudged = np.random.default_rng(7), examples
    for name, array in examples.arrays.items():
        if _is_measured(array):
            nudged = nudged.replaced(name, _nudged(array, random))
    if nudged is examples:
        return None
    whole, moved = model.score(examples), model.score(nudged)
    if whole is None or moved is None:
        return None
    reached, left = power(evaluation, whole).value, power(evaluation, moved).value
    return (reached, left) if reached - left > _MOST * (reached - reference) else None


def _is_measured(array: Array) -> bool:
    if array.dtype.kind != "f" or not array.size:
        return False
    finite = array[np.isfinite(array)].astype(np.float64)
    return bool(len(np.unique(finite)) > _DISTINCT * array.size and (finite != np.round(finite)).any())


def _nudged(array: Array, random: np.random.Generator) -> Array:
    """Each number a little further up or down, at least to the next one that its dtype has."""
    finite = array[np.isfinite(array)].astype(np.float64)
    up = random.random(array.shape) < 0.5
    moved = (array + np.where(up, 1.0, -1.0) * _SHARE * finite.std()).astype(array.dtype)
    beside = np.nextafter(array, np.where(up, np.inf, -np.inf).astype(array.dtype))
    return np.asarray(np.where(moved == array, beside, moved))
