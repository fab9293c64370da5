"""Rows that a version was never asked before: what it keeps of each, as a cache without a bound does, fills memory.

An engine that serves for weeks runs full of it, and no repetition of the same rows shows it.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace

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
from tidegate_validation.sandbox.examples import Examples

_CHECK, _SUBJECT = "memory", "new rows"
_ROWS, _CALLS, _FEWEST_CALLS = 64, 80, 20
_MOST_SECONDS, _PATIENT_SECONDS = 30.0, 8.0
_MOST_KEPT = 1 << 30
"""So many bytes more are no cache that is still to be filled; a quarter of its memory limit, where that is less."""
_LEAST_KEPT = 80
"""A key and its place in a dictionary take so many bytes of each row; less than that is how memory is given out."""
_NUDGE = 1e-3
_SEED = 7


def new_rows(examination: Examination) -> None:
    """Real rows whose numbers are moved by up to a thousandth, in every call others; not tried on a version that leaks
    anyway. What grows is measured once more: a cache with a bound is full by then."""
    if any(one.check == _CHECK and one.outcome is Outcome.FAIL for one in examination.findings):
        return
    rows = examination.answered_rows(_ROWS)
    movable = _movable(examination)
    if not movable:
        examination.report(_CHECK, _SUBJECT, Outcome.PASS, "it has no input of which there are always other values")
        return
    random = np.random.default_rng(_SEED)
    found = _asked(examination, rows, movable, random, _more_needed)
    if found is not None and found.outcome is Outcome.FAIL:
        found = _asked(examination, rows, movable, random, _not_full)
    if found is not None:
        examination.findings.append(found)


def _more_needed(usage: UsageHistory, lasted: float, _: float) -> bool:
    return usage.more_needed(lasted, _MOST_SECONDS, _CALLS)


def _not_full(usage: UsageHistory, lasted: float, memory: float) -> bool:
    """Whether a cache with a bound could still be filling; `memory` is the version's limit in bytes."""
    if len(usage.resident) < _FEWEST_CALLS:
        return True
    grown = usage.resident[-1] - usage.resident[0]
    return lasted < _PATIENT_SECONDS and grown < min(_MOST_KEPT, memory / 4)


def _movable(examination: Examination) -> list[TensorSpec]:
    """The inputs that are given other values: those with numbers of any digits, else whole numbers of a wide range,
    else texts."""
    inputs = examination.signature.inputs
    kinds = (
        [one for one in inputs if one.dtype.startswith("float")],
        [one for one in inputs if one.dtype.startswith(("int", "uint")) and _is_wide(examination.domains[one.name])],
        [one for one in inputs if one.dtype == "string"],
    )
    return next((kind for kind in kinds if kind), [])


def _is_wide(domain: InputDomain) -> bool:
    return domain.minimum is not None and domain.maximum is not None and domain.maximum - domain.minimum >= 1 / _NUDGE


def _asked(
    examination: Examination,
    rows: Examples,
    movable: list[TensorSpec],
    random: np.random.Generator,
    more: Callable[[UsageHistory, float, float], bool],
) -> Finding | None:
    """What new rows leave in memory, call after call; None where they are not answered, which is reported."""
    usage = UsageHistory(0)
    begun = time.monotonic()
    while more(usage, time.monotonic() - begun, examination.limits.memory_mb * 2**20):
        moved = {one.name: _moved(rows.arrays[one.name], examination.domains[one.name], random) for one in movable}
        request = Examples({**rows.arrays, **moved}, rows.rows)
        answer = examination.ask(request)
        if not answered(answer):
            outcome = judge_answer(Likelihood.RARE, answer)
            kept = examination.keep(_CHECK, _SUBJECT, request.arrays, Way.ANSWER)
            sentence = f"with real rows whose numbers are moved by up to a thousandth {came_back(answer)}"
            shown = example({}, request.row(0), answer) | kept
            examination.report(_CHECK, _SUBJECT, outcome, sentence, example=shown)
            return None
        usage.add(answer, examination.session.disk_bytes())
    found = memory_finding(_SUBJECT, usage.resident, max(examination.limits.leak_kb, len(rows) * _LEAST_KEPT / 1024))
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
    if values.dtype.kind in "iu":
        return random.integers(int(domain.minimum or 0), int(domain.maximum or 0) + 1, values.shape).astype(
            values.dtype
        )
    factors = 1 + _NUDGE * random.uniform(-1, 1, values.shape)
    return np.asarray(np.clip(values * factors, domain.minimum, domain.maximum), dtype=values.dtype)
