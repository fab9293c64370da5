"""Examines one model of `faults` or `controls` and holds the verdict against the right one.

`test_faults` and the bench of the robustness gate call it; a run that is right has no `wrong`.
"""

from __future__ import annotations

import re
import time
from dataclasses import dataclass, replace
from pathlib import Path

from tests.validation import world
from tests.validation.robustness.fault_cases import MAX_BATCH, Case
from tests.validation.world import Draft

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.case import Case as Trial
from tidegate_validation.case import Version
from tidegate_validation.outcomes import worst
from tidegate_validation.robustness.gate import examine
from tidegate_validation.robustness.input_domain import input_domains
from tidegate_validation.robustness.limits import RobustnessLimits

LIMITS = RobustnessLimits(
    load_seconds=30,
    call_seconds=6,
    exit_seconds=6,
    total_seconds=120,
    max_batch=MAX_BATCH,
    sample_rows=300,
    golden_rows=4,
)


@dataclass(frozen=True)
class Run:
    """What came out: `wrong` says what was not as it should be, `late` by how many seconds a deadline was overrun."""

    wrong: str
    late: float
    seconds: float
    findings: tuple[Finding, ...]


def examined(root: Path, case: Case) -> Run:
    """One examination of the case, in a repository of its own under `root`."""
    version = Version.read(world.publish(root, 2, Draft(source=case.source)))
    data = case.held_out()
    limits = replace(LIMITS, **case.limits)
    domains = input_domains(version.manifest.signatures["serving_default"], None, data, None)
    begun = time.monotonic()
    findings = examine(Trial(version, None, data, world.LABEL, report=root / "report"), domains, limits)
    seconds = time.monotonic() - begun
    over = max(0.0, seconds - limits.total_seconds)
    return Run(wrong(case, findings), max(over, late(findings)), seconds, tuple(findings))


def wrong(case: Case, findings: list[Finding]) -> str:
    """Why the verdict is not the right one for the right reason; empty where it is."""
    outcome = worst([one.outcome for one in findings])
    failed = [one for one in findings if one.outcome is Outcome.FAIL]
    if case.outcome in (Outcome.PASS, Outcome.WARN):
        said = [one for one in findings if one.outcome is not Outcome.PASS]
        if case.outcome is Outcome.WARN and not said:
            return "no word of it"
        unexpected = [one for one in said if one.outcome is not case.outcome or not re.search(case.words, one.sentence)]
        return "; ".join(f"{one.outcome} {one.check}: {one.sentence}" for one in unexpected)
    if outcome is not case.outcome:
        return f"{outcome} instead of {case.outcome}"
    if not failed:
        return ""
    if failed[0].check not in case.checks:
        return f"blamed on {failed[0].check}: {failed[0].sentence}"
    if not any(re.search(case.words, one.sentence) for one in failed if one.check in case.checks):
        return f"without the cause {case.words!r}: {failed[0].sentence}"
    return ""


def late(findings: list[Finding]) -> float:
    """By how much an answer came after its deadline, as the sandbox's finding says it."""
    found = re.search(r"at most ([0-9.]+) s after their deadline", findings[-1].sentence)
    return float(found[1]) if found else 0.0
