"""Runs one user's check as a gate, in a sandbox and with a deadline.

A check that raises, hangs or dies is an ERROR of the check, never a pass and never the candidate's fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from tidegate_serving.admission.verdict import Finding, GateResult, Outcome
from tidegate_serving.contract.manifest import Manifest
from tidegate_validation.checks.answers import answers
from tidegate_validation.checks.process import CheckAnswer, CheckKind, run_check
from tidegate_validation.checks.rule import CheckRule
from tidegate_validation.outcomes import gate_result
from tidegate_validation.sandbox.limits import SandboxLimits

_SEED = 7
_LOG_LETTERS = 600


@dataclass(frozen=True, slots=True)
class CheckSubject:
    """What the check is about; tables are pyarrow's."""

    candidate: Path
    manifest: Manifest
    baseline: Path | None
    baseline_manifest: Manifest | None
    held_out: Any
    training: Any | None
    label: str
    limits: SandboxLimits
    probe: Sequence[str] | None = None


def run_user_check(name: str, target: str, subject: CheckSubject, rule: CheckRule) -> GateResult:
    """Calls `target`, `module:function`, in a sandboxed process with a mapping:

    `candidate` and `baseline` are version directories, `held_out` and `training` tables, `label` the column of the
    truth, `candidate_answers` and `baseline_answers` tables of outputs beside `held_out`, `options` the policy's; what
    there is not is None. It returns findings, see `tidegate_serving.admission.verdict.Finding`.
    """
    answer = run_check(target, _request(subject, rule), subject.limits, rule.seconds)
    if answer.kind is not CheckKind.FINDINGS:
        return GateResult(name, Outcome.ERROR, _fault(name, target, answer))
    return _result(name, answer.findings)


def _request(subject: CheckSubject, rule: CheckRule) -> dict[str, Any]:
    held_out = subject.held_out
    if 0 < rule.rows < held_out.num_rows:
        chosen = np.random.default_rng(_SEED).choice(held_out.num_rows, rule.rows, replace=False)
        held_out = held_out.take(np.sort(chosen))
    request: dict[str, Any] = {
        "candidate": subject.candidate.absolute(),
        "baseline": None if subject.baseline is None else subject.baseline.absolute(),
        "held_out": held_out,
        "training": subject.training,
        "label": subject.label,
        "candidate_answers": None,
        "baseline_answers": None,
        "options": dict(rule.options),
    }
    if rule.answers:
        request["candidate_answers"] = answers(
            subject.candidate, subject.manifest, held_out, subject.limits, subject.probe
        )
        if subject.baseline is not None and subject.baseline_manifest is not None:
            request["baseline_answers"] = answers(
                subject.baseline, subject.baseline_manifest, held_out, subject.limits, subject.probe
            )
    return request


def _result(name: str, findings: Sequence[Finding]) -> GateResult:
    return gate_result(name, findings, findings[0].sentence if findings else f"the check {name} objects to nothing")


def _fault(name: str, target: str, answer: CheckAnswer) -> str:
    log = answer.log.strip()[-_LOG_LETTERS:]
    return f"the check {name} ({target}) {_verb(answer)}: mend the check" + (f"; its log ends: {log}" if log else "")


def _verb(answer: CheckAnswer) -> str:
    return f"raised {answer.words}" if answer.kind is CheckKind.RAISED else answer.words
