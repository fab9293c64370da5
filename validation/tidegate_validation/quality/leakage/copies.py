"""Which of the inputs that each tell the label are copies of one: together they tell no more of it than the best alone.

Instruments that measure the same thing go together as copies do, such as two thermometers of one room, but each has
errors of its own, so that both tell more than one.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tidegate_serving.contract.tensors import Array
from tidegate_validation.quality.evaluation import Evaluation, Task
from tidegate_validation.quality.leakage.reference_learner import linear_power
from tidegate_validation.statistics.arrays import Floats

_COPY = 0.7
_LEFT = 0.8
"""What is left of the best one's error where another one tells something of its own."""
_NOTHING = 1e-6
_ROUNDING = 1e-5
"""Of power: a learner that is held back a little does not reach even the label itself."""


def copies(evaluation: Evaluation, inputs: Mapping[str, Array], told: Mapping[str, float]) -> list[str]:
    """Of inputs with their power, the strongest and those that go with it beyond what the label says of both, and tell
    no more of the label with it: honest inputs that each tell much of the label are measured apart."""
    strongest = max(told, key=lambda name: told[name], default="")
    rests = {name: rest for name in told if (rest := _beyond_the_label(evaluation, inputs[name])) is not None}
    if strongest not in rests:
        return [strongest] if told else []
    alike = [name for name in rests if name != strongest and _go_together(rests[name], rests[strongest])]
    alone = linear_power(evaluation, {strongest: inputs[strongest]}) if alike else 1.0

    def adds(name: str) -> bool:
        both = linear_power(evaluation, {one: inputs[one] for one in (strongest, name)})
        return 1 - both < _LEFT * (1 - alone) - _ROUNDING

    return [strongest, *(name for name in alike if not adds(name))]


def _go_together(one: Floats, other: Floats) -> bool:
    """Whether they do, or each is the label itself."""
    if not one.std() or not other.std():
        return bool(one.std() == other.std())
    return bool(abs(np.corrcoef(one, other)[0, 1]) >= _COPY)


def _beyond_the_label(evaluation: Evaluation, column: Array) -> Floats | None:
    """A number less its mean for the label, shape [n]; None of anything but numbers that are all there."""
    if column.dtype.kind not in "fiub" or column.size != len(column):
        return None
    values = column.reshape(-1).astype(np.float64)
    if not np.isfinite(values).all():
        return None
    if evaluation.task in (Task.BINARY, Task.MULTICLASS):
        labels = evaluation.labels.astype(np.int64)
        rest = values - (np.bincount(labels, weights=values) / np.maximum(np.bincount(labels), 1))[labels]
    else:
        rest = values - np.polyval(np.polyfit(evaluation.labels, values, 1), evaluation.labels)
    return np.asarray(np.where(np.abs(rest) <= _NOTHING * np.abs(values).max(), 0.0, rest))
