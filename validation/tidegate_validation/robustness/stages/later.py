"""What a version was asked early on, asked once more when all else was asked; and why it answers otherwise.

What goes by the day or the hour does not show here, for an examination takes seconds; `restart` moves the clock.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.tensors import Array
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.robustness.failing_inputs import Way
from tidegate_validation.robustness.judgement import answered
from tidegate_validation.sandbox.examples import Examples

_CHECK = "determinism"


@dataclass(frozen=True, slots=True)
class NewAnswer:
    """A request that is answered `now`, and what it was answered at `first`; whether the `same_process` did both."""

    request: Examples
    first: Mapping[str, Array]
    now: Mapping[str, Array]
    same_process: bool = True


def later(examination: Examination) -> None:
    """The early requests once more; not tried on a version whose answers are known to change."""
    for request, first in examination.early:
        answer = examination.ask(request) if examination.steady else None
        if answer is not None and answered(answer):
            same_process = examination.early_by == examination.session.ended
            report_if_changed(examination, NewAnswer(request, first, answer.outputs, same_process))


def report_if_changed(examination: Examination, new: NewAnswer) -> None:
    """Reports a version that answers a request otherwise than at first, for which no odd input is to blame."""
    changed = examination.difference(new.now, new.first) > examination.limits.tolerance
    if changed and not report_if_by_the_clock(examination, new):
        report_if_remembered(examination, new)


def report_if_remembered(examination: Examination, new: NewAnswer) -> None:
    """Reports what does not go by the clock, as the present, fresh process told. Unless the same process answered
    both, that one has to answer as at first: of processes that answer each in its own way `restart` tells."""
    worst, tolerance = examination.difference(new.now, new.first), examination.limits.tolerance
    fresh = None if new.same_process else examination.ask(new.request)
    if fresh is not None and answered(fresh) and examination.difference(fresh.outputs, new.first) > tolerance:
        return
    examination.steady = False
    kept = examination.keep(_CHECK, "calls", new.request.arrays, Way.AGAIN)
    examination.report(
        _CHECK,
        "calls",
        Outcome(examination.limits.nondeterminism),
        "what it was asked in between, or a thread of its own, changes its answers: an ordinary example is answered "
        f"otherwise than at first, by up to {worst:.3g}",
        number=worst,
        limit=tolerance,
        example={"input": new.request.row(0), **kept},
        cause={"kind": "remembers requests"},
    )


def report_if_by_the_clock(examination: Examination, new: NewAnswer) -> bool:
    """Reports a version that answers a request otherwise than at first where a process that was asked nothing else
    answers as it does now: neither what it was asked before nor what goes on in its process can be why."""
    tolerance, worst = examination.limits.tolerance, examination.difference(new.now, new.first)
    examination.session.renew()
    fresh = examination.ask(new.request)
    if not answered(fresh) or examination.difference(fresh.outputs, new.first) <= tolerance:
        return False
    if examination.difference(fresh.outputs, new.now) > tolerance:
        return False
    passed = time.monotonic() - (examination.end - examination.limits.total_seconds)
    examination.steady = False
    examination.report(
        _CHECK,
        "the clock",
        Outcome(examination.limits.nondeterminism),
        f"within {passed:.2g} s its answers to the same request change, by up to {worst:.3g}, and a process that was "
        "asked nothing else answers so too: they go by the clock; give it the time as an input",
        number=worst,
        limit=tolerance,
        example={"input": new.request.row(0)},
        cause={"kind": "goes by the clock"},
    )
    return True
