"""Tries every column at its edges, then requests that break the signature; and a good row after each.

The version has answered ordinary rows before, so that what fails here is the input's doing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.robustness.failing_inputs import Way
from tidegate_validation.robustness.finding import example, failure, probe_finding, shown, with_more_inputs
from tidegate_validation.robustness.judgement import answered, by_accident, judge_answer
from tidegate_validation.robustness.probes import ALL_INPUTS, Likelihood, Probe, boundary_probes, malformed_probes
from tidegate_validation.robustness.stages.bad_rows import report_if_unsteady
from tidegate_validation.robustness.stages.forms import Form, form_of
from tidegate_validation.robustness.stages.later import (
    NewAnswer,
    report_if_by_the_clock,
    report_if_changed,
    report_if_remembered,
)
from tidegate_validation.sandbox.answer import Answer, AnswerKind
from tidegate_validation.sandbox.examples import Examples, plain

_AFTER = "after"
_MISSING = " missing (NaN) "
_MISSING_NUMBERS = "missing numbers"
_MISSING_NUMBER = "a missing number"
_SLOW_SECONDS, _TIMES_SLOWER = 0.5, 50.0
"""An odd row is slow that takes so many seconds or more, and so many times as long as half of the ordinary ones."""
_SLOW = (AnswerKind.OUTPUTS, "slow")
_DOUBT = (
    ', and other texts like those that were seen too, such as "{}": see that it checks them, by check digits say, and '
    "looks none up, for nearly every row has a new one"
)
_UNSURE = (
    ", but answers texts that the data do not hold: see that it reads them and looks none up, for no training profile "
    "lists those that it was trained with"
)


def boundaries(examination: Examination) -> None:
    """Every column at its edges."""
    if examination.good is not None:
        new, after = _asked_again(examination, examination.good)
        if answered(after) and _changed(examination, examination.good, after):
            report_if_changed(examination, new)
        _probe_all(
            examination, "boundary", boundary_probes(examination.signature, examination.good, examination.domains)
        )
        examination.findings[:] = missing_together(examination.findings)


def missing_together(findings: Sequence[Finding]) -> list[Finding]:
    """One warning for all inputs that are answered alike when their number is missing, where each had its own."""
    alike: dict[str, list[Finding]] = {}
    for finding in findings:
        answer = finding.sentence.partition(_MISSING)[2]
        if answer and finding.check == "boundary" and finding.outcome is Outcome.WARN:
            alike.setdefault(answer, []).append(finding)
    found = list(findings)
    for answer, ones in alike.items():
        if len(ones) > 1:
            names = [one.subject for one in ones]
            sentence = f"with any of {', '.join(f'`{name}`' for name in names)}{_MISSING}{answer}"
            shown = {**(ones[0].example or {}), "inputs": names}
            found[found.index(ones[0])] = replace(ones[0], subject=_MISSING_NUMBERS, sentence=sentence, example=shown)
            found = [one for one in found if one not in ones]
    return found


def malformed(examination: Examination) -> None:
    """Requests that break the signature; each must be refused and leave the version alive."""
    if examination.good is not None:
        _probe_all(examination, "malformed", malformed_probes(examination.signature, examination.good))


def _probe_all(examination: Examination, check: str, probes: Iterable[Probe]) -> None:
    done: dict[str, int] = {}
    deadly: set[str] = set()
    told: list[_Told] = []
    for probe in probes:
        if probe.subject in deadly:
            continue
        before = _harm(examination)
        if stopped := _stopped(examination):
            sentence = f"stopped after {stopped}; `{probe.subject}` and what follows is untried"
            examination.report(check, "all inputs", Outcome.INCONCLUSIVE, sentence)
            done.clear()
            break
        if _one_probe(examination, probe, told):
            done[probe.subject] = done.get(probe.subject, 0) + 1
        if _harm(examination) > before:
            deadly.add(probe.subject)
    for one in told:
        if one.others:
            examination.findings[one.place] = with_more_inputs(examination.findings[one.place], one.others)
    for subject, count in done.items():
        examination.report(check, subject, Outcome.PASS, f"`{subject}`: {count} odd inputs are dealt with")


def _spoilt(examination: Examination) -> int:
    """How many odd inputs changed what ordinary rows are answered; after each the version is loaded anew."""
    return sum(one.check == _AFTER for one in examination.findings)


def _harm(examination: Examination) -> int:
    return examination.session.deaths + _spoilt(examination)


def _stopped(examination: Examination) -> str:
    """What probing ends after, in words; empty where it goes on."""
    if examination.exhausted:
        return f"{examination.session.deaths} crashes"
    spoilt = _spoilt(examination)
    return f"{spoilt} inputs that change its answers" if spoilt >= examination.limits.crashes else ""


@dataclass(slots=True)
class _Told:
    """One way to fail in one column: the finding's place, and what else of that column fails so."""

    subject: str
    outcome: Outcome
    failure: tuple[AnswerKind, str]
    place: int
    others: list[str] = field(default_factory=list)


