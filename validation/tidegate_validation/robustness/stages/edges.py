"""Tries every column at its edges, then requests that break the signature; and a good row after each.

The version has answered ordinary rows before, so that what fails here is the input's doing.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.robustness.examination import Examination
from tidegate_validation.robustness.failing_inputs import Way
from tidegate_validation.robustness.finding import came_back, example, probe_finding
from tidegate_validation.robustness.judgement import answered, judge_answer, largest_difference
from tidegate_validation.robustness.probes import ALL_INPUTS, Likelihood, Probe, boundary_probes, malformed_probes
from tidegate_validation.robustness.stages.bad_rows import report_if_unsteady
from tidegate_validation.sandbox.answer import Answer
from tidegate_validation.sandbox.examples import Examples

_MISSING = " missing (NaN) "
_MISSING_NUMBERS = "missing numbers"


def boundaries(examination: Examination) -> None:
    """Every column at its edges."""
    if examination.good is not None:
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
    for probe in probes:
        if probe.subject in deadly:
            continue
        if examination.exhausted:
            sentence = (
                f"stopped after {examination.session.deaths} crashes; `{probe.subject}` and what follows is untried"
            )
            examination.report(check, "all inputs", Outcome.INCONCLUSIVE, sentence)
            return
        deaths = examination.session.deaths
        if _one_probe(examination, probe):
            done[probe.subject] = done.get(probe.subject, 0) + 1
        if examination.session.deaths > deaths:
            deadly.add(probe.subject)
    for subject, count in done.items():
        examination.report(check, subject, Outcome.PASS, f"`{subject}`: {count} odd inputs are dealt with")


def _one_probe(examination: Examination, probe: Probe) -> bool:
    """Sends one probe, then the good row again; True when both went well."""
    good = examination.good
    if good is None:
        return False
    answer = examination.ask_raw(probe.tensors, 1)
    outcome = judge_answer(probe.likelihood, answer)
    if outcome is Outcome.FAIL and not answer.fatal:
        outcome = judge_answer(probe.likelihood, answer, examination.ask_baseline(probe.tensors))
    if outcome is not Outcome.PASS and not _known(examination, probe, answer, outcome):
        _report(examination, probe, answer, outcome, good)
    if answer.fatal:
        return False
    after = examination.ask(good)
    if not answered(after) or _changed(examination, good, after):
        if not answered(after) and report_if_unsteady(examination, good, after):
            return False
        words = after.words or "differently from before"
        sentence = f"after {probe.what} in `{probe.subject}` it answers ordinary examples no more as it did ({words})"
        kept = examination.keep("after", probe.subject, probe.tensors, Way.THEN, then=good.arrays)
        more = example(dict(probe.changed), good.row(0), after) | kept
        examination.report("after", probe.subject, Outcome.FAIL, sentence, example=more)
        return False
    return outcome is Outcome.PASS


def _report(examination: Examination, probe: Probe, answer: Answer, outcome: Outcome, good: Examples) -> None:
    seen = examination.domains.get(probe.subject)
    check = "malformed" if probe.likelihood is Likelihood.MALFORMED else "boundary"
    kept = examination.keep(check, probe.subject, probe.tensors, Way.ANSWER)
    finding = probe_finding(probe, answer, outcome, good.row(0), seen.missing_in if seen else None)
    examination.findings.append(replace(finding, example={**(finding.example or {}), **kept}))


def _known(examination: Examination, probe: Probe, answer: Answer, outcome: Outcome) -> bool:
    """Whether the same was said of another input in the same column, or in one of all."""
    return any(
        probe.subject in (one.subject, ALL_INPUTS)
        and one.outcome is outcome
        and one.sentence.endswith(came_back(answer))
        for one in examination.findings
        if one.check == "boundary"
    )


def _changed(examination: Examination, good: Examples, after: Answer) -> bool:
    """Whether a good row is answered unlike before, by a version that answers it alike twice in a row now."""
    tolerance = examination.limits.tolerance
    if largest_difference(after.outputs, examination.expected) <= tolerance:
        return False
    again = examination.ask(good)
    examination.expected = again.outputs
    return not answered(again) or largest_difference(after.outputs, again.outputs) <= tolerance
