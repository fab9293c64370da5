"""Has the quality gate judge drafts of models on a table, each in a real probe process; findings come back.

Tests of the gate use it instead of publishing by hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
from tests.validation import world
from tests.validation.world import Draft

from tidegate_serving.admission import Finding, Outcome
from tidegate_validation.case import Case, Version
from tidegate_validation.outcomes import worst
from tidegate_validation.quality.gate import judge_quality
from tidegate_validation.quality.rule import QualityRule
from tidegate_validation.sandbox.limits import SandboxLimits

LIMITS = SandboxLimits(load_seconds=60, call_seconds=20)


def judged(
    root: Path,
    candidate: Draft,
    baseline: Draft | None,
    table: pa.Table,
    rule: QualityRule | None = None,
    training: pa.Table | None = None,
) -> list[Finding]:
    """The quality gate's findings about a candidate, version 2, and a baseline, version 1, on a held-out table."""
    directories = [world.publish(root, 2, candidate)] + ([world.publish(root, 1, baseline)] if baseline else [])
    versions = [Version.read(directory) for directory in directories]
    case = Case(versions[0], versions[1] if baseline else None, table, world.LABEL, training)
    return judge_quality(case, LIMITS, rule or QualityRule())


def outcome(findings: Sequence[Finding]) -> Outcome:
    """The gravest of them."""
    return worst([one.outcome for one in findings])


def failing(findings: Sequence[Finding]) -> list[tuple[str, str]]:
    """Check and subject of those that fail."""
    return [(one.check, one.subject) for one in findings if one.outcome is Outcome.FAIL]


def named(findings: Sequence[Finding], check: str, subject: str | None = None) -> Finding:
    """The one finding of a check, and subject where told."""
    (found,) = [one for one in findings if one.check == check and subject in (None, one.subject)]
    return found
