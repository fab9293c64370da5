"""A fleet as the one engine that it looks like: its status, in the words of an engine's."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidegate_serving.contract.errors import FailedPrecondition
from tidegate_serving.contract.servable import StateChange
from tidegate_serving.control.status import EngineStatus, ProblemStatus, ServableStatus, VersionStatus
from tidegate_serving.control.status_report import in_words
from tidegate_serving.fleet.controller.log import FleetLog
from tidegate_serving.fleet.decision.rollout import ordinary
from tidegate_serving.fleet.state.model import FleetModel
from tidegate_serving.fleet.state.view import FleetView
from tidegate_serving.sources.problems import SourceProblem

SOURCE = "fleet"


def fleet_status(
    view: FleetView, states: Sequence[StateChange], problems: Sequence[SourceProblem], servable: str
) -> EngineStatus:
    """Of one servable, or of all for an empty name. No engine's address: a router's is asked for answers."""
    chosen = [model for name, model in sorted(view.models.items()) if servable in ("", name)]
    missing = view.placement.missing
    return EngineStatus(
        servables=tuple(_servable(model, states, missing) for model in chosen),
        grpc_address="",
        rest_address="",
        problems=tuple(ProblemStatus(one.source, one.error.code, one.error.message, one.since_us) for one in problems),
    )


def with_log(status: EngineStatus, log: FleetLog) -> EngineStatus:
    """The same with the folder that has the inference logs of all nodes; without one where they lie apart or some node
    keeps none, which is then a problem."""
    try:
        found = log.root()
    except FailedPrecondition as error:
        problem = ProblemStatus("inference log", error.code, error.message)
        return replace(status, problems=(*status.problems, problem))
    return replace(status, log_path="" if found is None else str(found))


def _servable(model: FleetModel, states: Sequence[StateChange], missing: Mapping[str, str]) -> ServableStatus:
    known = {change.id.version: change for change in states if change.id.name == model.name}
    previous = model.previous
    return ServableStatus(
        servable=model.name,
        desired=model.desired,
        source=SOURCE,
        versions=tuple(_version(model, known[number]) for number in sorted(known, reverse=True)),
        ordinary=ordinary(model) if model.serving is not None else None,
        previous=None if previous is None else previous.version,
        kept=tuple(sorted(model.kept)),
        overrides=tuple(in_words(model.overrides)),
        disabled=model.refusal,
        source_problem=missing.get(model.name, ""),
    )


def _version(model: FleetModel, change: StateChange) -> VersionStatus:
    number, serving = change.id.version, model.serving
    reference = model.known(number)
    labels = serving.labels if serving else {}
    return VersionStatus(
        version=number,
        state=change.state,
        error_code=change.error_code,
        error_message=change.error_message,
        since_us=change.at_us,
        path="" if reference is None else reference.address or str(reference.directory),
        manifest_digest="" if reference is None else reference.manifest_digest,
        labels=tuple(sorted(label for label, version in labels.items() if version == number)),
    )