def _one_probe(examination: Examination, probe: Probe, told: list[_Told]) -> bool:
    """Sends one probe, then the good row again; True when both went well."""
    good = examination.good
    if good is None:
        return False
    answer = examination.ask_raw(probe.tensors, 1)
    outcome = _judged(examination, probe, answer, told)
    if answer.fatal:
        return False
    deaths = examination.session.deaths
    quick = _report_if_slow(examination, probe, answer, told)
    if examination.session.deaths > deaths:
        return False
    new, after = _asked_again(examination, good)
    if not answered(after) or _changed(examination, good, after):
        if not answered(after) and report_if_unsteady(examination, good, after):
            return False
        if answered(after) and report_if_by_the_clock(examination, new):
            return False
        if answered(after) and not _is_to_blame(examination, probe, good):
            report_if_remembered(examination, new)
            _begin_anew(examination, new)
            return False
        words = after.words or "differently from before"
        sentence = f"after {probe.what} in `{probe.subject}` it answers ordinary examples no more as it did ({words})"
        kept = examination.keep(_AFTER, probe.subject, probe.tensors, Way.THEN, then=good.arrays)
        more = example(dict(probe.changed), good.row(0), after) | kept
        examination.report(_AFTER, probe.subject, Outcome.FAIL, sentence, example=more)
        examination.session.renew()
        _begin_anew(examination, new)
        return False
    return quick and outcome is Outcome.PASS


def _is_to_blame(examination: Examination, probe: Probe, good: Examples) -> bool:
    """Whether a fresh process, as the present one is, answers a good row otherwise after the probe too."""
    before = examination.ask(good)
    examination.ask_raw(probe.tensors, 1)
    after = examination.ask(good)
    if not (answered(before) and answered(after)):
        return True
    return examination.difference(after.outputs, before.outputs) > examination.limits.tolerance


def _asked_again(examination: Examination, good: Examples) -> tuple[NewAnswer, Answer]:
    """The good row once more: beside what it was answered before, and as it came."""
    first, by, answer = examination.expected, examination.expected_by, examination.ask(good)
    return NewAnswer(good, first, answer.outputs, by == examination.session.ended), answer


def _begin_anew(examination: Examination, new: NewAnswer) -> None:
    """Holds the present process to its own answer to the good row, or to that from before."""
    answer = examination.ask(new.request)
    examination.expect(answer.outputs if answered(answer) else new.first)


def _judged(examination: Examination, probe: Probe, answer: Answer, told: list[_Told]) -> Outcome:
    """How the answer counts, which is told unless it is right."""
    outcome, doubt = judge_answer(probe.likelihood, answer), ""
    if outcome is Outcome.FAIL and not answer.fatal:
        form = form_of(examination, probe)
        likelihood = probe.likelihood if form is None else form.likelihood
        outcome = judge_answer(likelihood, answer, examination.ask_baseline(probe.tensors))
        if outcome is Outcome.FAIL and form is not None and _may_check_them(examination, form, answer):
            outcome, doubt = Outcome.WARN, _DOUBT.format(plain(form.refused))
        elif outcome is Outcome.PASS and form is not None and not form.sure:
            outcome, doubt = Outcome.WARN, _UNSURE
    if outcome is not Outcome.PASS:
        _tell(examination, probe, answer, outcome, told, doubt)
    return outcome


