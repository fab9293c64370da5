"""Releases and verdicts for programs: asked for, looked at, cancelled."""

from __future__ import annotations

from typing import Annotated

from fastapi import APIRouter, Query, Request
from sqlalchemy import select

from tidegate_pipelines.hub.api.documents import Event, Reason, Release, ReleaseRequest, Verdict, WholeVerdict
from tidegate_pipelines.hub.api.permissions import audited, caller
from tidegate_pipelines.hub.app import Hub
from tidegate_pipelines.hub.callers import check_model
from tidegate_pipelines.hub.releases.requests import Request as Asked
from tidegate_pipelines.hub.releases.requests import cancel, request_release
from tidegate_pipelines.hub.releases.stages import out_of_engine
from tidegate_pipelines.hub.store import ReleaseEventRow, ReleaseRow, ReleaseState, VerdictRow
from tidegate_serving.contract.errors import NotFound

Limit = Annotated[int, Query(ge=1, le=500)]
Before = Annotated[int | None, Query(description="Only those with a smaller id, for the next page.")]


def releases_router(hub: Hub) -> APIRouter:
    """The routes."""
    router = APIRouter(tags=["releases"])

    @router.post("/releases", status_code=201)
    def ask(asked: ReleaseRequest, request: Request) -> Release:
        """Asks for a release; what it differs in from the hub's config takes the role `operate`."""
        thing = f"model {asked.model}:{asked.version}"
        user = caller(hub, request, "operate" if asked.settings else "release", "release", thing)
        wanted = Asked(
            asked.model, asked.version, "api", user.name, asked.reason, asked.settings, asked.key and f"api:{asked.key}"
        )
        with audited(hub, request, user, "release", thing) as done, hub.database.writing() as session:
            check_model(user, asked.model, "operate" if asked.settings else "release")
            hub.config.release_of(asked.model, asked.settings)
            row = request_release(hub.database, session, wanted)
            done.reason = asked.reason
            done.within(session)
        hub.on_request()
        return Release.model_validate(row)

    @router.post("/releases/{release_id}/cancel")
    def cancelled(release_id: int, why: Reason, request: Request) -> Release:
        """Ends a release that has not begun, waits, or runs elsewhere; such a run is not stopped."""
        user = caller(hub, request, "release", "cancel", f"release {release_id}")
        row = _seen(hub, request, release_id)
        check_model(user, row.model, "release")
        thing = f"model {row.model}:{row.version}"
        with audited(hub, request, user, "cancel", thing) as done, hub.database.writing() as session:
            cancel(hub.database, session, release_id, by=user.name, reason=why.reason)
            done.reason = why.reason
            done.within(session)
        return Release.model_validate(out_of_engine(hub.database, hub.config, release_id))

    _add_looks(hub, router)
    _add_verdicts(hub, router)
    return router


def _add_looks(hub: Hub, router: APIRouter) -> None:
    @router.get("/releases")
    def listed(
        request: Request,
        model: str | None = None,
        state: ReleaseState | None = None,
        before: Before = None,
        limit: Limit = 50,
    ) -> list[Release]:
        """The newest first."""
        user = caller(hub, request, "look")
        query = select(ReleaseRow).where(user.sees_rows(ReleaseRow.model)).order_by(ReleaseRow.id.desc()).limit(limit)
        for given, condition in (
            (model, ReleaseRow.model == model),
            (state, ReleaseRow.state == state),
            (before, ReleaseRow.id < (before or 0)),
        ):
            query = query if given is None else query.where(condition)
        with hub.database.reading() as session:
            return [Release.model_validate(row) for row in session.scalars(query)]

    @router.get("/releases/{release_id}")
    def one(release_id: int, request: Request) -> Release:
        """One release."""
        return Release.model_validate(_seen(hub, request, release_id))

    @router.get("/releases/{release_id}/events")
    def history(release_id: int, request: Request) -> list[Event]:
        """What happened in it, in its order."""
        _seen(hub, request, release_id)
        query = select(ReleaseEventRow).where(ReleaseEventRow.release_id == release_id).order_by(ReleaseEventRow.id)
        with hub.database.reading() as session:
            return [Event.model_validate(row) for row in session.scalars(query)]


def _add_verdicts(hub: Hub, router: APIRouter) -> None:
    @router.get("/verdicts")
    def verdicts(request: Request, model: str | None = None, before: Before = None, limit: Limit = 50) -> list[Verdict]:
        """The newest first, without their documents."""
        user = caller(hub, request, "look")
        query = select(VerdictRow).where(user.sees_rows(VerdictRow.model)).order_by(VerdictRow.id.desc()).limit(limit)
        if model is not None:
            query = query.where(VerdictRow.model == model)
        if before is not None:
            query = query.where(VerdictRow.id < before)
        with hub.database.reading() as session:
            return [Verdict.model_validate(row) for row in session.scalars(query)]

    @router.get("/verdicts/{digest}")
    def verdict(digest: str, request: Request) -> WholeVerdict:
        """One verdict by the SHA-256 of its file, whole."""
        user = caller(hub, request, "look")
        with hub.database.reading() as session:
            row = session.scalar(
                select(VerdictRow).where(VerdictRow.digest == digest, user.sees_rows(VerdictRow.model))
            )
        if row is None:
            raise NotFound(f"there is no verdict {digest!r}: see /api/v1/verdicts")
        return WholeVerdict.model_validate(row)


def _seen(hub: Hub, request: Request, release_id: int) -> ReleaseRow:
    user = caller(hub, request, "look")
    query = select(ReleaseRow).where(ReleaseRow.id == release_id, user.sees_rows(ReleaseRow.model))
    with hub.database.reading() as session:
        row = session.scalar(query)
    if row is None:
        raise NotFound(f"there is no release {release_id}: see /api/v1/releases")
    return row
