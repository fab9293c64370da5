"""What several outcomes or findings add up to: the gravest counts."""

from __future__ import annotations

from collections.abc import Sequence

from tidegate_serving.admission import Finding, GateResult, Outcome

GRAVITY = (Outcome.FAIL, Outcome.ERROR, Outcome.INCONCLUSIVE, Outcome.WARN, Outcome.PASS)


def worst(outcomes: Sequence[Outcome]) -> Outcome:
    """The gravest outcome; PASS for none."""
    return min(outcomes, key=GRAVITY.index, default=Outcome.PASS)


def gate_result(gate: str, findings: Sequence[Finding], passed: str, seconds: float = 0.0) -> GateResult:
    """What findings add up to; the sentence is the gravest finding's, or `passed` where none has anything to say."""
    outcome = worst([finding.outcome for finding in findings])
    ordered = sorted(findings, key=lambda finding: GRAVITY.index(finding.outcome))
    sentence = passed if outcome is Outcome.PASS or not ordered else ordered[0].sentence
    return GateResult(gate, outcome, sentence, tuple(ordered), seconds)
