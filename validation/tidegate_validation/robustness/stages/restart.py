"""The same requests asked of a fresh process: an engine loads a version anew after every restart and in every worker.

Answers that depend on when or where it was loaded, or on what it was asked before, differ between processes. The fresh
one believes itself to be on another machine: host, user, time zone, locale and process number are not what they were,
and its clock shows another date and hour. Where answers differ, more processes tell the place from the clock.
"""

from __future__ import annotations

from dataclasses import replace
from datetime import datetime

import numpy as np

from tidegate_serving.admission import Outcome
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.robustness.failing_inputs import Way
from tidegate_validation.robustness.finding import came_back, example
from tidegate_validation.robustness.judgement import answered
from tidegate_validation.sandbox.answer import Answer
from tidegate_validation.sandbox.environment import ELSEWHERE, USUAL, Place, another_time
from tidegate_validation.sandbox.examples import Examples

_CHECK, _SUBJECT = "determinism", "a fresh process"
_ROWS = 256
_DAY = 86_400


def restart(examination: Examination) -> None:
    """Not tried on a version that answers one request in two ways in the same process."""
    rows = examination.answered_rows(min(_ROWS, examination.limits.max_batch))
    before = examination.ask(rows) if examination.steady else None
    if before is None or not answered(before):
        return
    seconds = another_time(datetime.now().astimezone())
    after = _asked_afresh(examination, rows, replace(ELSEWHERE, clock_by=seconds))
    if not _alike(examination, after, before):
        then, after = after, _asked_afresh(examination, rows, ELSEWHERE)
        if _alike(examination, after, before):
            _report_if_by_the_date(examination, rows, before, then, seconds)
    if not answered(after):
        sentence = f"loaded once more, in a process of its own, {came_back(after)} where it answered before"
        shown = example({}, rows.row(0), after) | examination.keep(_CHECK, _SUBJECT, rows.arrays, Way.RESTARTED)
        examination.report(_CHECK, _SUBJECT, Outcome.FAIL, sentence, example=shown)
        return
    tolerance = examination.limits.tolerance
    worst = examination.difference(after.outputs, before.outputs)
    if worst <= tolerance:
        sentence = "answers the same when it is loaded once more, in a process of its own"
        examination.report(_CHECK, _SUBJECT, Outcome.PASS, sentence, number=worst, limit=tolerance)
        return
    kind, why = _reason(examination, rows, before, after)
    place = _most_different(examination, before, after)
    examination.report(
        _CHECK,
        _SUBJECT,
        Outcome(examination.limits.nondeterminism),
        f"loaded once more, it answers the same requests otherwise, by up to {worst:.3g}: {why}",
        number=worst,
        limit=tolerance,
        example={"input": rows.row(place), **examination.keep(_CHECK, _SUBJECT, rows.arrays, Way.RESTARTED)},
        cause={"kind": kind},
    )


def _report_if_by_the_date(
    examination: Examination, rows: Examples, before: Answer, then: Answer, seconds: int
) -> None:
    """Reports what was answered `then`, at another date and hour, unless a clock of its own that shows the right ones
    does so too. A WARN: some models are meant to go by the date."""
    if not _alike(examination, _asked_afresh(examination, rows, replace(ELSEWHERE, clock_by=0)), before):
        return
    when = f"at another date and hour, {seconds // _DAY} days ahead,"
    if answered(then):
        worst, place = examination.difference(then.outputs, before.outputs), _most_different(examination, then, before)
        sentence = (
            f"{when} the same request is answered otherwise, by up to {worst:.3g}: its answers go by the clock; give "
            "it the time as an input"
        )
    else:
        worst, place = None, 0
        sentence = f"{when} {came_back(then)}: it goes by the clock; see that it answers for as long as it may serve"
    examination.report(
        _CHECK,
        "the clock",
        Outcome.WARN,
        sentence,
        number=worst,
        limit=examination.limits.tolerance,
        example={"input": rows.row(place)},
        cause={"kind": "goes by the clock"},
    )


def _alike(examination: Examination, one: Answer, other: Answer) -> bool:
    both = answered(one) and answered(other)
    return both and examination.difference(one.outputs, other.outputs) <= examination.limits.tolerance


def _asked_afresh(examination: Examination, rows: Examples, place: Place) -> Answer:
    examination.session.renew(place)
    return examination.ask(rows)


def _reason(examination: Examination, rows: Examples, before: Answer, elsewhere: Answer) -> tuple[str, str]:
    """Why a fresh process elsewhere answers otherwise: the kind of cause, and words. Up to three more decide."""
    if not _alike(examination, _asked_afresh(examination, rows, ELSEWHERE), elsewhere):
        return "depends on the process", (
            "every process gives answers of its own (random numbers without a seed, Python's hash() of texts or the "
            "order of a set where no PYTHONHASHSEED is fixed, which it is not here, or the clock)"
        )
    if _alike(examination, _asked_afresh(examination, rows, USUAL), before):
        return "depends on the machine", (
            "fresh processes agree with each other in the same place, so its answers depend on where it runs (an "
            "environment variable, the host's or user's name, the time zone, the locale, or the process number)"
        )
    if _changed_meanwhile(examination):
        return "goes by the clock", (
            "another fresh process answers the very first request otherwise than it was answered at first, so they go "
            "by the clock; give it the time as an input"
        )
    return (
        "remembers requests",
        "fresh processes agree with each other, so what it was asked before changes its answers, or the clock did now",
    )


def _changed_meanwhile(examination: Examination) -> bool:
    """Whether a process that is asked one of the first requests alone answers otherwise than the first process did."""
    if not examination.early:
        return False
    request, first = examination.early[0]
    fresh = _asked_afresh(examination, request, USUAL)
    return answered(fresh) and examination.difference(fresh.outputs, first) > examination.limits.tolerance


def _most_different(examination: Examination, one: Answer, other: Answer) -> int:
    """The place of the row whose answers lie furthest apart."""
    rows = len(next(iter(one.outputs.values())))
    apart = [
        examination.difference(
            *({name: a[place : place + 1] for name, a in answer.outputs.items()} for answer in (one, other))
        )
        for place in range(rows)
    ]
    return int(np.argmax(apart))
