"""Pushes one version into an engine through its RPC Source, beside the version that serves, and waits for AVAILABLE.

Where the engine refuses it or it does not load, the engine's desired state becomes what it was before.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tidegate_operators.steps.change_desired import REQUESTED_BY, Change, Edit, change, give_up
from tidegate_operators.steps.decided import check_not_blocked
from tidegate_operators.steps.engine_group import Outcomes, engines_of, on_each
from tidegate_operators.steps.stored_version import is_address, read_stored
from tidegate_operators.steps.superseded import check_not_overtaken
from tidegate_operators.steps.waits import wait_available
from tidegate_serving.admission import open_verdict
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.desired_state import STABLE, DesiredState, VersionReference
from tidegate_serving.contract.errors import DeadlinePassed, FailedPrecondition, NotFound, Tampered, Unavailable
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.repository import verdict_path
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.control_client import ControlClient, ServableStatus


@dataclass(frozen=True, slots=True)
class Push:
    """A version that an engine was told to load; `beside` is the version that ordinary clients get, None for a first
    version. `labelled`: engines in which that version had no label before, and got `stable` so that clients stay on
    it, with the revision of that change."""

    id: ServableId
    manifest_digest: str
    beside: int | None
    revision: int
    labelled: Mapping[str, int] = field(default_factory=dict)


def push(
    *,
    directory: Path | str,
    control: str | EngineConnection,
    verdict: str | None = None,
    judged_against: int | None = None,
    timeout: float = 120.0,
    reason: str = "",
    requested_by: str = REQUESTED_BY,
) -> Push:
    """Loads the version in `directory` beside the one that serves; ordinary clients notice nothing. `directory` may be
    an address in an object store (`s3://bucket/models/NAME/VERSION`), from where the engine fetches it.

    `control` is the engine's control address (`host:port`), or a connection to it; `verdict` the SHA-256 of the
    verdict's file as the gate wrote it, checked where given; `judged_against` the version that served when this one was
    judged, 0 for none; `timeout` in seconds. Pushing what is live already changes nothing.

    Raises Superseded where a newer version was promoted since this one was judged, or this one was taken out again
    before it had loaded, DeadlinePassed, and what the engine says where it refuses (NotAdmitted, Tampered,
    PermissionRefused, ModelFailed, ...); the engine then holds what it held before. A group gets the version in all its
    engines, or in none: the error names those that failed.
    """
    pushed = begin_push(
        directory=directory,
        control=control,
        verdict=verdict,
        judged_against=judged_against,
        reason=reason,
        requested_by=requested_by,
    )
    finish_push(pushed, control=control, timeout=timeout)
    return pushed


def begin_push(
    *,
    directory: Path | str,
    control: str | EngineConnection,
    verdict: str | None = None,
    judged_against: int | None = None,
    reason: str = "",
    requested_by: str = REQUESTED_BY,
) -> Push:
    """Tells the engine to load the version, as `push` does, and does not wait for it."""
    identity, candidate = _candidate(directory, verdict)
    why = reason or f"push {identity}"

    def tell(engine: EngineConnection) -> Change:
        with ControlClient(engine) as client:
            return change(client, identity.name, _adding(candidate, judged_against), why, requested_by)

    outcomes = on_each(engines_of(control), tell)
    first = outcomes.done[0][1] if outcomes.done else None
    before = first.before.stable if first else None
    pushed = Push(
        identity,
        candidate.manifest_digest,
        before if before != identity.version else None,
        first.revision if first else 0,
        {str(engine): done.revision for engine, done in outcomes.done if _labels(done)},
    )
    _all_or_none(outcomes, pushed, [engine for engine, _ in outcomes.done])
    return pushed


def finish_push(pushed: Push, *, control: str | EngineConnection, timeout: float, waited: float = 0.0) -> None:
    """Waits until the version is AVAILABLE. Raises its own error where it does not load, DeadlinePassed after `timeout`
    seconds, beside those that were `waited` before; it is then wanted no more, unless a label names it."""
    engines = engines_of(control)
    _all_or_none(_await(pushed, engines, timeout, waited), pushed, engines)


def await_push(pushed: Push, *, control: str | EngineConnection, patience: float) -> bool:
    """Whether the version is AVAILABLE within `patience` seconds; where it is still loading then, it goes on loading.
    Raises its own error where it does not load."""
    engines = engines_of(control)
    outcomes = _await(pushed, engines, patience)
    if any(not isinstance(error, DeadlinePassed) for _, error in outcomes.failed):
        _all_or_none(outcomes, pushed, engines)
    return not outcomes.failed


def _await(pushed: Push, engines: Sequence[EngineConnection], timeout: float, waited: float = 0.0) -> Outcomes[None]:
    def wait(engine: EngineConnection) -> None:
        with ControlClient(engine) as client:
            wait_available(client, pushed.id, timeout, waited)

    return on_each(engines, wait)


def _all_or_none(outcomes: Outcomes[Change] | Outcomes[None], pushed: Push, told: Sequence[EngineConnection]) -> None:
    """Where an engine failed, none that was told keeps the version; then the error."""

    def take_back(engine: EngineConnection) -> None:
        why = f"{pushed.id} did not become available" + (" in the whole group" if len(told) > 1 else "")
        with ControlClient(engine) as client:
            change(client, pushed.id.name, _undo(pushed, engine), why)

    if outcomes.failed:
        lost = {engine for engine, error in outcomes.failed if isinstance(error, Unavailable)}
        on_each([engine for engine in told if engine not in lost], take_back).all()
        outcomes.all(f"{pushed.id} was pushed nowhere")


def _labels(done: Change) -> bool:
    return STABLE in done.after.labels and STABLE not in done.before.labels


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
    if not folder.exists():
        raise NotFound(
            f"{folder} is not on this machine: publish it, mount the engine's root here, or push the version by its "
            "address in an object store"
        )
    manifest, manifest_digest = read_manifest(folder)
    if verdict is not None:
        _check_verdict(folder, verdict)
    return manifest.id, VersionReference(manifest.id.version, folder, manifest_digest)


def _adding(candidate: VersionReference, judged_against: int | None) -> Edit:
    def edit(status: ServableStatus) -> DesiredState:
        before, version = status.desired, candidate.version
        check_not_overtaken(status, version, judged_against)
        if before.version(version) is not None:  # else the engine compares the files with those of the block
            check_not_blocked(status, version)
        _check_number_is_free(before, candidate)
        return before.adding(candidate)

    return edit


def _undo(pushed: Push, engine: EngineConnection) -> Edit:
    """The candidate goes whoever asked for it first: a push that was killed leaves one behind, and the next has to end
    as that would have. The label that it brought goes too, unless somebody has changed something since."""

    def edit(status: ServableStatus) -> DesiredState:
        now = status.desired
        if pushed.id.version in now.labels.values():
            return now
        after = now.without(pushed.id.version)
        if pushed.labelled.get(str(engine)) == now.revision:
            after = replace(after, labels={name: to for name, to in after.labels.items() if name != STABLE})
        return after

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
