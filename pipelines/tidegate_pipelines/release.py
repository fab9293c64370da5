"""The release without an orchestrator: validate, push, canary, promote, and what happens when one says no.

In come a version directory, the evidence and the engine's control address; out goes a served version or the one
sentence that says why not, with the old version serving as before. `dags/flights_release.py` is the same under Airflow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidegate_operators.steps import (
    CanaryResult,
    CanaryRule,
    Promotion,
    Push,
    Validated,
    canary,
    find_baseline,
    find_log,
    promote,
    push,
    require_allowed,
    require_passed,
    validate,
)


@dataclass(frozen=True, slots=True)
class Release:
    """What to release and with which evidence; paths as in `tidegate_operators.steps.validate`.

    `control` is the engine's control address. Without `baseline` it is the version that serves now.
    """

    directory: Path
    held_out: Any
    private_key: Path
    control: str
    baseline: Path | None = None
    training: Any = None
    policy: Path | None = None
    rule: CanaryRule = field(default_factory=CanaryRule)


@dataclass(frozen=True, slots=True)
class Released:
    """What each step of a release that came through has said."""

    validated: Validated
    pushed: Push
    canary: CanaryResult
    promoted: Promotion


def release(request: Release, on_step: Callable[[str], None] = lambda step: None) -> Released:
    """Runs the whole release. `on_step` hears the name of each step as it begins.

    Raises Refused with the sentence of the step that said no, or what a step raises that could not do its work; the
    candidate is then not in the engine any more, and the version that served before serves on.
    """
    on_step("validate")
    validated = require_allowed(_validate(request))
    on_step("push")
    pushed = push(directory=request.directory, control=request.control, verdict=validated.verdict_digest)
    identity = pushed.id
    on_step("canary")
    observed = require_passed(
        canary(control=request.control, servable=identity.name, version=identity.version, rule=request.rule)
    )
    on_step("promote")
    promoted = promote(control=request.control, servable=identity.name, version=identity.version)
    return Released(validated, pushed, observed, promoted)


def _validate(request: Release) -> Validated:
    baseline = request.baseline or find_baseline(control=request.control, directory=request.directory)
    return validate(
        directory=request.directory,
        held_out=request.held_out,
        private_key=request.private_key,
        baseline=baseline,
        training=request.training,
        log_root=find_log(control=request.control) if baseline else None,
        policy=request.policy,
    )
