"""Status and events as protobuf messages of `tidegate.v1` and back, so that both ends of the wire agree.

The RPC Source's server encodes what the engine says; the control client decodes it.
"""

from __future__ import annotations

from typing import Any

from tidegate_serving.contract.messages import message
from tidegate_serving.contract.servable import ServableId, State, StateChange
from tidegate_serving.control.status import (
    AdmittedBy,
    EngineStatus,
    OrderStatus,
    ProblemStatus,
    ServableStatus,
    Shadow,
    VersionStatus,
    WantedStatus,
)

SERVICE = "tidegate.v1.RpcSource"
ERROR_CODE_KEY = "tidegate-error-code"


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


def _to_servable(status: ServableStatus) -> Any:
    answer = message("tidegate.v1.ServableStatus")(
        servable=status.servable,
        source=status.source,
        revision=status.revision,
        versions=[_to_version(version) for version in status.versions],
        requested_by=status.requested_by,
        reason=status.reason,
        wanted=[_to_wanted(wanted) for wanted in status.wanted],
        wanted_labels=dict(status.wanted_labels),
        wanted_at_us=status.wanted_at_us,
        keep_previous=status.keep_previous,
        previous=status.previous or 0,
        has_previous=status.previous is not None,
        kept=list(status.kept),
        orders=[_to_order(order) for order in status.orders],
        disabled=status.disabled,
        source_problem=status.source_problem,
    )
    if status.shadow is not None:
        answer.shadow.version = status.shadow.version
        answer.shadow.fraction = status.shadow.fraction
    return answer


def _from_servable(answer: Any) -> ServableStatus:
    return ServableStatus(
        servable=answer.servable,
        source=answer.source,
        revision=answer.revision,
        versions=tuple(_from_version(version) for version in answer.versions),
        shadow=Shadow(answer.shadow.version, answer.shadow.fraction) if answer.HasField("shadow") else None,
        requested_by=answer.requested_by,
        reason=answer.reason,
        wanted=tuple(WantedStatus(one.version, one.path, one.manifest_digest) for one in answer.wanted),
        wanted_labels=dict(answer.wanted_labels),
        wanted_at_us=answer.wanted_at_us,
        keep_previous=answer.keep_previous,
        previous=answer.previous if answer.has_previous else None,
        kept=tuple(answer.kept),
        orders=tuple(_from_order(order) for order in answer.orders),
        disabled=answer.disabled,
        source_problem=answer.source_problem,
    )


def _to_wanted(wanted: WantedStatus) -> Any:
    return message("tidegate.v1.AspiredVersion")(
        version=wanted.version, path=wanted.path, manifest_digest=wanted.manifest_digest
    )


def _to_order(order: OrderStatus) -> Any:
    return message("tidegate.v1.Order")(
        action=order.action,
        text=order.text,
        requested_by=order.requested_by,
        reason=order.reason,
        at_us=order.at_us,
    )


def _from_order(answer: Any) -> OrderStatus:
    return OrderStatus(answer.action, answer.text, answer.requested_by, answer.reason, answer.at_us)


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
