"""Words answers to probes as findings: the input that did it, what came back, and the end of the process's log.

The input goes into the finding as its example, down to the one column where possible.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.robustness.judgement import by_accident
from tidegate_validation.robustness.probes import Likelihood, Probe
from tidegate_validation.sandbox.answer import Answer, AnswerKind

_SHOWN = 60
_WORDS, _LAST_WORDS = 240, 60


def milliseconds(seconds: float) -> str:
    """In milliseconds, to three digits or all before the point."""
    return f"{1e3 * seconds:,.0f} ms" if seconds >= 0.1 else f"{1e3 * seconds:.3g} ms"


def probe_finding(
    probe: Probe, answer: Answer, outcome: Outcome, row: Mapping[str, Any], why_everyday: str | None, doubt: str = ""
) -> Finding:
    """One probe's answer; `why_everyday` says where a missing value was seen, `doubt` why it is a warning, for the
    sentence."""
    sentence = f"with {shown(probe)} {came_back(answer)}{doubt}"
    if outcome is Outcome.FAIL and not answer.fatal and probe.what == "missing" and why_everyday:
        sentence += f", and missing values occur in {why_everyday}"
    if (
        outcome is Outcome.WARN
        and not doubt
        and (answer.kind is AnswerKind.REFUSED or probe.likelihood is Likelihood.RARE)
    ):
        sentence += ", as does the version that serves now"
    if probe.likelihood is Likelihood.MALFORMED and answer.kind is AnswerKind.OUTPUTS:
        sentence = f"`{probe.subject}`: {probe.what} is answered instead of refused"
    return Finding(
        check="malformed" if probe.likelihood is Likelihood.MALFORMED else "boundary",
        subject=probe.subject,
        outcome=outcome,
        sentence=sentence,
        example=example(dict(probe.changed), row, answer),
    )


def shown(probe: Probe) -> str:
    """The probe's input as a reader would write it, such as `carrier="☃unseen"` or a missing `wind_gust`."""
    value = probe.changed.get(probe.subject)
    if probe.likelihood is Likelihood.MALFORMED or len(probe.changed) > 1:
        return probe.what if len(probe.changed) > 1 else f"{probe.what} (`{probe.subject}`)"
    if probe.what == "missing":
        return f"`{probe.subject}` missing (NaN)"
    return assignment(probe.subject, value)


def assignment(column: str, value: Any) -> str:
    """`column=value`, long texts cut."""
    if isinstance(value, str):
        return f'`{column}="{value if len(value) <= _SHOWN else value[:_SHOWN] + "…"}"`'
    return f"`{column}={value}`"


def example(changed: Mapping[str, Any], row: Mapping[str, Any], answer: Answer) -> dict[str, Any]:
    """What to try again: the changed columns, the whole row, an error too long for a sentence, and the end of the log
    where there is one.
    """
    found: dict[str, Any] = {"changed": dict(changed), "input": {**row, **changed}}
    if _words(answer) != answer.words:
        found["error"] = answer.words
    if answer.log:
        found["log"] = answer.log
    return found


def failure(answer: Answer) -> tuple[AnswerKind, str]:
    """What is the same for answers that fail in the same way: the class that was raised, else all that came back."""
    return answer.kind, answer.raised[0] if answer.raised else came_back(answer)


def with_more_inputs(finding: Finding, inputs: Sequence[str]) -> Finding:
    """The finding of one input, with the others of its column that are answered alike."""
    *most, last = inputs
    told = f"{', '.join(most)} and {last}" if most else last
    return replace(
        finding,
        sentence=f"{finding.sentence}; the same with {told}",
        example={**(finding.example or {}), "also": list(inputs)},
    )


def came_back(answer: Answer) -> str:
    """What the version did, in words that follow `with ...`."""
    if answer.kind is AnswerKind.OUTPUTS:
        output = answer.non_finite()
        return "it answers finite numbers" if output is None else f"it answers NaN or infinity in `{output}`"
    if answer.kind is AnswerKind.REFUSED:
        return f"{'its code fails' if by_accident(answer) else 'it refuses to answer'} ({_words(answer)})"
    if answer.kind is AnswerKind.NOT_LOADED:
        return f"it does not load any more ({answer.words})"
    if answer.kind is AnswerKind.HUNG:
        return f"it {answer.words}"
    return f"its process {answer.words}"


def _words(answer: Answer) -> str:
    """The answer's words, their middle left out where they are long: what tells is at both ends."""
    words = answer.words
    return words if len(words) <= _WORDS + _LAST_WORDS else f"{words[:_WORDS]} … {words[-_LAST_WORDS:]}"
