"""Desired states, status, events and journal entries as protobuf messages of `tidegate.v1`, and back.

The control port's server and the control client both translate here, so that both ends of the wire agree.
"""

from __future__ import annotations

from dataclasses import fields
from pathlib import Path
from typing import Any, TypeVar

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
T = TypeVar("T", AdmittedBy, OverrideStatus, ProblemStatus, Shadow)


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
    servables = [_to_servable(servable) for servable in status.servables]
    problems = [_message("SourceProblem", problem) for problem in status.problems]
    return _message("GetStatusResponse", status, servables=servables, problems=problems)


def from_status(response: Any) -> EngineStatus:
    """The status in a `GetStatusResponse`."""
    return EngineStatus(
        servables=tuple(_from_servable(servable) for servable in response.servables),
        grpc_address=response.grpc_address,
        rest_address=response.rest_address,
        log_path=response.log_path,
        counters=dict(response.counters),
        problems=tuple(_value(ProblemStatus, problem) for problem in response.problems),
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
        answer.shadow.CopyFrom(_message("Shadow", desired.shadow))
    for version, error in desired.unusable.items():
        answer.unusable.add(version=version, error_code=error.code, error_message=error.message)
    return answer


def _is_on(shadow: Any) -> bool:
    """Version 0 is one like any other, unless no request is copied to it."""
    return bool(shadow.version or shadow.fraction)


def from_desired(answer: Any) -> DesiredState:
    """The desired state in a `DesiredState`."""
    return DesiredState(
        servable=answer.servable,
        versions=tuple(
            VersionReference(one.version, Path(one.directory), one.manifest_digest, address=one.address)
            for one in answer.versions
        ),
        labels=dict(answer.labels),
        shadow=_value(Shadow, answer.shadow) if answer.HasField("shadow") and _is_on(answer.shadow) else None,
        keep_previous=answer.keep_previous,
        revision=answer.revision,
        requested_by=answer.requested_by,
        reason=answer.reason,
        at_us=answer.at_us,
        unusable={one.version: error_of(one.error_code, one.error_message) for one in answer.unusable},
    )


def _to_reference(version: VersionReference) -> Any:
    return message("tidegate.v1.VersionReference")(
        version=version.version,
        directory=str(version.directory),
        manifest_digest=version.manifest_digest,
        address=version.address,
    )


def to_journal_entry(entry: Entry) -> Any:
    """A `JournalEntry`."""
    return _message("JournalEntry", entry, kind=entry.kind.value)


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
    return _message(
        "ServableStatus",
        status,
        desired=to_desired(status.desired),
        versions=[_to_version(version) for version in status.versions],
        overrides=[_message("OverrideStatus", override) for override in status.overrides],
    )


def _from_servable(answer: Any) -> ServableStatus:
    return ServableStatus(
        servable=answer.servable,
        source=answer.source,
        desired=from_desired(answer.desired),
        versions=tuple(_from_version(version) for version in answer.versions),
        ordinary=optional(answer, "ordinary"),
        previous=optional(answer, "previous"),
        kept=tuple(answer.kept),
        overrides=tuple(_value(OverrideStatus, override) for override in answer.overrides),
        disabled=answer.disabled,
        source_problem=answer.source_problem,
    )


def _to_version(status: VersionStatus) -> Any:
    admitted = None if status.admitted is None else _message("Admission", status.admitted)
    return _message("VersionStatus", status, state=status.state.name, admitted=admitted)


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
        admitted=_value(AdmittedBy, answer.admitted) if answer.HasField("admitted") else None,
        notes=tuple(answer.notes),
    )


def _message(name: str, value: Any, **instead: Any) -> Any:
    """The message of that name with the fields of a dataclass, or others `instead`; what is None is left out."""
    given = {one.name: getattr(value, one.name) for one in fields(value)} | instead
    return message(f"tidegate.v1.{name}")(**{key: found for key, found in given.items() if found is not None})


def _value(kind: type[T], answer: Any) -> T:
    """A dataclass whose fields are those of the message."""
    return kind(**{one.name: getattr(answer, one.name) for one in fields(kind)})
