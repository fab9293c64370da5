"""Looks for the reason why a model is too good to be true: the input that gives the answer away.

`gate` asks when the candidate's power passes the limit; the answer names the input, what it can do alone, and what is
left of the candidate without it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np

from tidegate_serving.contract.tensors import Array
from tidegate_validation.quality.ceiling import honest_power
from tidegate_validation.quality.compared import power
from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.lone import lone_power
from tidegate_validation.quality.metrics import Floats
from tidegate_validation.sandbox.examples import Examples

_TRIED = 6
_MOST = 0.5
_ROWS = 6000

Score = Callable[[Examples], Floats | None]


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

    `suspect` explains most of the gain, None where no single input does; `ceiling` is what honest learners reach with
    the inputs that the baseline has and that give nothing away, None without such; `honest` says that this
    explains the candidate.
    """

    suspect: Suspect | None
    ceiling: float | None
    honest: bool = False


@dataclass(frozen=True, slots=True)
class Accused:
    """The candidate: its `power`, what was expected (`reference`: the baseline's, or chance), which inputs the baseline
    has as well (`known`), how to have it `score` examples (None if it fails), from which power on a model is
    `suspicious`, given an honest one's, and from which power on an input alone is a `giveaway`.
    """

    power: float
    reference: float
    known: Mapping[str, bool]
    score: Score
    suspicious: Callable[[float], float]
    giveaway: Callable[[str, float], bool]


def lone_powers(evaluation: Evaluation, examples: Examples, skip: frozenset[str]) -> dict[str, float]:
    """Power of every input by itself."""
    return {name: lone_power(evaluation, array) for name, array in examples.arrays.items() if name not in skip}


def investigate(evaluation: Evaluation, examples: Examples, accused: Accused) -> Suspicion:
    """Why the candidate reaches its power where less is expected.

    It is honest where learners reach as much with the inputs that the baseline has, but for those that alone give the
    answer away: a baseline that makes nothing of such an input was not trained on it as it is now.
    """
    alone = lone_powers(evaluation, examples, frozenset(examples.arrays.keys() - accused.known.keys()))
    honest = [name for name, power in alone.items() if accused.known.get(name) and not accused.giveaway(name, power)]
    ceiling = honest_power(evaluation, {name: examples.arrays[name] for name in honest}) if honest else None
    if ceiling is not None and accused.power <= accused.suspicious(max(ceiling, accused.reference)):
        return Suspicion(None, ceiling, honest=True)
    return Suspicion(_most_guilty(evaluation, examples, accused, alone), ceiling)


def sample_of(evaluation: Evaluation, most: int) -> Array:
    """At most so many rows, of a ranking whole queries."""
    everything = np.arange(len(evaluation))
    if len(evaluation) <= most:
        return everything
    random = np.random.default_rng(6)
    if evaluation.queries is None:
        return np.sort(random.choice(everything, most, replace=False))
    queries = np.unique(evaluation.queries)
    kept = random.choice(queries, max(len(queries) * most // len(evaluation), 1), replace=False)
    return np.flatnonzero(np.isin(evaluation.queries, kept))


def _most_guilty(
    evaluation: Evaluation, examples: Examples, accused: Accused, alone: Mapping[str, float]
) -> Suspect | None:
    """The input whose shuffling costs the candidate most of what it has above the reference; new inputs come first."""
    rows = sample_of(evaluation, _ROWS)
    evaluation, examples = evaluation.take(rows), examples.take(rows)
    whole = accused.score(examples)
    if whole is None:
        return None
    reached = power(evaluation, whole).value
    order = sorted(alone, key=lambda name: -alone[name])
    guilty: list[Suspect] = []
    for new in (True, False):
        for name in [one for one in order if accused.known.get(one) is not new][:_TRIED]:
            scores = accused.score(examples.replaced(name, _shuffled(examples.arrays[name])))
            without = reached if scores is None else power(evaluation, scores).value
            if reached - without >= _MOST * (reached - accused.reference):
                guilty.append(Suspect(name, alone[name], without, new))
        if guilty:
            break
    return min(guilty, key=lambda one: one.without, default=None)


def _shuffled(array: Array) -> Array:
    return np.asarray(array[np.random.default_rng(5).permutation(len(array))])
