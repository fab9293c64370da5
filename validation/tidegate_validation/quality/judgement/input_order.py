"""Says whether a candidate reads its inputs in another order than the baseline: with some of them in each other's place
it would answer as that one does.

Nothing else that is refused is told by its answers alone: neither labels nor slices say which columns were mixed up.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_serving.contract.tensors import Array
from tidegate_validation.quality.data.held_out import ScoredExamples
from tidegate_validation.quality.leakage.investigation import CandidateModel
from tidegate_validation.quality.metrics.gains import SERVING
from tidegate_validation.sandbox.examples import Examples

CHECK = "input order"
_ROWS = 200
_MOST_INPUTS = 10
_NEARER = 0.25
"""What differs from the baseline's answers by no more than this share is a retrain's own."""
_Order = tuple[str, ...]


def judge_input_order(scored: ScoredExamples, model: CandidateModel) -> list[Finding]:
    """A finding where another order of the inputs, each of one number and of one dtype, brings the candidate's answers
    far nearer to the baseline's: of two of them swapped, or of all of a dtype sorted by name. Of a version that is
    refused, and begins what refuses it."""
    if scored.baseline is None:
        return []
    rows = scored.evaluation.sample(_ROWS)
    examples = model.examples(scored.held_out.table.take(rows))
    baseline = scored.baseline[rows][examples.rows]
    names = [name for name, array in examples.arrays.items() if model.shared.get(name) and array.size == len(array)]
    whole = model.score(examples)
    if whole is None or not len(examples):
        return []
    own = float(np.abs(whole - baseline).mean())
    found: dict[tuple[_Order, _Order], float] = {}
    for order in _orders(examples, names):
        scores = model.score(_read(examples, *order))
        if scores is not None:
            found[order] = float(np.abs(scores - baseline).mean())
    best = min(found, key=lambda order: found[order], default=None)
    if best is None or not own or found[best] > _NEARER * own:
        return []
    return [_finding(best, own, found[best])]


def _orders(examples: Examples, names: list[str]) -> Iterator[tuple[_Order, _Order]]:
    """Inputs, and those whose values they get."""

    def kind(name: str) -> str:
        return examples.arrays[name].dtype.str

    for _, group in itertools.groupby(sorted(names, key=kind), kind):
        alike = list(group)
        yield from (((one, other), (other, one)) for one, other in itertools.combinations(alike[:_MOST_INPUTS], 2))
        given, by_name = tuple(alike), tuple(sorted(alike))
        if len(alike) > 2 and given != by_name:
            yield given, by_name
            yield by_name, given


def _read(examples: Examples, names: _Order, others: _Order) -> Examples:
    arrays: dict[str, Array] = {name: examples.arrays[other] for name, other in zip(names, others, strict=True)}
    for name, array in arrays.items():
        examples = examples.replaced(name, array)
    return examples


def _finding(order: tuple[_Order, _Order], own: float, nearer: float) -> Finding:
    names, others = order
    moved = {name: other for name, other in zip(names, others, strict=True) if name != other}
    if len(moved) == 2:
        what = "`{}` and `{}` in each other's place".format(*moved)
    else:
        what = ", ".join(f"`{other}` in the place of `{name}`" for name, other in [*moved.items()][:4])
        what += " ..." if len(moved) > 4 else ""
    sentence = (
        f"it reads its inputs in another order: with {what} its answers differ from those of {SERVING} by {nearer:.3g} "
        f"in the mean, in place of {own:.3g}; have it read them by name"
    )
    cause = {"kind": CHECK, "inputs": moved}
    return Finding(CHECK, next(iter(moved)), Outcome.FAIL, sentence, number=nearer, limit=_NEARER * own, cause=cause)
