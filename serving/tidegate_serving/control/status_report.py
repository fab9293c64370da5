"""Gathers one picture of the engine from its parts, for the control port and for embedding programs.

The manager knows where versions came from, the monitor their states, the reconciler what is desired and decided, and
where requests go.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace

from tidegate_serving.admission import Standing
from tidegate_serving.contract.desired_state import CALLABLE, DesiredState, VersionReference
from tidegate_serving.contract.servable import ServableId, StateChange
from tidegate_serving.control.overrides import Note, Overrides
from tidegate_serving.control.reconciler import Reconciler
from tidegate_serving.control.routing import Routing
from tidegate_serving.control.status import (
    AdmittedBy,
    EngineStatus,
    OverrideStatus,
    ProblemStatus,
    ServableStatus,
    VersionStatus,
)
from tidegate_serving.lifecycle.manager import AspiredVersionsManager
from tidegate_serving.lifecycle.monitor import StateMonitor
from tidegate_serving.sources.owners import Owners
from tidegate_serving.sources.problems import SourceProblem, SourceProblems
from tidegate_serving.sources.rpc.source import RpcSource


@dataclass(frozen=True, slots=True)
class StatusReport:
    """Makes an `EngineStatus`; `standing` says by what right a manifest serves, `counters` gives the data plane's of
    one servable or, for an empty name, of all."""

    manager: AspiredVersionsManager
    monitor: StateMonitor
    reconciler: Reconciler
    source: RpcSource
    owners: Owners
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
        found = self.monitor.states(name) or self.problems.of(name) or self.source.desired(name)
        return bool(found) or self.reconciler.knows(name)

    def _names(self, origins: Mapping[ServableId, object]) -> set[str]:
        troubled = {problem.servable for problem in self.problems.all() if problem.servable}
        known = {version.name for version in origins} | self.monitor.names() | troubled
        return known | set(self.source.names()) | self.reconciler.names()

    def _servable(self, name: str, origins: Mapping[ServableId, object]) -> ServableStatus:
        desired, overrides = self._desired(name), self.reconciler.overrides(name)
        routing, problem = self.reconciler.routing(name), self.problems.of(name)
        previous = routing.history.previous(overrides)
        return ServableStatus(
            servable=name,
            source=self.owners.owner(name),
            versions=tuple(self._version(change, origins, routing) for change in self.monitor.states(name)),
            desired=desired,
            ordinary=routing.traffic.ordinary,
            previous=previous.version if previous is not None else None,
            kept=tuple(sorted(routing.numbers - desired.numbers - desired.unusable.keys())),
            overrides=tuple(in_words(overrides)),
            disabled=routing.traffic.disabled,
            source_problem=problem.error.message if problem is not None else "",
        )

    def _desired(self, name: str) -> DesiredState:
        """What its source wants; who last pushed it, and at which revision, is known even where that wants nothing."""
        told, now = self.source.desired(name), self.reconciler.desired(name)
        if told is None or now.revision:  # versions and revision have to be of one moment: a push meanwhile is another
            return now
        return replace(now, revision=told.revision) if now.is_anything else told

    def _version(self, change: StateChange, origins: Mapping[ServableId, object], routing: Routing) -> VersionStatus:
        number = change.id.version
        origin = origins.get(change.id)
        path = origin if isinstance(origin, VersionReference) and origin.platform != CALLABLE else None
        standing = self.standing(path.manifest_digest) if path else Standing()
        return VersionStatus(
            version=number,
            state=change.state,
            error_code=change.error_code,
            error_message=change.error_message,
            since_us=change.at_us,
            path=str(path.directory) if path else "",
            manifest_digest=path.manifest_digest if path else "",
            labels=tuple(sorted(label for label, version in routing.traffic.labels.items() if version == number)),
            admitted=_admitted_by(standing),
            notes=(*standing.notes, *_overtaken(number, routing)),
        )


def _overtaken(number: int, routing: Routing) -> tuple[str, ...]:
    """What has to be known of the version that label `stable` keeps ordinary requests on."""
    found = routing.overtaken
    if found is None or found[0] != number:
        return ()
    return (f"gets the requests without version and label, by label `stable`; version {found[1]} is newer",)


def in_words(overrides: Overrides) -> Iterator[OverrideStatus]:
    """One line per decision that stands."""
    if overrides.disabled is not None:
        yield _line("disable", "switched off, no request is answered", overrides.disabled)
    if (freeze := overrides.freeze) is not None:
        numbers = ", ".join(map(str, sorted(freeze.desired.numbers))) or "none"
        yield _line("freeze", f"frozen with versions {numbers}", freeze.note)
    if (pin := overrides.pin) is not None:
        yield _line(
            "pin", f"ordinary traffic is pinned to version {pin.version.version}", pin.note, pin.version.version
        )
    if (split := overrides.split) is not None:
        yield _line("split", f"ordinary traffic is {split.split}", split.note)
    for block in overrides.blocks:
        yield _line("block", f"version {block.version} is blocked", block.note, block.version)


def _line(action: str, text: str, note: Note, version: int = 0) -> OverrideStatus:
    return OverrideStatus(action, text, note.requested_by, note.reason, note.at_us, version)


def _problem(problem: SourceProblem) -> ProblemStatus:
    return ProblemStatus(problem.source, problem.error.code, problem.error.message, problem.since_us)


def _admitted_by(standing: Standing) -> AdmittedBy | None:
    record = standing.record
    if record is None:
        return None
    return AdmittedBy(record.verdict_digest, record.key_id, record.key_name, record.admitted_at)