def _may_check_them(examination: Examination, form: Form, answer: Answer) -> bool:
    """Whether a first version refuses, in so many words, texts of which nearly every row brings a new one: it may check
    their digits, as those of account numbers, or look them up."""
    refused = answer.kind is AnswerKind.REFUSED and not by_accident(answer)
    return refused and form.free and not form.read and examination.baseline is None


def _report_if_slow(examination: Examination, probe: Probe, answer: Answer, told: list[_Told]) -> bool:
    """A WARN where the answer takes long, also when it is asked for again; True where it does not. What comes the
    second time counts as well where it is no answer."""
    usual = float(np.median(examination.single_seconds))
    least = max(_SLOW_SECONDS, _TIMES_SLOWER * usual)
    if not answered(answer) or answer.seconds < least:
        return True
    again = examination.ask_raw(probe.tensors, 1)
    if not answered(again):
        return _judged(examination, probe, again, told) is Outcome.PASS
    seconds = min(answer.seconds, again.seconds)
    if seconds < least:
        return True
    same = next((one for one in told if (one.subject, one.failure) == (probe.subject, _SLOW)), None)
    if same is not None:
        same.others.append(probe.what)
        return False
    told.append(_Told(probe.subject, Outcome.WARN, _SLOW, len(examination.findings)))
    sentence = (
        f"with {shown(probe)} it takes {seconds:.2g} s to answer, with ordinary rows {usual * 1000:.2g} ms: a few "
        "such requests keep it from all others, so bound what it does for one"
    )
    row = {} if examination.good is None else examination.good.row(0)
    examination.report(
        _check(probe),
        probe.subject,
        Outcome.WARN,
        sentence,
        number=seconds,
        limit=least,
        cause={"kind": "slow"},
        example=example(dict(probe.changed), row, answer),
    )
    return False


def _check(probe: Probe) -> str:
    return "malformed" if probe.likelihood is Likelihood.MALFORMED else "boundary"


def _tell(
    examination: Examination, probe: Probe, answer: Answer, outcome: Outcome, told: list[_Told], doubt: str
) -> None:
    """A finding of its own, or a word in that of another input that fails in the same way."""
    malformed = probe.likelihood is Likelihood.MALFORMED
    same = None if malformed else _told_before(probe, answer, outcome, told)
    if same is None:
        told.append(_Told(probe.subject, outcome, failure(answer), len(examination.findings)))
        examination.findings.append(_finding(examination, probe, answer, outcome, doubt))
    elif outcome is Outcome.FAIL and same.subject == probe.subject:
        same.others.append(_MISSING_NUMBER if probe.what == "missing" else probe.what)


def _told_before(probe: Probe, answer: Answer, outcome: Outcome, told: list[_Told]) -> _Told | None:
    alike = (one for one in told if (one.outcome, one.failure) == (outcome, failure(answer)))
    return next((one for one in alike if probe.subject in (one.subject, ALL_INPUTS)), None)


def _finding(examination: Examination, probe: Probe, answer: Answer, outcome: Outcome, doubt: str) -> Finding:
    seen, row = examination.domains.get(probe.subject), {} if examination.good is None else examination.good.row(0)
    check = _check(probe)
    kept = examination.keep(check, probe.subject, probe.tensors, Way.ANSWER)
    finding = probe_finding(probe, answer, outcome, row, seen.missing_in if seen else None, doubt)
    return replace(finding, example={**(finding.example or {}), **kept})


def _changed(examination: Examination, good: Examples, after: Answer) -> bool:
    """Whether a good row is answered unlike before, by a version that answers it alike twice in a row now.

    Of a version that changes its answers anyway no input is to blame.
    """
    if not examination.steady:
        return False
    tolerance = examination.limits.tolerance
    if examination.difference(after.outputs, examination.expected) <= tolerance:
        return False
    again = examination.ask(good)
    examination.expect(again.outputs)
    return not answered(again) or examination.difference(after.outputs, again.outputs) <= tolerance
