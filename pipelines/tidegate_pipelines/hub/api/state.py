"""Models, engines, traffic and skew for programs, as they were last seen."""

from __future__ import annotations

from typing import Annotated, Any

from fastapi import APIRouter, Body, Query, Request
from sqlalchemy import func, select
from sqlalchemy.orm import Session

from tidegate_pipelines.hub.api.documents import (
    Deliveries,
    Engine,
    Model,
    Moment,
    Registry,
    Release,
    ServedVersion,
    SkewWindow,
    Traffic,
    WholeModel,
)
from tidegate_pipelines.hub.api.permissions import audited, caller
from tidegate_pipelines.hub.app import Hub
from tidegate_pipelines.hub.callers import check_model
from tidegate_pipelines.hub.engines.skew import keep_report
from tidegate_pipelines.hub.store import (
    DeliveryRow,
    EngineRow,
    ModelRow,
    RegistryRow,
    ReleaseRow,
    ServedVersionRow,
    SkewWindowRow,
    TrafficRow,
)
from tidegate_serving.contract.errors import InvalidInput, NotFound, Unsupported

_NEWEST = 20
Limit = Annotated[int, Query(ge=1, le=5000)]
Since = Annotated[Moment | None, Query(description="RFC 3339, from then on.")]


def state_router(hub: Hub) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["state"])

    @router.get("/models")
    def models(request: Request, after: str = "", limit: Limit = 1000) -> list[Model]:
        """By name, those after `after`."""
        user = caller(hub, request, "look")
        query = select(ModelRow).where(user.sees_rows(ModelRow.name), ModelRow.name > after)
        with hub.database.reading() as session:
            found = session.scalars(query.order_by(ModelRow.name).limit(limit))
            return [Model.model_validate(row) for row in found]

    @router.get("/models/{name}")
    def model(name: str, request: Request) -> WholeModel:
        """One model with what is served of it now, and its newest releases."""
        user = caller(hub, request, "look")
        served = select(ServedVersionRow).where(ServedVersionRow.model == name)
        newest = select(ReleaseRow).where(ReleaseRow.model == name).order_by(ReleaseRow.id.desc()).limit(_NEWEST)
        with hub.database.reading() as session:
            check_model(user, name)
            row = session.get(ModelRow, name)
            if row is None:
                raise NotFound(f"there is no model {name!r}: see /api/v1/models")
            return WholeModel(
                name=row.name,
                team=row.team,
                first_seen=row.first_seen,
                served=[ServedVersion.model_validate(one) for one in session.scalars(served)],
                releases=[Release.model_validate(one) for one in session.scalars(newest)],
            )

    @router.get("/engines")
    def engines(request: Request) -> list[Engine]:
        """How each engine is, and to whoever sees every model what it last said of itself."""
        everything = caller(hub, request, "look").sees_all
        with hub.database.reading() as session:
            rows = session.scalars(select(EngineRow).order_by(EngineRow.name))
            found = [Engine.model_validate(row) for row in rows]
        return found if everything else [one.model_copy(update={"status": {}}) for one in found]

    _add_registries(hub, router)
    _add_measures(hub, router)
    return router


def _add_registries(hub: Hub, router: APIRouter) -> None:
    @router.get("/registries")
    def registries(request: Request) -> list[Registry]:
        """How each registry is."""
        caller(hub, request, "look")
        with hub.database.reading() as session:
            return [Registry.model_validate(row) for row in session.scalars(select(RegistryRow))]

    @router.get("/deliveries")
    def deliveries(request: Request) -> Deliveries:
        """How many webhooks came, and how many did nothing and why."""
        caller(hub, request, "look")
        total = func.sum(DeliveryRow.count)
        query = select(DeliveryRow.outcome, DeliveryRow.reason, total).where(DeliveryRow.outcome == "refused")
        with hub.database.reading() as session:
            refused = {
                reason: int(count) for _, reason, count in session.execute(query.group_by(*query.selected_columns[:2]))
            }
            accepted = session.scalar(select(total).where(DeliveryRow.outcome == "accepted"))
        return Deliveries(accepted=int(accepted or 0), refused=refused)


def _add_measures(hub: Hub, router: APIRouter) -> None:
    @router.get("/traffic")
    def traffic(request: Request, model: str, since: Since = None, limit: Limit = 1000) -> list[Traffic]:
        """Requests by the hour, the newest first."""
        user = caller(hub, request, "look")
        query = select(TrafficRow).where(TrafficRow.model == model, user.sees_rows(TrafficRow.model))
        if since is not None:
            query = query.where(TrafficRow.hour >= since)
        with hub.database.reading() as session:
            found = session.scalars(query.order_by(TrafficRow.hour.desc()).limit(limit))
            return [Traffic.model_validate(row) for row in found]

    @router.get("/skew")
    def skew(
        request: Request, model: str, feature: str | None = None, since: Since = None, limit: Limit = 1000
    ) -> list[SkewWindow]:
        """Windows of a model, or of one of its features, the newest first."""
        user = caller(hub, request, "look")
        query = select(SkewWindowRow).where(SkewWindowRow.model == model, user.sees_rows(SkewWindowRow.model))
        if feature is not None:
            query = query.where(SkewWindowRow.feature == feature)
        if since is not None:
            query = query.where(SkewWindowRow.window_end >= since)
        with hub.database.reading() as session:
            found = session.scalars(query.order_by(SkewWindowRow.window_end.desc(), SkewWindowRow.feature).limit(limit))
            return [SkewWindow.model_validate(row) for row in found]

    @router.post("/skew", status_code=201)
    def keep_skew(report: Annotated[dict[str, Any], Body()], request: Request) -> dict[str, int]:
        """Keeps a skew report, as `tidegate skew --report` writes it; a window is kept once."""
        model = str(report.get("model", ""))[:200]
        thing = f"model {model}"
        user = caller(hub, request, "release", "keep skew report", thing)
        with audited(hub, request, user, "keep skew report", thing) as done:
            check_model(user, model, "release")

            def kept(session: Session, new: int) -> None:
                done.reason = f"{new} features"
                done.within(session)

            try:
                return {"kept": keep_report(hub.database, report, "the report", kept)}
            except Unsupported as error:
                raise InvalidInput(error.message) from error
