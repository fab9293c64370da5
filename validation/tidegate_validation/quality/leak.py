"""Looks for the reason why a model is too good to be true: the input that gives the answer away.

`gate` asks when the candidate's power passes the limit; the answer names the input, what it can do alone, and what is
left of the candidate without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tidegate_validation.quality.ceiling import honest_power
from tidegate_validation.quality.compared import Evaluation
from tidegate_validation.quality.lone import lone_power
from tidegate_validation.quality.metrics import Floats
from tidegate_validation.robustness.examples import Examples

_TRIED = 6
_MOST = 0.5
_NEAR = 0.01
_ROWS = 6000


@dataclass(frozen=True, slots=True)
class Suspect:
    """One input: its power `alone`, the candidate's power `without` it (its values shuffled), whether it is `new`."""

    name: str
    alone: float
    without: float
    new: bool


@dataclass(frozen=True, slots=True)
class Suspicion:
    """What was found about a model that is too good.

    `suspect` explains most of the gain, None where no single input does; `ceiling` is what honest trees reach with the
    inputs that the baseline has, None without a baseline; `honest` says that this explains the candidate.
    """

    suspect: Suspect | None
    ceiling: float | None

    def honest(self, power: float) -> bool:
        """Whether a candidate of this power is no better than what the baseline's inputs allow."""
        return self.ceiling is not None and power <= self.ceiling + _NEAR


def lone_powers(evaluation: Evaluation, examples: Examples, skip: frozenset[str]) -> dict[str, float]:
    """Power of every input by itself."""
    return {name: lone_power(evaluation, array) for name, array in examples.arrays.items() if name not in skip}


def investigate(
    evaluation: Evaluation,
    examples: Examples,
    power: float,
    reference: float,
    known: Mapping[str, bool],
    score: Callable[[Examples], Floats | None],
) -> Suspicion:
    """Why the candidate reaches `power` where `reference` (the baseline, or chance) is expected.

    `known` says of each input whether the baseline has it; `score` asks the candidate for scores, None if it fails.
    """
    old = {name: array for name, array in examples.arrays.items() if known.get(name)}
    ceiling = honest_power(evaluation, old) if old else None
    if ceiling is not None and power <= ceiling + _NEAR:
        return Suspicion(None, ceiling)
    alone = lone_powers(evaluation, examples, frozenset(examples.arrays.keys() - known.keys()))
    return Suspicion(_most_guilty(evaluation, examples, reference, known, alone, score), ceiling)


def _most_guilty(
    evaluation: Evaluation,
    examples: Examples,
    reference: float,
    known: Mapping[str, bool],
    alone: Mapping[str, float],
    score: Callable[[Examples], Floats | None],
) -> Suspect | None:
    """The input whose shuffling costs the candidate most of what it has above the reference; new inputs come first."""
    evaluation, examples = _bounded(evaluation, examples)
    whole = score(examples)
    if whole is None:
        return None
    power = evaluation.power(whole).value
    order = sorted(alone, key=lambda name: -alone[name])
    guilty: list[Suspect] = []
    for group in ([name for name in order if not known.get(name)], [name for name in order if known.get(name)]):
        for name in group[:_TRIED]:
            scores = score(examples.replaced(name, _shuffled(examples.arrays[name])))
            without = power if scores is None else evaluation.power(scores).value
            if power - without >= _MOST * (power - reference):
                guilty.append(Suspect(name, alone[name], without, not known.get(name)))
        if guilty:
            break
    return min(guilty, key=lambda one: one.without, default=None)


def _bounded(evaluation: Evaluation, examples: Examples) -> tuple[Evaluation, Examples]:
    if len(examples) <= _ROWS:
        return evaluation, examples
    chosen = np.sort(np.random.default_rng(6).choice(len(examples), _ROWS, replace=False))
    return (
        Evaluation(evaluation.task, evaluation.labels[chosen], evaluation.groups[chosen]),
        examples.take(chosen),
    )


def _shuffled(array: Floats) -> Floats:
    return np.asarray(array[np.random.default_rng(5).permutation(len(array))])
