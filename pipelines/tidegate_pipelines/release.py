"""The release without an orchestrator: validate, push, canary, promote, and what happens when one says no.

Whatever says no leaves the old version serving as before. `dags/flights_release.py` is the same under Airflow.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

from tidegate_operators.steps import (
    CanaryResult,
    CanaryRule,
    Evidence,
    Promotion,
    Push,
    Validation,
    against_serving,
    canary,
    check_upload,
    judged_against,
    promote,
    push,
    require_allowed,
    require_passed,
    upload,
    validate,
)
from tidegate_serving.connection import EngineConnection
from tidegate_validation.progress import SILENT, Progress, working


@dataclass(frozen=True, slots=True)
class Release:
    """What to release, by which evidence, and how its canary is judged.

    directory: the version's, in the model repository.
    evidence: what the gates judge by; without a baseline that is the version that serves now.
    private_key: the validator's, which signs the verdict.
    control: the engine's control address (`host:port`), or a connection to it.
    rule: what the canary must show; None leaves the canary out.
    store: model repository in an object store (s3://bucket/models) by which the version reaches the engine, where that
        does not see `directory`; the version and its verdict are copied there.
    timeout: seconds that loading, and unloading what served before, may take.
    """

    directory: Path
    evidence: Evidence
    private_key: Path
    control: str | EngineConnection
    rule: CanaryRule | None = field(default_factory=CanaryRule)
    timeout: float = 120.0
    store: str = ""


@dataclass(frozen=True, slots=True)
class ReleaseResult:
    """What each step of a release that came through has said."""

    validated: Validation
    pushed: Push
    canary: CanaryResult | None
    promoted: Promotion


def _untold(_: Validation) -> None:
    """For a release whose verdict nobody waits for."""


def release(
    request: Release, progress: Progress = SILENT, judged: Callable[[Validation], None] = _untold
) -> ReleaseResult:
    """Runs the whole release; `progress` hears the name of each step as it begins, and `judged` the verdict, whatever
    it says, as soon as it is there.

    Raises Refused with the sentence of the step that said no, Superseded where another release of the model was
    quicker, or what a step raises that could not do its work, and that at once for a store that cannot take the
    version; the candidate is then not in the engine any more, and the version that served before serves on.
    """
    directory, control = request.directory, request.control
    with working(progress, "release", parts=4):
        progress.at("validate", 0)
        if request.store:
            check_upload(directory, request.store)
        evidence = against_serving(request.evidence, directory=directory, control=control)
        validated = validate(directory, evidence, private_key=request.private_key, progress=progress)
        judged(validated)
        require_allowed(validated)
        progress.at("push", 1)
        pushed = push(
            directory=upload(directory, request.store) if request.store else directory,
            control=control,
            verdict=validated.verdict_digest,
            judged_against=judged_against(request.evidence, evidence),
            timeout=request.timeout,
        )
        name, version = pushed.id.name, pushed.id.version
        progress.at("canary", 2)
        observed = None
        if request.rule is not None:
            tried = canary(control=control, servable=name, version=version, rule=request.rule, progress=progress)
            observed = require_passed(tried)
        progress.at("promote", 3)
        promoted = promote(control=control, servable=name, version=version, timeout=request.timeout)
    return ReleaseResult(validated, pushed, observed, promoted)
