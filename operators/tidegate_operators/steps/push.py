"""Pushes one version into an engine through its RPC Source, beside the version that serves, and waits for AVAILABLE.

Where the engine refuses it or it does not load, the engine's desired state becomes what it was before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tidegate_operators.steps.change_desired import REQUESTED_BY, Change, Edit, change, give_up
from tidegate_operators.steps.engine_group import Outcomes, engines_of, on_each
from tidegate_operators.steps.stored_version import is_address, read_stored
from tidegate_serving.admission import open_verdict
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.desired_state import DesiredState, VersionReference
from tidegate_serving.contract.errors import FailedPrecondition, NotFound, Tampered, TidegateError
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.repository import verdict_path
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.control_client import ControlClient


@dataclass(frozen=True, slots=True)
class Push:
    """A version that is AVAILABLE; `beside` is the version that ordinary clients get, None for a first version."""

    id: ServableId
    manifest_digest: str
    beside: int | None
    revision: int


def push(
    *,
    directory: Path | str,
    control: str | EngineConnection,
    verdict: str | None = None,
    timeout: float = 120.0,
    reason: str = "",
    requested_by: str = REQUESTED_BY,
) -> Push:
    """Loads the version in `directory` beside the one that serves; ordinary clients notice nothing. `directory` may be
    an address in an object store (`s3://bucket/models/NAME/VERSION`), from where the engine fetches it.

    `control` is the engine's control address (`host:port`), or a connection to it; `verdict` the SHA-256 of the
    verdict's file as the gate wrote it, checked where given; `timeout` in seconds. Pushing what is live already changes
    nothing.

    Raises what the engine says where it refuses (NotAdmitted, Tampered, PermissionRefused, ModelFailed, ...) and
    DeadlinePassed; the engine then holds what it held before. A group gets the version in all its engines, or in none:
    the error names those that failed.
    """
    identity, candidate = _candidate(directory, verdict)
    why = reason or f"push {identity}"

    def tell(client: ControlClient) -> Change:
        return change(client, identity.name, _adding(candidate), why, requested_by)

    outcomes = on_each(engines_of(control), lambda engine: _push_to(engine, identity, candidate, timeout, tell))
    if outcomes.failed:
        on_each([engine for engine, _ in outcomes.done], lambda engine: _take_back(engine, outcomes, candidate)).all()
    pushed = outcomes.all(f"{identity} was pushed nowhere")[0]
    before = pushed.before
    beside = before.stable if before.stable != identity.version else None
    return Push(identity, candidate.manifest_digest, beside, pushed.revision)


def _push_to(
    engine: EngineConnection,
    identity: ServableId,
    candidate: VersionReference,
    timeout: float,
    tell: Callable[[ControlClient], Change],
) -> Change:
    with ControlClient(engine) as client:
        pushed = tell(client)
        try:
            client.wait_until(identity.name, identity.version, State.AVAILABLE, timeout)
        except TidegateError:
            change(client, identity.name, _undo(pushed, candidate), f"{identity} did not become available")
            raise
    return pushed


def _take_back(engine: EngineConnection, outcomes: Outcomes[Change], candidate: VersionReference) -> None:
    """What one engine took and another of its group did not."""
    pushed = next(done for one, done in outcomes.done if one == engine)
    name = pushed.before.servable
    with ControlClient(engine) as client:
        change(client, name, _undo(pushed, candidate), f"{name}:{candidate.version} is not in the whole group")


def _candidate(directory: Path | str, verdict: str | None) -> tuple[ServableId, VersionReference]:
    if isinstance(directory, str) and is_address(directory):
        stored = read_stored(directory)
        if verdict is not None and stored.verdict_digest != verdict:
            raise Tampered(
                f"the verdict beside {directory} is not the one that the gate handed over: upload it, or validate again"
            )
        reference = VersionReference(stored.id.version, Path(), stored.manifest_digest, address=directory.rstrip("/"))
        return stored.id, reference
    folder = Path(directory).absolute()
    if not folder.is_dir():
        raise NotFound(
            f"{folder} is not on this machine: publish it, mount the engine's root here, or push the version by its "
            "address in an object store"
        )
    manifest, manifest_digest = read_manifest(folder)
    if verdict is not None:
        _check_verdict(folder, verdict)
    return manifest.id, VersionReference(manifest.id.version, folder, manifest_digest)


def _adding(candidate: VersionReference) -> Edit:
    def edit(before: DesiredState) -> DesiredState:
        _check_number_is_free(before, candidate)
        return before.adding(candidate)

    return edit


def _undo(pushed: Change, candidate: VersionReference) -> Edit:
    """All of it, or, where somebody else has changed something since, the candidate alone."""

    def edit(now: DesiredState) -> DesiredState:
        if now.revision == pushed.revision:
            return replace(pushed.before, revision=now.revision)
        return now if pushed.before.version(candidate.version) else now.without(candidate.version)

    return edit


def withdraw(*, control: str | EngineConnection, servable: str, version: int, reason: str) -> bool:
    """Wants a candidate no more, so that a refusal leaves nothing behind; False where it was not wanted anyway.

    FailedPrecondition for the version that ordinary clients get: only a promotion or a rollback takes that away.
    """
    return any(on_each(engines_of(control), lambda engine: _withdraw_from(engine, servable, version, reason)).all())


def _withdraw_from(engine: EngineConnection, servable: str, version: int, reason: str) -> bool:
    with ControlClient(engine) as client:
        desired = client.desired(servable)
        if desired.version(version) is None:
            return False
        if desired.stable == version:
            raise FailedPrecondition(
                f"{servable}:{version} is what ordinary clients get: roll back or promote another version instead"
            )
        give_up(client, servable, version, reason)
    return True


def _check_verdict(directory: Path, expected: str) -> None:
    path = verdict_path(directory)
    if open_verdict(path).digest != expected:
        raise Tampered(f"{path} is not the verdict that the gate handed over: validate the version again")


def _check_number_is_free(before: DesiredState, candidate: VersionReference) -> None:
    live = before.version(candidate.version)
    if live is not None and live.manifest_digest != candidate.manifest_digest:
        raise FailedPrecondition(
            f"{before.servable}:{candidate.version} is live with other files ({live.directory}): "
            "publish the new files under a new version number"
        )
