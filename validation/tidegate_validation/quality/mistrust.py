"""Mistrusts a candidate that is too good: is it better than an honest model could be, and which input tells it?

`gate` hands in the scores and a way to ask the candidate again; one finding comes back.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidegate_serving.admission.verdict import Finding
from tidegate_validation.quality import prediction_finding as words
from tidegate_validation.quality.compared import chance, power
from tidegate_validation.quality.evaluation import Evaluation, Task
from tidegate_validation.quality.judging import Scored
from tidegate_validation.quality.leak import Accused, Score, investigate, lone_powers, sample_of
from tidegate_validation.quality.rule import QualityRule, suspicious_power
from tidegate_validation.sandbox.examples import Examples

_ROWS = 20_000
_NUMBERS = 20_000_000
_FEWEST = 200


@dataclass(frozen=True, slots=True)
class Witness:
    """The candidate, asked again: `known` says of each of its inputs whether the baseline has it, `examples` makes its
    inputs of some rows, `width` numbers each, `score` its scores of them.
    """

    known: Mapping[str, bool]
    examples: Callable[[object], Examples]
    score: Score
    width: int = 1


def mistrust(scored: Scored, witness: Witness, rule: QualityRule) -> Finding:
    """Whether the candidate is believable, and if not why."""
    reached = power(scored.evaluation, scored.candidate)
    rows = sample_of(scored.evaluation, max(min(_ROWS, _NUMBERS // witness.width), _FEWEST))
    part = scored.evaluation.take(rows)
    examples = witness.examples(scored.held_out.table.take(rows))
    from_here = _scaled(scored.evaluation, rule.lone_limit)

    def giveaway(name: str, alone: float) -> bool:
        return alone >= from_here and name not in rule.trusted

    if scored.baseline is not None:
        reference = power(scored.evaluation, scored.baseline).value
        limit = suspicious_power(reference, rule)
        suspected = reached.interval(rule.alpha)[0] > limit
    else:
        reference, limit = chance(scored.evaluation), _scaled(scored.evaluation, rule.first_limit)
        alone = lone_powers(part, examples, frozenset(examples.arrays.keys() - witness.known.keys()))
        suspected = reached.interval(rule.alpha)[0] > limit or any(giveaway(*one) for one in alone.items())
    if not suspected:
        return words.believable(scored.evaluation, reached.value, limit)
    accused = Accused(
        reached.value, reference, witness.known, witness.score, lambda honest: suspicious_power(honest, rule), giveaway
    )
    suspicion = investigate(part, examples, accused)
    against = reference if scored.baseline is not None else None
    return words.too_good(scored.evaluation, reached.value, against, limit, suspicion, rule)


def _scaled(evaluation: Evaluation, limit: float) -> float:
    """A limit on power; of a ranking, where much is reached by chance, that share of the way from chance to 1."""
    if evaluation.task != Task.RANKING:
        return limit
    guess = chance(evaluation)
    return guess + limit * (1 - guess)
