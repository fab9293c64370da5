"""Gathers one picture of the engine from its parts, for the control port and for embedding programs.

The manager knows what is wanted from where, the monitor the states, the endpoint labels, the RPC Source who asked, and
steering what sources propose and people decided.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from tidegate_serving.admission import Standing
from tidegate_serving.contract.servable import ServableId, StateChange
from tidegate_serving.control.override_words import in_words
from tidegate_serving.control.reconciler import Steering
from tidegate_serving.control.status import (
    AdmittedBy,
    EngineStatus,
    ProblemStatus,
    ServableStatus,
    VersionStatus,
    WantedStatus,
)
from tidegate_serving.lifecycle.manager import AspiredVersionsManager
from tidegate_serving.lifecycle.monitor import StateMonitor
from tidegate_serving.requests.plane import Endpoint
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.problems import SourceProblem, SourceProblems
from tidegate_serving.sources.rpc import RpcSource
from tidegate_serving.sources.target import AspiredVersion, VersionPath


@dataclass(frozen=True, slots=True)
class StatusReport:
    """Makes an `EngineStatus`; `standing` says by what right a manifest serves, `counters` gives the data plane's of
    one servable or, for an empty name, of all."""

    manager: AspiredVersionsManager
    monitor: StateMonitor
    endpoint: Endpoint
    source: RpcSource
    owners: Owners
    steering: Steering
    problems: SourceProblems
    standing: Callable[[str], Standing]
    counters: Callable[[str], Mapping[str, float]]

    def make(self, servable: str, addresses: tuple[str, str], log_path: str) -> EngineStatus:
        """Of one servable, at a cost that does not grow with the others, or, for an empty name, of all. `addresses` are
        those of gRPC and REST."""
        versions = [change.id for change in self.monitor.states(servable)] if servable else None
        origins = self.manager.origins(versions)
        chosen = sorted(self._names(origins)) if not servable else [servable] if self._knows(servable) else []
        return EngineStatus(
            servables=tuple(self._servable(name, origins) for name in chosen),
            grpc_address=addresses[0],
            rest_address=addresses[1],
            log_path=log_path,
            counters=dict(self.counters(servable)),
            problems=() if servable else tuple(map(_problem, self.problems.of_sources())),
        )

    def _knows(self, name: str) -> bool:
        found = self.monitor.states(name) or self.problems.of(name) or self.source.wish(name)
        return bool(found) or self.steering.knows(name)

    def _names(self, origins: Mapping[ServableId, object]) -> set[str]:
        troubled = {problem.servable for problem in self.problems.all() if problem.servable}
        known = {version.name for version in origins} | self.monitor.names() | troubled
        return known | set(self.source.names()) | self.steering.names()

    def _servable(self, name: str, origins: Mapping[ServableId, object]) -> ServableStatus:
        wish = self.source.wish(name)
        labels = self.endpoint.labels(name)
        proposal, course, orders = self.steering.proposal(name), self.steering.course(name), self.steering.orders(name)
        problem = self.problems.of(name)
        return ServableStatus(
            servable=name,
            source=self.owners.owner(name),
            revision=wish.revision if wish else 0,
            versions=tuple(self._version(change, origins, labels) for change in self.monitor.states(name)),
            shadow=wish.shadow if wish else None,
            requested_by=wish.requested_by if wish else "",
            reason=wish.reason if wish else "",
            wanted=tuple(_wanted(version) for version in proposal.versions),
            wanted_labels=dict(proposal.labels),
            wanted_at_us=wish.at_us if wish else 0,
            keep_previous=wish.keep_previous if wish else False,
            previous=orders.previous.version if orders.previous is not None else None,
            kept=tuple(sorted(course.numbers - {version.id.version for version in proposal.versions})),
            orders=in_words(orders),
            disabled=course.disabled,
            source_problem=problem.error.message if problem is not None else "",
        )

    def _version(
        self, change: StateChange, origins: Mapping[ServableId, object], labels: Mapping[str, int]
    ) -> VersionStatus:
        origin = origins.get(change.id)
        path = origin if isinstance(origin, VersionPath) else None
        standing = self.standing(path.manifest_digest) if path else Standing()
        return VersionStatus(
            version=change.id.version,
            state=change.state,
            error_code=change.error_code,
            error_message=change.error_message,
            since_us=change.at_us,
            path=str(path.directory) if path else "",
            manifest_digest=path.manifest_digest if path else "",
            labels=tuple(sorted(label for label, version in labels.items() if version == change.id.version)),
            admitted=_admitted_by(standing),
            notes=standing.notes,
        )


def _problem(problem: SourceProblem) -> ProblemStatus:
    return ProblemStatus(problem.source, problem.error.code, problem.error.message, problem.since_us)


def _wanted(version: AspiredVersion[VersionPath]) -> WantedStatus:
    path = version.payload
    if path is None:
        return WantedStatus(version.id.version)
    return WantedStatus(version.id.version, str(path.directory), path.manifest_digest)


def _admitted_by(standing: Standing) -> AdmittedBy | None:
    record = standing.record
    if record is None:
        return None
    return AdmittedBy(record.verdict_digest, record.key_id, record.key_name, record.admitted_at)
