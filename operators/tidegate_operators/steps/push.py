"""Pushes one version into an engine through its RPC Source, beside the version that serves, and waits for AVAILABLE.

Where the engine refuses it or it does not load, the engine's desired state becomes what it was before.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from tidegate_operators.steps.change_desired import REQUESTED_BY, Edit, change, give_up
from tidegate_serving.admission import open_verdict
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.desired_state import STABLE, DesiredState, VersionReference
from tidegate_serving.contract.errors import DeadlinePassed, FailedPrecondition, Tampered, TidegateError
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.repository import verdict_path
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.control_client import ControlClient


@dataclass(frozen=True, slots=True)
class Push:
    """A version that an engine was told to load; `beside` is the version that ordinary clients get, None for a first
    version. `labelled`: that version had no label before, and got `stable` so that clients stay on it."""

    id: ServableId
    manifest_digest: str
    beside: int | None
    revision: int
    labelled: bool = False


def push(
    *,
    directory: Path,
    control: str | EngineConnection,
    verdict: str | None = None,
    timeout: float = 120.0,
    reason: str = "",
    requested_by: str = REQUESTED_BY,
) -> Push:
    """Loads the version in `directory` beside the one that serves; ordinary clients notice nothing.

    `control` is the engine's control address (`host:port`), or a connection to it; `verdict` the SHA-256 of the
    verdict's file as the gate wrote it, checked where given; `timeout` in seconds. Pushing what is live already changes
    nothing.

    Raises what the engine says where it refuses (NotAdmitted, Tampered, PermissionRefused, ModelFailed, ...) and
    DeadlinePassed; the engine then holds what it held before.
    """
    pushed = begin_push(directory=directory, control=control, verdict=verdict, reason=reason, requested_by=requested_by)
    finish_push(pushed, control=control, timeout=timeout)
    return pushed


def begin_push(
    *,
    directory: Path,
    control: str | EngineConnection,
    verdict: str | None = None,
    reason: str = "",
    requested_by: str = REQUESTED_BY,
) -> Push:
    """Tells the engine to load the version, as `push` does, and does not wait for it."""
    directory = directory.absolute()
    manifest, manifest_digest = read_manifest(directory)
    if verdict is not None:
        _check_verdict(directory, verdict)
    identity = manifest.id
    candidate = VersionReference(identity.version, directory, manifest_digest)
    with ControlClient(control) as client:
        pushed = change(client, identity.name, _adding(candidate), reason or f"push {identity}", requested_by)
    before = pushed.before
    beside = before.stable if before.stable != identity.version else None
    labelled = STABLE in pushed.after.labels and STABLE not in before.labels
    return Push(identity, manifest_digest, beside, pushed.revision, labelled)


def finish_push(pushed: Push, *, control: str | EngineConnection, timeout: float) -> None:
    """Waits until the version is AVAILABLE. Raises its own error where it does not load, DeadlinePassed after `timeout`
    seconds; it is then wanted no more, unless a label names it."""
    with ControlClient(control) as client:
        try:
            client.wait_until(pushed.id.name, pushed.id.version, State.AVAILABLE, timeout)
        except TidegateError:
            change(client, pushed.id.name, _undo(pushed), f"{pushed.id} did not become available")
            raise


def await_push(pushed: Push, *, control: str | EngineConnection, patience: float) -> bool:
    """Whether the version is AVAILABLE within `patience` seconds; where it is still loading then, it goes on loading.
    Raises its own error where it does not load."""
    with ControlClient(control) as client:
        try:
            client.wait_until(pushed.id.name, pushed.id.version, State.AVAILABLE, patience)
        except DeadlinePassed:
            return False
        except TidegateError:
            change(client, pushed.id.name, _undo(pushed), f"{pushed.id} did not become available")
            raise
    return True


def _adding(candidate: VersionReference) -> Edit:
    def edit(before: DesiredState) -> DesiredState:
        _check_number_is_free(before, candidate)
        return before.adding(candidate)

    return edit


def _undo(pushed: Push) -> Edit:
    """The candidate goes whoever asked for it first: a push that was killed leaves one behind, and the next has to end
    as that would have. The label that it brought goes too, unless somebody has changed something since."""

    def edit(now: DesiredState) -> DesiredState:
        if pushed.id.version in now.labels.values():
            return now
        after = now.without(pushed.id.version)
        if pushed.labelled and now.revision == pushed.revision:
            after = replace(after, labels={name: to for name, to in after.labels.items() if name != STABLE})
        return after

    return edit


def withdraw(*, control: str | EngineConnection, servable: str, version: int, reason: str) -> bool:
    """Wants a candidate no more, so that a refusal leaves nothing behind; False where it was not wanted anyway.

    FailedPrecondition for the version that ordinary clients get: only a promotion or a rollback takes that away.
    """
    with ControlClient(control) as client:
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
