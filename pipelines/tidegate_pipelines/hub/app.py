"""The hub as a web application: the rooms' routes over one database, errors with a code, and OpenAPI without a CDN."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager
from dataclasses import dataclass, field

from fastapi import APIRouter, Depends, FastAPI, Request
from fastapi.responses import JSONResponse

from tidegate_pipelines.hub.access import Access, Protection, TooManyAttempts
from tidegate_pipelines.hub.callers import Audit, CurrentUser
from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.receipts import Receipts
from tidegate_pipelines.hub.store import Database
from tidegate_serving.contract.errors import TidegateError, Unauthenticated

_STATUS = {
    "invalid_input": 422,
    "not_found": 404,
    "already_exists": 409,
    "failed_precondition": 409,
    "conflict": 409,
    "not_admitted": 409,
    "tampered": 409,
    "unauthenticated": 401,
    "permission_refused": 403,
    "resource_exhausted": 413,
    "deadline_passed": 504,
    "unavailable": 503,
    "unsupported": 501,
    "refused": 409,
}
"""HTTP's number for each code of an error."""


@dataclass(frozen=True, slots=True)
class Hub:
    """What routes work with. A room gives a function that takes it and returns a router."""

    config: HubConfig
    database: Database
    current_user: CurrentUser
    audit: Audit
    on_request: Callable[[], None] = lambda: None
    """Told that a release was asked for, so that it begins at once."""
    receipts: Receipts = field(init=False)
    """One for programs and pages: together they compute one answer again at a time."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "receipts", Receipts(self.config, self.database))


MakeRouter = Callable[[Hub], APIRouter]
Lifespan = Callable[[FastAPI], AbstractAsyncContextManager[None]]


def create_app(
    hub: Hub, routers: Sequence[MakeRouter], lifespan: Lifespan | None = None, access: Access | None = None
) -> FastAPI:
    """The application over `routers`; `lifespan` is entered when it starts and left when it stops. With `access` every
    route is closed to whoever it does not let in."""
    app = FastAPI(
        title="Tidegate hub",
        docs_url=None,
        redoc_url=None,
        openapi_url="/api/openapi.json",
        lifespan=lifespan,
        dependencies=[] if access is None else [Depends(access.check)],
    )
    if access is not None:
        app.add_middleware(Protection, config=access.config, public_url=hub.config.public_url)
    app.add_exception_handler(TidegateError, _as_json)

    app.add_route("/health", _Health(hub.database).answer, include_in_schema=False)
    for make in routers:
        app.include_router(make(hub))
    return app


class _Health:
    """Whether this replica and its database answer. It waits for no thread and no connection that other requests may
    have; who asks while the database is asked gets what that finds."""

    def __init__(self, database: Database) -> None:
        self._database = database
        self._asked: asyncio.Task[None] | None = None

    async def answer(self, _: Request) -> JSONResponse:
        if self._asked is None or self._asked.done():
            self._asked = asyncio.create_task(asyncio.to_thread(self._database.require_answer))
        await asyncio.shield(self._asked)
        return JSONResponse({"status": "ok"})


def status_of(error: TidegateError) -> int:
    """HTTP's number for an error."""
    return _STATUS.get(error.code, 500)


async def _as_json(_: Request, error: Exception) -> JSONResponse:
    assert isinstance(error, TidegateError)
    body = {"error": {"code": error.code, "message": error.message}}
    if isinstance(error, TooManyAttempts):
        return JSONResponse(body, 429, {"Retry-After": str(error.retry_after)})
    challenge = {"WWW-Authenticate": "Bearer"} if isinstance(error, Unauthenticated) else None
    return JSONResponse(body, status_of(error), challenge)
