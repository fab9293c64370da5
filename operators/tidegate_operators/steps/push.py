"""Pushes one version into an engine through its RPC Source, beside the version that serves, and waits for AVAILABLE.

In comes a version directory that a verdict admits, from an orchestrator or the command line; out goes the whole wanted
set to the engine, and, where the engine refuses or the load fails, the set as it was before.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from tidegate_operators.steps.wanted import REQUESTED_BY, Changed, Wanted, change, give_up, read_wanted
from tidegate_serving.admission import open_verdict
from tidegate_serving.contract.errors import FailedPrecondition, Tampered, TidegateError
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.repository import verdict_path
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.control_client import Aspired, ControlClient


@dataclass(frozen=True, slots=True)
class Pushed:
    """A version that is AVAILABLE; `beside` is the version that ordinary clients get, None for a first version."""

    id: ServableId
    manifest_digest: str
    beside: int | None
    revision: int


def push(
    *,
    directory: Path,
    control: str,
    verdict: str | None = None,
    timeout: float = 120.0,
    reason: str = "",
    requested_by: str = REQUESTED_BY,
) -> Pushed:
    """Loads the version in `directory` beside the one that serves; ordinary clients notice nothing.

    `control` is the engine's control address, `host:port`; `verdict` the SHA-256 of the verdict's file as the
    gate wrote it, checked where given; `timeout` in seconds. Pushing what is live already changes nothing.

    Raises what the engine says where it refuses (NotAdmitted, Tampered, PermissionRefused, ModelFailed, ...) and
    DeadlinePassed; the engine then holds what it held before.
    """
    directory = directory.absolute()
    manifest, manifest_digest = read_manifest(directory)
    if verdict is not None:
        _check_verdict(directory, verdict)
    identity = manifest.id
    candidate = Aspired(identity.version, directory, manifest_digest)
    with ControlClient(control) as client:
        pushed = change(client, identity.name, _adding(candidate), reason or f"push {identity}", requested_by)
        try:
            client.wait_until(identity.name, identity.version, State.AVAILABLE, timeout)
        except TidegateError:
            change(client, identity.name, _undo(pushed, candidate), f"{identity} did not become available")
            raise
    before = pushed.before
    beside = before.stable if before.stable != identity.version else None
    return Pushed(identity, manifest_digest, beside, pushed.revision)


def _adding(candidate: Aspired) -> Callable[[Wanted], Wanted]:
    def edit(before: Wanted) -> Wanted:
        _check_number_is_free(before, candidate)
        return before.adding(candidate)

    return edit


def _undo(pushed: Changed, candidate: Aspired) -> Callable[[Wanted], Wanted]:
    """All of it, or, where somebody else has changed something since, the candidate alone."""

    def edit(now: Wanted) -> Wanted:
        if now.revision == pushed.revision:
            return replace(pushed.before, revision=now.revision)
        return now if pushed.before.get(candidate.version) else now.without(candidate.version)

    return edit


def withdraw(*, control: str, servable: str, version: int, reason: str) -> bool:
    """Un-aspires a candidate, so that a refusal leaves nothing behind; False where it was not wanted anyway.

    FailedPrecondition for the version that ordinary clients get: only a promotion or a rollback takes that away.
    """
    with ControlClient(control) as client:
        wanted = read_wanted(client, servable)
        if wanted.get(version) is None:
            return False
        if wanted.stable == version:
            raise FailedPrecondition(
                f"{servable}:{version} is what ordinary clients get: roll back or promote another version instead"
            )
        give_up(client, servable, version, reason)
    return True


def _check_verdict(directory: Path, expected: str) -> None:
    path = verdict_path(directory)
    if open_verdict(path).digest != expected:
        raise Tampered(f"{path} is not the verdict that the gate handed over: validate the version again")


def _check_number_is_free(before: Wanted, candidate: Aspired) -> None:
    live = before.get(candidate.version)
    if live is not None and live.manifest_digest != candidate.manifest_digest:
        raise FailedPrecondition(
            f"{before.servable}:{candidate.version} is live with other files ({live.path}): "
            "publish the new files under a new version number"
        )
