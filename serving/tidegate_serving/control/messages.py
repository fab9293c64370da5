"""Desired states, status, events and journal entries as protobuf messages of `tidegate.v1`, and back.

The control port's server and the control client both translate here, so that both ends of the wire agree.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tidegate_serving.contract.desired_state import DesiredState, Shadow, VersionReference
from tidegate_serving.contract.errors import error_of
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.servable import ServableId, State, StateChange
from tidegate_serving.control.status import (
    AdmittedBy,
    EngineStatus,
    OverrideStatus,
    ProblemStatus,
    ServableStatus,
    VersionStatus,
)
from tidegate_serving.journal.entry import Entry, Kind

SERVICE = "tidegate.v1.Control"


def to_event(change: StateChange) -> Any:
    """A `StateEvent`."""
    return message("tidegate.v1.StateEvent")(
        servable=change.id.name,
        version=change.id.version,
        state=change.state.name,
        error_code=change.error_code,
        error_message=change.error_message,
        at_us=change.at_us,
    )


def from_event(event: Any) -> StateChange:
    """The change that a `StateEvent` tells of."""
    return StateChange(
        ServableId(event.servable, event.version),
        State[event.state],
        event.error_code,
        event.error_message,
        event.at_us,
    )


def to_status(status: EngineStatus) -> Any:
    """A `GetStatusResponse`."""
    return message("tidegate.v1.GetStatusResponse")(
        servables=[_to_servable(servable) for servable in status.servables],
        grpc_address=status.grpc_address,
        rest_address=status.rest_address,
        log_path=status.log_path,
        counters=dict(status.counters),
        problems=[_to_problem(problem) for problem in status.problems],
    )


def from_status(response: Any) -> EngineStatus:
    """The status in a `GetStatusResponse`."""
    return EngineStatus(
        servables=tuple(_from_servable(servable) for servable in response.servables),
        grpc_address=response.grpc_address,
        rest_address=response.rest_address,
        log_path=response.log_path,
        counters=dict(response.counters),
        problems=tuple(_from_problem(problem) for problem in response.problems),
    )


def to_desired(desired: DesiredState) -> Any:
    """A `DesiredState`."""
    answer = message("tidegate.v1.DesiredState")(
        servable=desired.servable,
        versions=[_to_reference(version) for version in desired.versions],
        labels=dict(desired.labels),
        keep_previous=desired.keep_previous,
        revision=desired.revision,
        requested_by=desired.requested_by,
        reason=desired.reason,
        at_us=desired.at_us,
    )
    if desired.shadow is not None:
        answer.shadow.version, answer.shadow.fraction = desired.shadow.version, desired.shadow.fraction
    for version, error in desired.unusable.items():
        answer.unusable.add(version=version, error_code=error.code, error_message=error.message)
    return answer


def from_desired(answer: Any) -> DesiredState:
    """The desired state in a `DesiredState`."""
    return DesiredState(
        servable=answer.servable,
        versions=tuple(
            VersionReference(one.version, Path(one.directory), one.manifest_digest) for one in answer.versions
        ),
        labels=dict(answer.labels),
        shadow=Shadow(answer.shadow.version, answer.shadow.fraction) if answer.shadow.version else None,
        keep_previous=answer.keep_previous,
        revision=answer.revision,
        requested_by=answer.requested_by,
        reason=answer.reason,
        at_us=answer.at_us,
        unusable={one.version: error_of(one.error_code, one.error_message) for one in answer.unusable},
    )


def _to_reference(version: VersionReference) -> Any:
    return message("tidegate.v1.VersionReference")(
        version=version.version, directory=str(version.directory), manifest_digest=version.manifest_digest
    )


def to_journal_entry(entry: Entry) -> Any:
    """A `JournalEntry`."""
    return message("tidegate.v1.JournalEntry")(
        at_us=entry.at_us,
        kind=entry.kind.value,
        action=entry.action,
        servable=entry.servable,
        version=entry.version,
        requested_by=entry.requested_by,
        reason=entry.reason,
        error_code=entry.error_code,
        text=entry.text,
    )


def from_journal_entry(answer: Any) -> Entry:
    """The entry that a `JournalEntry` tells of."""
    return Entry(
        kind=Kind(answer.kind),
        action=answer.action,
        text=answer.text,
        servable=answer.servable,
        version=optional(answer, "version"),
        requested_by=answer.requested_by,
        reason=answer.reason,
        error_code=answer.error_code,
        at_us=answer.at_us,
    )


def optional(answer: Any, name: str) -> int | None:
    """A number that a message may lack."""
    return int(getattr(answer, name)) if answer.HasField(name) else None


def _to_servable(status: ServableStatus) -> Any:
    return message("tidegate.v1.ServableStatus")(
        servable=status.servable,
        source=status.source,
        desired=to_desired(status.desired),
        versions=[_to_version(version) for version in status.versions],
        previous=status.previous,
        kept=list(status.kept),
        overrides=[_to_override(override) for override in status.overrides],
        disabled=status.disabled,
        source_problem=status.source_problem,
    )


def _from_servable(answer: Any) -> ServableStatus:
    return ServableStatus(
        servable=answer.servable,
        source=answer.source,
        desired=from_desired(answer.desired),
        versions=tuple(_from_version(version) for version in answer.versions),
        previous=optional(answer, "previous"),
        kept=tuple(answer.kept),
        overrides=tuple(_from_override(override) for override in answer.overrides),
        disabled=answer.disabled,
        source_problem=answer.source_problem,
    )


def _to_override(override: OverrideStatus) -> Any:
    return message("tidegate.v1.OverrideStatus")(
        action=override.action,
        text=override.text,
        requested_by=override.requested_by,
        reason=override.reason,
        at_us=override.at_us,
    )


def _from_override(answer: Any) -> OverrideStatus:
    return OverrideStatus(answer.action, answer.text, answer.requested_by, answer.reason, answer.at_us)


def _to_problem(problem: ProblemStatus) -> Any:
    return message("tidegate.v1.SourceProblem")(
        source=problem.source,
        error_code=problem.error_code,
        error_message=problem.error_message,
        since_us=problem.since_us,
    )


def _from_problem(answer: Any) -> ProblemStatus:
    return ProblemStatus(answer.source, answer.error_code, answer.error_message, answer.since_us)


def _to_version(status: VersionStatus) -> Any:
    answer = message("tidegate.v1.VersionStatus")(
        version=status.version,
        state=status.state.name,
        error_code=status.error_code,
        error_message=status.error_message,
        since_us=status.since_us,
        path=status.path,
        manifest_digest=status.manifest_digest,
        labels=list(status.labels),
        notes=list(status.notes),
    )
    if status.admitted is not None:
        answer.admission.verdict_digest = status.admitted.verdict_digest
        answer.admission.key_id = status.admitted.key_id
        answer.admission.key_name = status.admitted.key_name
        answer.admission.admitted_at = status.admitted.admitted_at
    return answer


def _from_version(answer: Any) -> VersionStatus:
    return VersionStatus(
        version=answer.version,
        state=State[answer.state],
        error_code=answer.error_code,
        error_message=answer.error_message,
        since_us=answer.since_us,
        path=answer.path,
        manifest_digest=answer.manifest_digest,
        labels=tuple(answer.labels),
        admitted=_from_admission(answer.admission) if answer.HasField("admission") else None,
        notes=tuple(answer.notes),
    )


def _from_admission(answer: Any) -> AdmittedBy:
    return AdmittedBy(answer.verdict_digest, answer.key_id, answer.key_name, answer.admitted_at)
