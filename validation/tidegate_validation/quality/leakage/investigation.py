"""Looks for the reason why a candidate is too good to be true: the input that gives the label away.

What it finds names the input, what that can do alone, and what is left of the candidate without it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass

import numpy as np

from tidegate_serving.contract.tensors import Array
from tidegate_validation.quality.evaluation import Evaluation
from tidegate_validation.quality.leakage.reference_learner import reference_power
from tidegate_validation.quality.leakage.single_feature import single_feature_powers
from tidegate_validation.quality.metrics.gains import power
from tidegate_validation.sandbox.examples import Examples
from tidegate_validation.statistics.arrays import Floats

_TRIED = 6
_MOST = 0.5
_LEAST = 0.5
_ROWS = 6000


@dataclass(frozen=True, slots=True)
class CandidateModel:
    """The candidate as it can be asked again: `shared` says of each of its inputs whether the baseline has it too,
    `examples` turns a table into its inputs, where rows have several sizes of those that most have; `score` returns its
    scores of them (None if it fails), and `width` is how many numbers one example has.
    """

    shared: Mapping[str, bool]
    examples: Callable[[object], Examples]
    score: Callable[[Examples], Floats | None]
    width: int = 1


@dataclass(frozen=True, slots=True)
class UnexpectedPower:
    """What is suspicious: the candidate's `power`, and the `reference` that was expected (the baseline's, or chance).

    `suspicious` says above which power a model is, given an honest one's; `giveaway` whether an input with such a power
    alone gives the label away.
    """

    power: float
    reference: float
    suspicious: Callable[[float], float]
    giveaway: Callable[[str, float], bool]


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

    `suspect` explains most of the gain, None where no single input does. `learners` is the power of reference learners
    with the inputs that the baseline has and that give nothing away, None without such inputs; `honest` says that this
    explains the candidate.
    """

    suspect: Suspect | None
    learners: float | None
    honest: bool = False


def investigate(
    evaluation: Evaluation, examples: Examples, unexpected: UnexpectedPower, model: CandidateModel
) -> Suspicion:
    """Why the candidate reaches its power where less is expected.

    It is honest where learners reach as much with the inputs that the baseline has, but for those that alone give the
    answer away: a baseline that makes nothing of such an input was not trained on it as it is now.
    """
    alone = single_feature_powers(evaluation, examples.arrays, frozenset(examples.arrays.keys() - model.shared.keys()))
    honest = [
        name for name, reached in alone.items() if model.shared.get(name) and not unexpected.giveaway(name, reached)
    ]
    learners = reference_power(evaluation, {name: examples.arrays[name] for name in honest}) if honest else None
    if learners is not None and unexpected.power <= unexpected.suspicious(max(learners, unexpected.reference)):
        return Suspicion(None, learners, honest=True)
    return Suspicion(_strongest_suspect(evaluation, examples, unexpected, model, alone), learners)


def _strongest_suspect(
    evaluation: Evaluation,
    examples: Examples,
    unexpected: UnexpectedPower,
    model: CandidateModel,
    alone: Mapping[str, float],
) -> Suspect | None:
    """The input whose shuffling costs the candidate most of what it has above the reference; new inputs come first.
    None where shuffling any of several does, of which none can do much alone: so a model answers that knows whole rows.
    """
    rows = evaluation.sample(_ROWS)
    evaluation, examples = evaluation.take(rows), examples.take(rows)
    whole = model.score(examples)
    if whole is None:
        return None
    reached = power(evaluation, whole).value
    gain = reached - unexpected.reference
    order = sorted(alone, key=lambda name: -alone[name])
    suspects: list[Suspect] = []
    for new in (True, False):
        for name in [one for one in order if model.shared.get(one) is not new][:_TRIED]:
            scores = model.score(examples.replaced(name, _shuffled(examples.arrays[name])))
            without = reached if scores is None else power(evaluation, scores).value
            if reached - without >= _MOST * gain:
                suspects.append(Suspect(name, alone[name], without, new))
        if suspects:
            break
    if len(suspects) > 1 and not any(one.alone - unexpected.reference >= _LEAST * gain for one in suspects):
        return None
    return min(suspects, key=lambda one: one.without, default=None)


def power_without(
    evaluation: Evaluation, examples: Examples, model: CandidateModel, names: Collection[str]
) -> tuple[float, float] | None:
    """The candidate's power with these inputs, and with the values of all of them shuffled; None where it fails."""
    rows = evaluation.sample(_ROWS)
    evaluation, examples = evaluation.take(rows), examples.take(rows)
    shuffled = examples
    for name in names:
        shuffled = shuffled.replaced(name, _shuffled(examples.arrays[name]))
    scores = model.score(examples), model.score(shuffled)
    if scores[0] is None or scores[1] is None:
        return None
    return power(evaluation, scores[0]).value, power(evaluation, scores[1]).value


def _shuffled(array: Array) -> Array:
    return np.asarray(array[np.random.default_rng(5).permutation(len(array))])
