"""The same calls from several threads at once, as an engine with more than one executor thread makes them.

Answers must equal those to the same calls in turn; not tried on a version that answers one request in two ways.
"""

from __future__ import annotations

import time
from collections.abc import Mapping

import numpy as np

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.tensors import Array
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.robustness.failing_inputs import Way
from tidegate_validation.robustness.finding import came_back, example
from tidegate_validation.robustness.judgement import Unit, answered, largest_difference
from tidegate_validation.sandbox.answer import Answer, AnswerKind
from tidegate_validation.sandbox.examples import Examples

_SIZES = (1, 1, 3, 3, 8, 8, 21, 40)
"""Rows of each call. Threads begin at calls beside each other, so that some at once are of one size, as buffers that
are kept for a size are mixed up only then, and others of several."""
_LEAST_CALLS, _SECONDS = 3, 5.0
"""Calls that take longer in turn are left out, but for the first, which are of one size and of another: all are made
again by every thread."""
_CHECK = "threads"


def threads(examination: Examination) -> None:
    """Compares concurrent answers with serial ones; not tried where the policy says that the engine has one thread."""
    count = examination.limits.threads
    if count < 2:
        examination.report(_CHECK, "calls", Outcome.PASS, "asked by one thread only, as the policy says engines do")
        return
    if not examination.steady:
        sentence = "concurrent answers cannot be compared, for the same request is answered differently anyway"
        examination.report(_CHECK, "calls", Outcome(examination.limits.nondeterminism), sentence)
        return
    rows, calls = _calls(examination)
    answers = _in_turn(examination, rows, calls)
    if not answered(answers[-1]):
        sentence = (
            f"a call that was to be repeated from several threads was not answered at all: {came_back(answers[-1])}"
        )
        examination.report(_CHECK, "calls", Outcome.FAIL, sentence)
        return
    serial = {name: np.concatenate([answer.outputs[name] for answer in answers]) for name in answers[0].outputs}
    calls = calls[: len(answers)]
    rows = rows.take(np.arange(calls[-1][1]))
    answer = examination.ask_at_once(rows, calls, count)
    if answer.kind is not AnswerKind.OUTPUTS:
        _report_no_answer(examination, rows, calls, answer, count)
        return
    worst, wrong, done = compare(answer, serial, calls, examination.units)
    if worst <= examination.limits.tolerance:
        sentence = f"answers {done} calls from {count} threads at once as it does in turn"
        examination.report(_CHECK, "calls", Outcome.PASS, sentence, number=worst, limit=examination.limits.tolerance)
        return
    kept = examination.keep(_CHECK, "calls", rows.arrays, Way.AT_ONCE, calls=calls)
    examination.report(
        _CHECK,
        "calls",
        Outcome.FAIL,
        f"asked by {count} threads at once it answers otherwise than in turn: {wrong} of {done} calls, "
        f"by up to {worst:.3g}",
        number=worst,
        limit=examination.limits.tolerance,
        example={"input": rows.row(0), **kept},
        cause={"kind": "not thread-safe"},
    )


def _report_no_answer(
    examination: Examination, rows: Examples, calls: list[tuple[int, int]], answer: Answer, count: int
) -> None:
    """Says what came instead of answers; a version that leaks may have come to its limits by that alone."""
    asked = f"asked by {count} threads at once {came_back(answer)}"
    leaking = [one.subject for one in examination.findings if one.check == "leak" and one.outcome is Outcome.FAIL]
    if leaking:
        sentence = f"{asked}, which may be for the {leaking[0]} that it leaks"
        examination.report(_CHECK, "calls", Outcome.INCONCLUSIVE, sentence, number=float(count))
        return
    kept = examination.keep(_CHECK, "calls", rows.arrays, Way.AT_ONCE, calls=calls)
    examination.report(
        _CHECK,
        "calls",
        Outcome.FAIL,
        f"{asked}, though it answers the same calls in turn",
        number=float(count),
        example=example({}, rows.row(0), answer) | kept,
        cause={"kind": "not thread-safe"},
    )


def compare(
    answer: Answer, serial: dict[str, Array], calls: list[tuple[int, int]], units: Mapping[str, Unit]
) -> tuple[float, int, int]:
    """The largest difference to the serial answers, by the outputs' `units`, in how many calls there was one, and how
    many calls were made."""
    rows = calls[-1][1]
    rounds = len(next(iter(answer.outputs.values()))) // rows
    worst, wrong = 0.0, 0
    for place in range(rounds):
        for first, last in calls:
            part = {name: array[place * rows + first : place * rows + last] for name, array in answer.outputs.items()}
            difference = largest_difference(part, {name: array[first:last] for name, array in serial.items()}, units)
            worst, wrong = max(worst, difference), wrong + (difference > 0)
    return worst, wrong, rounds * len(calls)


def _calls(examination: Examination) -> tuple[Examples, list[tuple[int, int]]]:
    """Rows, and the ranges of them that single calls take."""
    rows = examination.answered_rows(sum(_SIZES))
    rows = rows.take(np.arange(sum(_SIZES)) % len(rows))
    ends = np.cumsum(_SIZES)
    return rows, [(int(end - size), int(end)) for end, size in zip(ends, _SIZES, strict=True)]


def _in_turn(examination: Examination, rows: Examples, calls: list[tuple[int, int]]) -> list[Answer]:
    """Answers to the first calls, all if time allows; the last may be none."""
    end = time.monotonic() + _SECONDS
    answers: list[Answer] = []
    for first, last in calls:
        answers.append(examination.ask(rows.take(np.arange(first, last))))
        if not answered(answers[-1]) or (len(answers) >= _LEAST_CALLS and time.monotonic() > end):
            break
    return answers
