"""The same requests again and again: each must be answered, alike, and leave nothing behind in the process.

It follows the rows of real data: a version that fails now and then is found here, before a later stage could blame its
failure on an input. `growth` judges what the process uses.
"""

from __future__ import annotations

import time

import numpy as np

from tidegate_serving.admission import Outcome
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.robustness.failing_inputs import Way
from tidegate_validation.robustness.finding import came_back, example
from tidegate_validation.robustness.growth import UsageHistory, report_growth
from tidegate_validation.robustness.judgement import answered, largest_difference
from tidegate_validation.sandbox.answer import Answer
from tidegate_validation.sandbox.examples import Examples

_LEAST_CALLS, _MOST_CALLS = 160, 1600
"""A version that fails on one call in twenty passes 160 with a chance of 3 in 10,000."""
_SECONDS = 4.0
_LOOKS = 80
_ROWS, _REQUESTS = 64, 4


def repetition(examination: Examination) -> None:
    """Some requests in turn, 160 times in all, and more for some seconds while what is in use seems to grow."""
    requests = _requests(examination)
    first: list[Answer] = []
    usage = UsageHistory(examination.session.processes(), examination.session.log_bytes_now())
    worst, worst_request, calls = 0.0, requests[0], 0
    end = time.monotonic() + _SECONDS
    while calls < _LEAST_CALLS or (calls < _MOST_CALLS and time.monotonic() < end and _open(usage, calls)):
        request = requests[calls % len(requests)]
        answer = examination.ask(request)
        if not answered(answer):
            _failed_at_last(examination, request, answer, calls)
            return
        if calls < len(requests):
            first.append(answer)
        difference = largest_difference(answer.outputs, first[calls % len(requests)].outputs)
        if difference > worst:
            worst, worst_request = difference, request
        usage.add(answer)
        calls += 1
    _report_difference(examination, worst, worst_request, calls)
    usage.end(examination.session.processes(), examination.session.log_bytes_now())
    report_growth(examination, usage)


def _open(usage: UsageHistory, calls: int) -> bool:
    return calls % _LOOKS != 0 or usage.suspicious


def _requests(examination: Examination) -> list[Examples]:
    """One row, then batches of real rows."""
    rows = examination.answered_rows(_ROWS * _REQUESTS)
    parts = [part for part in np.array_split(np.arange(len(rows)), _REQUESTS) if len(part)]
    return [rows.take(part[: 1 if place == 0 else None]) for place, part in enumerate(parts)]


def _failed_at_last(examination: Examination, request: Examples, answer: Answer, calls: int) -> None:
    examination.steady = False
    sentence = f"after {calls} calls that it answered, with a request that it answered before {came_back(answer)}"
    shown = example({}, request.row(0), answer) | examination.keep("stability", "calls", request.arrays, Way.AGAIN)
    cause = {"kind": "fails now and then"}
    examination.report("stability", "calls", Outcome.FAIL, sentence, number=float(calls), example=shown, cause=cause)


def _report_difference(examination: Examination, worst: float, request: Examples, calls: int) -> None:
    tolerance = examination.limits.tolerance
    if worst <= tolerance:
        sentence = f"answers the same requests alike, {calls} times in all"
        examination.report("determinism", "repetition", Outcome.PASS, sentence, number=worst, limit=tolerance)
        return
    examination.steady = False
    examination.report(
        "determinism",
        "repetition",
        Outcome(examination.limits.nondeterminism),
        f"the same request is answered differently each time, by up to {worst:.3g}",
        number=worst,
        limit=tolerance,
        example={"input": request.row(0), **examination.keep("determinism", "calls", request.arrays, Way.AGAIN)},
        cause={"kind": "nondeterminism"},
    )
