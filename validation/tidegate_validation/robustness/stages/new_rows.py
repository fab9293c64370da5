"""Rows that a version was never asked before: what it keeps of each, as a cache without a bound does, fills memory.

An engine that serves for weeks runs full of it, and no repetition of the same rows shows it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_serving.contract.signature import TensorSpec
from tidegate_serving.contract.tensors import Array
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.robustness.failing_inputs import Way
from tidegate_validation.robustness.finding import came_back, example
from tidegate_validation.robustness.growth import UsageHistory, memory_finding
from tidegate_validation.robustness.input_domain import InputDomain
from tidegate_validation.robustness.judgement import answered, judge_answer
from tidegate_validation.robustness.probes import Likelihood
from tidegate_validation.robustness.stages.forms import is_free
from tidegate_validation.sandbox.examples import Examples

_CHECK, _SUBJECT = "memory", "new rows"
_ROWS, _CALLS, _FEWEST_CALLS = 64, 80, 20
_MOST_SECONDS, _PATIENT_SECONDS = 30.0, 8.0
_MOST_KEPT = 1 << 30
"""So many bytes more are no cache that is still to be filled; a quarter of its memory limit, where that is less."""
_MANY_ROWS = 200_000
"""A cache that still grows by then is taken for one without a bound; after fewer rows it may have one."""
_LEAST_KEPT = 80
"""A key and its place in a dictionary take so many bytes of each row; less than that is how memory is given out."""
_NUDGE = 1e-3
_SEED = 7
_MOVED = {"O": "texts have a number behind", "f": "numbers are moved by up to a thousandth"}
_REDRAWN = "whole numbers are others of the range that was seen"


@dataclass(frozen=True, slots=True)
class _Calls:
    """What is in use after calls of so many `rows` each, of a version with so many bytes of `memory`."""

    rows: int
    memory: float
    usage: UsageHistory = field(default_factory=lambda: UsageHistory(0))

    @property
    def number(self) -> int:
        """How many there were."""
        return len(self.usage.resident)

    @property
    def many(self) -> bool:
        """Whether a cache with a bound is full by now."""
        return self.number * self.rows >= _MANY_ROWS

    @property
    def too_much(self) -> bool:
        """Whether more is kept than any cache should."""
        return self.usage.resident[-1] - self.usage.resident[0] >= min(_MOST_KEPT, self.memory / 4)


def new_rows(examination: Examination) -> None:
    """Real rows whose numbers are moved by up to a thousandth and whose free texts have a number behind, in every call
    others; not tried on a version that leaks anyway. Texts that are not answered so stay as they are, where other
    inputs are left. What grows is measured once more: a cache with a bound is full by then."""
    if any(one.check == _CHECK and one.outcome is Outcome.FAIL for one in examination.findings):
        return
    rows = examination.answered_rows(_ROWS)
    movable = _movable(examination)
    if not movable:
        examination.report(_CHECK, _SUBJECT, Outcome.PASS, "it has no input of which there are always other values")
        return
    random = np.random.default_rng(_SEED)
    refused = _refused_texts(examination, rows, movable, random)
    movable = [one for one in movable if one not in refused] or movable
    first, second = (_Calls(len(rows), examination.limits.memory_mb * 2**20) for _ in range(2))
    found = _asked(examination, rows, movable, random, first, _more_needed)
    if found is not None and found.outcome is Outcome.FAIL:
        found = _asked(examination, rows, movable, random, second, _not_full)
    if found is not None and found.outcome is Outcome.FAIL and not (second.many or second.too_much):
        words = f"{found.sentence} (or make sure that it has a bound: it is too slow for it to be full by now)"
        found = replace(found, outcome=Outcome.WARN, sentence=words)
    kept = [f"`{one.name}`" for one in refused if one not in movable]
    if found is not None and kept:
        words = f"{found.sentence}; what it keeps of {', '.join(kept)} was not looked at: it answers no other texts"
        found = replace(found, sentence=words)
    if found is not None:
        examination.findings.append(found)


def _more_needed(calls: _Calls, lasted: float) -> bool:
    return calls.usage.more_needed(lasted, _MOST_SECONDS, _CALLS)


def _not_full(calls: _Calls, lasted: float) -> bool:
    """Whether a cache with a bound could still be filling."""
    if calls.number < _FEWEST_CALLS:
        return True
    return lasted < (_PATIENT_SECONDS if calls.many else _MOST_SECONDS) and not calls.too_much


def _movable(examination: Examination) -> list[TensorSpec]:
    """The inputs that are given other values: those with numbers of any digits, else whole numbers of a wide range, and
    texts that hardly come again; any text where there are none of these."""
    inputs = examination.signature.inputs
    texts = [one for one in inputs if one.dtype == "string"]
    kinds = (
        [one for one in inputs if one.dtype.startswith("float")],
        [one for one in inputs if one.dtype.startswith(("int", "uint")) and _is_wide(examination.domains[one.name])],
    )
    free = [one for one in texts if is_free(examination.data.arrays[one.name])]
    return [*next((kind for kind in kinds if kind), []), *free] or texts


def _refused_texts(
    examination: Examination, rows: Examples, movable: list[TensorSpec], random: np.random.Generator
) -> list[TensorSpec]:
    """The texts that are not answered with a number behind, as stamps, JSON or ids that are looked up are not."""
    refused = []
    for one in movable if len(movable) > 1 else ():
        if one.dtype == "string":
            moved = _moved(rows.arrays[one.name], examination.domains[one.name], random)
            answer = examination.ask(Examples({**rows.arrays, one.name: moved}, rows.rows))
            if not answered(answer) and not answer.fatal:
                refused.append(one)
    return refused


def _is_wide(domain: InputDomain) -> bool:
    return domain.minimum is not None and domain.maximum is not None and domain.maximum - domain.minimum >= 1 / _NUDGE


def _asked(
    examination: Examination,
    rows: Examples,
    movable: list[TensorSpec],
    random: np.random.Generator,
    calls: _Calls,
    more: Callable[[_Calls, float], bool],
) -> Finding | None:
    """What new rows leave in memory, call after call; None where they are not answered, which is reported."""
    begun = time.monotonic()
    while more(calls, time.monotonic() - begun):
        moved = {one.name: _moved(rows.arrays[one.name], examination.domains[one.name], random) for one in movable}
        request = Examples({**rows.arrays, **moved}, rows.rows)
        answer = examination.ask(request)
        if not answered(answer):
            outcome = judge_answer(Likelihood.RARE, answer)
            kept = examination.keep(_CHECK, _SUBJECT, request.arrays, Way.ANSWER)
            kinds = dict.fromkeys(rows.arrays[one.name].dtype.kind for one in movable)
            how = " and whose ".join(_MOVED.get(kind, _REDRAWN) for kind in kinds)
            sentence = f"with real rows whose {how} {came_back(answer)}; what it keeps of rows was not looked at"
            shown = example({}, request.row(0), answer) | kept
            examination.report(_CHECK, _SUBJECT, outcome, sentence, example=shown)
            return None
        calls.usage.add(answer, examination.session.disk_bytes())
    limit = max(examination.limits.leak_kb, len(rows) * _LEAST_KEPT / 1024)
    found = memory_finding(_SUBJECT, calls.usage.resident, limit)
    sentence = f"{found.sentence} with rows that it was not asked before"
    if found.outcome is Outcome.FAIL:
        sentence += ", and not with the same rows: bound what it keeps of each"
    return replace(found, sentence=sentence)


def _moved(values: Array, domain: InputDomain, random: np.random.Generator) -> Array:
    """Other values like these: numbers within the range that was seen, texts with a number behind."""
    if values.dtype == object:
        texts = np.empty(values.shape, dtype=object)
        texts.ravel()[:] = [text + b" %d" % random.integers(1 << 40) for text in values.ravel()]
        return texts
    low, high = domain.minimum, domain.maximum
    if values.dtype.kind in "iu":
        ends = np.iinfo(values.dtype)
        least, most = (int(max(ends.min, min(ends.max, one or 0))) for one in (low, high))
        return random.integers(least, most, values.shape, dtype=values.dtype, endpoint=True)
    moved = values * (1 + _NUDGE * random.uniform(-1, 1, values.shape))
    held = np.clip(moved, -np.inf if low is None else low, np.inf if high is None else high)
    return np.asarray(held, dtype=values.dtype)
