"""The same requests again and again: each must be answered, alike, and leave nothing behind in the process.

It follows the rows of real data: a version that fails now and then is found here, before a later stage could blame its
failure on an input. `growth` judges what the process uses.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.tensors import Array
from tidegate_validation.counts import counted
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.robustness.failing_inputs import Way
from tidegate_validation.robustness.finding import came_back, example
from tidegate_validation.robustness.growth import UsageHistory, report_growth
from tidegate_validation.robustness.judgement import answered
from tidegate_validation.robustness.stages.later import NewAnswer, report_if_by_the_clock
from tidegate_validation.sandbox.answer import Answer
from tidegate_validation.sandbox.examples import Examples

_MOST_SECONDS = 120.0
"""How long it asks a slow version, of which it learns from fewer calls."""
_ROWS, _REQUESTS = 64, 4


def repetition(examination: Examination) -> None:
    """Some requests in turn, 160 times in all, and more for some seconds while what is in use seems to grow."""
    asked = _asked_before(examination)
    usage = _ask_again_and_again(examination, asked)
    if usage is None:
        return
    _report_difference(examination, asked)
    report_growth(examination, usage, lambda: _ask_again_and_again(examination, asked))


@dataclass(slots=True)
class _Asked:
    """What was asked so far: the first and latest answer to each request, and the largest difference to the first.

    `changes` counts the answers that differ from the one before to the same request.
    """

    requests: list[Examples]
    first: list[Mapping[str, Array] | None]
    latest: list[Mapping[str, Array] | None] = field(init=False)
    calls: int = 0
    changes: int = 0
    worst: float = 0.0
    worst_place: int = 0

    def __post_init__(self) -> None:
        self.latest = list(self.first)

    def add(self, place: int, outputs: Mapping[str, Array], examination: Examination) -> None:
        """Takes one more answer to the request in this place."""
        first, latest = self.first[place], self.latest[place]
        if first is None or latest is None:
            self.first[place] = first = latest = outputs
        difference = examination.difference(outputs, first)
        if difference > self.worst:
            self.worst, self.worst_place = difference, place
        self.changes += examination.difference(outputs, latest) > examination.limits.tolerance
        self.latest[place] = outputs
        self.calls += 1

    @property
    def settled(self) -> bool:
        """Whether answers changed once and no more, as where a version goes by what it was asked before."""
        return self.changes <= len(self.requests)


def _ask_again_and_again(examination: Examination, asked: _Asked) -> UsageHistory | None:
    """What was in use, call after call; None where a call failed, which is reported."""
    usage = UsageHistory(examination.session.processes())
    begun = time.monotonic()
    while usage.more_needed(time.monotonic() - begun, _MOST_SECONDS):
        place = len(usage.resident) % len(asked.requests)
        request = asked.requests[place]
        answer = examination.ask(request)
        if not answered(answer):
            _failed_at_last(examination, request, answer, asked.calls)
            return None
        asked.add(place, answer.outputs, examination)
        usage.add(answer, examination.session.disk_bytes())
    usage.end(examination.session.processes())
    return usage


def _asked_before(examination: Examination) -> _Asked:
    """One row, answered long ago if there is such a one, then batches of real rows."""
    rows = examination.answered_rows(_ROWS * _REQUESTS)
    one, *parts = [rows.take(part) for part in np.array_split(np.arange(len(rows)), _REQUESTS) if len(part)]
    if examination.good is None:
        return _Asked([one.take(np.array([0])), *parts], [None] * (1 + len(parts)))
    return _Asked([examination.good, *parts], [examination.expected, *[None] * len(parts)])


def _failed_at_last(examination: Examination, request: Examples, answer: Answer, calls: int) -> None:
    examination.steady = False
    sentence = (
        f"after {counted(calls, 'call')} that it answered, with a request that it answered before {came_back(answer)}"
    )
    shown = example({}, request.row(0), answer) | examination.keep("stability", "calls", request.arrays, Way.AGAIN)
    cause = {"kind": "fails now and then"}
    examination.report("stability", "calls", Outcome.FAIL, sentence, number=float(calls), example=shown, cause=cause)


def _report_difference(examination: Examination, asked: _Asked) -> None:
    tolerance, worst, request = examination.limits.tolerance, asked.worst, asked.requests[asked.worst_place]
    if worst <= tolerance:
        pairs = zip(asked.requests, asked.first, strict=True)
        examination.early = [(one, first) for one, first in pairs if first is not None]
        examination.early_by = examination.session.ended
        sentence = f"answers the same requests alike, {asked.calls} times in all"
        examination.report("determinism", "repetition", Outcome.PASS, sentence, number=worst, limit=tolerance)
        return
    first, latest = asked.first[asked.worst_place] or {}, asked.latest[asked.worst_place] or {}
    if asked.settled and report_if_by_the_clock(examination, NewAnswer(request, first, latest)):
        return
    sentence = f"the same request is answered differently each time, by up to {worst:.3g}"
    if asked.settled:
        sentence = (
            f"what it was asked in between changes its answers: the same request is answered otherwise than before, "
            f"by up to {worst:.3g}"
        )
    examination.steady = False
    examination.report(
        "determinism",
        "repetition",
        Outcome(examination.limits.nondeterminism),
        sentence,
        number=worst,
        limit=tolerance,
        example={"input": request.row(0), **examination.keep("determinism", "calls", request.arrays, Way.AGAIN)},
        cause={"kind": "remembers requests" if asked.settled else "nondeterminism"},
    )
