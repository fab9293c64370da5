"""Runs one user's check as a gate, in a sandbox and with a deadline.

A check that raises, hangs or dies is an ERROR of the check, never a pass and never the candidate's fault.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tidegate_serving.admission import Finding, GateResult, Outcome
from tidegate_validation.case import Case, Version
from tidegate_validation.checks.answers import answers
from tidegate_validation.checks.process import CheckAnswer, CheckKind, run_check
from tidegate_validation.checks.rule import CheckRule
from tidegate_validation.outcomes import gate_result
from tidegate_validation.sandbox.limits import SandboxLimits

_SEED = 7
_LOG_LETTERS = 600


def run_user_check(name: str, target: str, case: Case, limits: SandboxLimits, rule: CheckRule) -> GateResult:
    """Calls `target`, `module:function`, in a sandboxed process with a mapping:

    `candidate` and `baseline` are version directories, `held_out` and `training` tables, `label` the column of the
    truth, `candidate_answers` and `baseline_answers` tables of outputs beside `held_out`, `options` the policy's; what
    there is not is None. It returns findings, see `tidegate_serving.admission.verdict.Finding`.
    """
    answer = run_check(target, _request(case, limits, rule), limits, rule.seconds)
    if answer.kind is not CheckKind.FINDINGS:
        return GateResult(name, Outcome.ERROR, _fault(name, target, answer))
    return _result(name, answer.findings)


def _request(case: Case, limits: SandboxLimits, rule: CheckRule) -> dict[str, Any]:
    held_out = case.held_out
    if 0 < rule.rows < held_out.num_rows:
        chosen = np.random.default_rng(_SEED).choice(held_out.num_rows, rule.rows, replace=False)
        held_out = held_out.take(np.sort(chosen))

    def answered(version: Version | None) -> Any:
        if version is None or not rule.answers:
            return None
        return answers(version.directory, version.manifest, held_out, limits, case.probe)

    return {
        "candidate": case.candidate.directory.absolute(),
        "baseline": None if case.baseline is None else case.baseline.directory.absolute(),
        "held_out": held_out,
        "training": case.training,
        "label": case.label,
        "candidate_answers": answered(case.candidate),
        "baseline_answers": answered(case.baseline),
        "options": dict(rule.options),
    }


def _result(name: str, findings: Sequence[Finding]) -> GateResult:
    return gate_result(name, findings, findings[0].sentence if findings else f"the check {name} objects to nothing")


def _fault(name: str, target: str, answer: CheckAnswer) -> str:
    log = answer.log.strip()[-_LOG_LETTERS:]
    return f"the check {name} ({target}) {_verb(answer)}: mend the check" + (f"; its log ends: {log}" if log else "")


def _verb(answer: CheckAnswer) -> str:
    return f"raised {answer.words}" if answer.kind is CheckKind.RAISED else answer.words
