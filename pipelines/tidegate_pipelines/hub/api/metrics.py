"""What the hub knows, as gauges in Prometheus' text format, at `/metrics`: for rules that wake somebody up."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from datetime import datetime, timedelta
from typing import Any

from fastapi import APIRouter, Request, Response
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.api.permissions import caller
from tidegate_pipelines.hub.app import Hub
from tidegate_pipelines.hub.callers import Caller
from tidegate_pipelines.hub.store import (
    AlertRow,
    DeliveryRow,
    EngineRow,
    RegistryRow,
    ReleaseRow,
    ReleaseState,
    ServedVersionRow,
)
from tidegate_validation.report.gauges import family

_TEXT = "text/plain; version=0.0.4; charset=utf-8"
_WEEK = timedelta(days=7)
_UNDER_WAY = (ReleaseState.REQUESTED, ReleaseState.WAITING, ReleaseState.RUNNING)
_HELP = {
    "tidegate_hub_releases": "Releases of the models that the caller sees, by state",
    "tidegate_hub_oldest_release_seconds": "Seconds since the oldest release under way was asked for, 0 without one",
    "tidegate_hub_alerts": "Alerts that last, by severity",
    "tidegate_hub_versions": "Versions in the engines that the hub watches, by state",
    "tidegate_hub_engine_up": "1 for an engine that answered the last time it was asked, 0 for one that is away",
    "tidegate_hub_registry_up": "1 for a registry that answered the last time it was asked, 0 for one that is away",
    "tidegate_hub_refused_webhooks": "Webhooks that were refused within the last week, by reason",
}
_Samples = list[tuple[Mapping[str, str], float]]


def metrics_router(hub: Hub) -> APIRouter:
    """The route, which needs the role `look` as the pages do."""
    router = APIRouter()

    @router.get("/metrics", include_in_schema=False)
    def metrics(request: Request) -> Response:
        """Counts of what the caller sees; engines, registries and webhooks are of no model."""
        user = caller(hub, request, "look")
        with hub.database.reading() as session:
            found = _samples(session, user, hub.database.now(session))
        return Response("".join(_lines(found)), media_type=_TEXT)

    return router


def _lines(found: Mapping[str, _Samples]) -> Iterator[str]:
    for name, samples in found.items():
        if samples:
            yield from family(name, _HELP[name], samples)


def _samples(session: Session, user: Caller, now: datetime) -> dict[str, _Samples]:
    releases = select(ReleaseRow.state, func.count()).where(user.sees_rows(ReleaseRow.model))
    states = Counter({state.value: 0 for state in ReleaseState})
    states.update({state.value: count for state, count in session.execute(releases.group_by(ReleaseRow.state))})
    oldest = session.scalar(
        select(func.min(ReleaseRow.requested_at)).where(
            ReleaseRow.state.in_(_UNDER_WAY), user.sees_rows(ReleaseRow.model)
        )
    )
    alerts = select(AlertRow.severity, func.count()).where(
        AlertRow.resolved_at.is_(None), (AlertRow.model == "") | user.sees_rows(AlertRow.model)
    )
    versions = select(ServedVersionRow.state, func.count()).where(user.sees_rows(ServedVersionRow.model))
    refused = select(DeliveryRow.reason, func.sum(DeliveryRow.count)).where(
        DeliveryRow.outcome == "refused", DeliveryRow.received_at >= now - _WEEK
    )
    return {
        "tidegate_hub_releases": _by("state", states),
        "tidegate_hub_oldest_release_seconds": [({}, (now - oldest).total_seconds() if oldest else 0.0)],
        "tidegate_hub_alerts": _by("severity", _counts(session, alerts.group_by(AlertRow.severity))),
        "tidegate_hub_versions": _by("state", _counts(session, versions.group_by(ServedVersionRow.state))),
        "tidegate_hub_engine_up": _up(session, EngineRow, "engine"),
        "tidegate_hub_registry_up": _up(session, RegistryRow, "registry"),
        "tidegate_hub_refused_webhooks": _by("reason", _counts(session, refused.group_by(DeliveryRow.reason))),
    }


def _counts(session: Session, query: Any) -> dict[str, int]:
    return {str(key): int(count) for key, count in session.execute(query)}


def _by(label: str, counts: Mapping[str, int]) -> _Samples:
    return [({label: key}, count) for key, count in sorted(counts.items())]


def _up(session: Session, kind: type[EngineRow] | type[RegistryRow], label: str) -> _Samples:
    rows = session.execute(select(kind.name, kind.state).order_by(kind.name))
    return [({label: name}, 1 if state == "UP" else 0) for name, state in rows]
