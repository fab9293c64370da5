"""The addresses of the pages; each reads its view in one look at the database and renders it."""

from __future__ import annotations

import mimetypes
from datetime import UTC, datetime
from importlib import resources
from typing import Annotated

from fastapi import APIRouter, FastAPI, Query, Request, Response
from fastapi.responses import FileResponse, RedirectResponse
from fastapi.routing import APIRoute
from pydantic import BaseModel, Field

from tidegate_pipelines.hub.access import Access, require
from tidegate_pipelines.hub.access.guard import local_path
from tidegate_pipelines.hub.app import Hub
from tidegate_pipelines.hub.audit import AuditLog
from tidegate_pipelines.hub.audit.chain_check import ChainCheck
from tidegate_pipelines.hub.pages import queries, render
from tidegate_pipelines.hub.pages.errors import SIGN_IN, show_errors
from tidegate_pipelines.hub.pages.queries.audit import AuditQuestion, audit_page
from tidegate_pipelines.hub.pages.queries.fleet import SORTS
from tidegate_pipelines.hub.pages.queries.model import RANGES
from tidegate_pipelines.hub.pages.queries.release import report_folder
from tidegate_pipelines.hub.pages.receipts import add_receipts
from tidegate_pipelines.hub.pages.viewer import WhoLooks, who_looks
from tidegate_serving.contract.errors import NotFound
from tidegate_validation.report import stylesheet

_MOST_TEXT = 255
_MOST_PAGE = 1_000_000
_MONTH = 30
_FOREVER = "public, max-age=31536000, immutable"
_STYLE = "report.css"


def add_pages(app: FastAPI, hub: Hub, clock: render.Clock = render.utc_now) -> None:
    """Gives the hub's application its pages, and its errors as pages to browsers."""
    who = who_looks(hub.current_user)
    router = APIRouter(include_in_schema=False, default_response_class=Response)
    _lists(router, hub, who, clock)
    _single(router, hub, who, clock)
    add_receipts(router, hub, who, clock)
    _audit(router, hub, who, clock)
    _files(router, hub, who)
    access = hub.current_user if isinstance(hub.current_user, Access) else None
    provider = access is not None and access.provider is not None
    _sign_in(router, access, provider, clock)
    for route in router.routes:
        if isinstance(route, APIRoute) and "GET" in route.methods:
            route.methods.add("HEAD")  # which checks of links and proxies ask; the server leaves the body out
    app.include_router(router)
    show_errors(app, who, clock, provider)


def _lists(router: APIRouter, hub: Hub, who: WhoLooks, clock: render.Clock) -> None:
    @router.get("/")
    def now(request: Request) -> Response:
        viewer, moment = who(request), clock()
        with hub.database.reading() as session:
            found = queries.now_page(session, viewer, moment)
        return render.page("now.html.jinja", viewer, moment, view=found, address=hub.config.address_for_people)

    @router.get("/models")
    def models(
        request: Request, q: str = "", state: str = "", skew: str = "", engine: str = "", sort: str = "", page: int = 1
    ) -> Response:
        viewer, moment = who(request), clock()
        order = sort if sort in SORTS else SORTS[0]
        number = min(max(page, 1), _MOST_PAGE)
        question = queries.FleetQuestion(q.strip()[:_MOST_TEXT], state, skew, engine, order, number)
        with hub.database.reading() as session:
            found = queries.fleet(session, viewer, question, moment)
        return render.page("models.html.jinja", viewer, moment, view=found)

    @router.get("/releases")
    def releases(request: Request, q: str = "", state: str = "", before: int = 0) -> Response:
        viewer, moment = who(request), clock()
        question = queries.ReleaseQuestion(state, q.strip()[:_MOST_TEXT], min(max(before, 0), 2**62))
        with hub.database.reading() as session:
            found = queries.release_list(session, viewer, question)
        return render.page("releases.html.jinja", viewer, moment, view=found)

    @router.get("/engines")
    def engines(request: Request) -> Response:
        viewer, moment = who(request), clock()
        with hub.database.reading() as session:
            found = queries.engines(session, viewer)
        return render.page("engines.html.jinja", viewer, moment, view=found)


def _audit(router: APIRouter, hub: Hub, who: WhoLooks, clock: render.Clock) -> None:
    log = AuditLog(hub.database)
    chain = ChainCheck(log)

    @router.get("/audit")
    def audit(request: Request, question: Annotated[AuditAsked, Query()]) -> Response:
        viewer, moment = who(request), clock()
        require(hub.current_user(request), "operate")
        found = audit_page(log, chain, question.question(), moment, anew=question.check)
        return render.page("audit.html.jinja", viewer, moment, view=found)


class AuditAsked(BaseModel):
    """What the form of the audit log sends."""

    who: str = Field("", max_length=_MOST_TEXT)
    action: str = Field("", max_length=_MOST_TEXT)
    model: str = Field("", max_length=_MOST_TEXT)
    outcome: str = ""
    days: str = ""
    before: int = Field(0, ge=0, le=2**62)
    check: bool = False

    def question(self) -> AuditQuestion:
        """As the page asks it."""
        days = int(self.days) if self.days.isascii() and self.days.isdigit() and len(self.days) < 4 else 0
        return AuditQuestion(self.who.strip(), self.action, self.model.strip(), self.outcome, days, self.before)


def _single(router: APIRouter, hub: Hub, who: WhoLooks, clock: render.Clock) -> None:
    @router.get("/models/{name:path}")
    def model(request: Request, name: str, days: int = _MONTH) -> Response:
        viewer, moment = who(request), clock()
        with hub.database.reading() as session:
            found = queries.model(session, viewer, name, _range(days), moment)
        return render.page("model.html.jinja", viewer, moment, view=found, ranges=RANGES)

    @router.get("/features/{model:path}")
    def feature(request: Request, model: str, name: str, days: int = 90, until: str = "") -> Response:
        viewer, moment = who(request), clock()
        end = _moment(until)
        with hub.database.reading() as session:
            found = queries.feature(session, viewer, model, name, days=_range(days), until=end, now=moment)
        return render.page("feature.html.jinja", viewer, moment, view=found, ranges=RANGES)

    @router.get("/releases/{number}")
    def release(request: Request, number: int) -> Response:
        viewer, moment = who(request), clock()
        with hub.database.reading() as session:
            found = queries.release(session, viewer, number, hub.config, moment)
        return render.page("release.html.jinja", viewer, moment, view=found, address=hub.config.address_for_people)


def _files(router: APIRouter, hub: Hub, who: WhoLooks) -> None:
    folder = resources.files(render.PACKAGE).joinpath("static")
    files = {one.name: one.read_bytes() for one in folder.iterdir() if one.is_file()}
    files[_STYLE] = stylesheet().encode()

    @router.get("/static/{name}")
    def static(name: str) -> Response:
        if name not in files:
            raise NotFound(f"there is no file {name[:100]!r}: load the page again")
        kind = mimetypes.guess_type(name)[0] or "application/octet-stream"
        return Response(files[name], media_type=kind, headers={"Cache-Control": _FOREVER})

    @router.get("/releases/{number}/verdict.json")
    def verdict(request: Request, number: int) -> Response:
        viewer = who(request)
        with hub.database.reading() as session:
            path = report_folder(session, viewer, number) / "verdict.json"
        if not path.is_file():
            raise NotFound(
                f"the report of release {number} is not where it was written ({path}): it was moved or removed"
            )
        return FileResponse(path, media_type="application/json", filename=f"verdict-{number}.json")


def _sign_in(router: APIRouter, access: Access | None, provider: bool, clock: render.Clock) -> None:
    @router.get(SIGN_IN)
    def sign_in(request: Request, return_to: str = "/") -> Response:
        known = access is None or access.caller_if_any(request) is not None
        if known:
            return RedirectResponse(local_path(return_to), 303)
        return render.page(
            "sign_in.html.jinja", None, clock(), problem="", return_to=local_path(return_to), provider=provider
        )


def _range(days: int) -> int:
    return days if days in RANGES else _MONTH


def _moment(text: str) -> datetime | None:
    try:
        found = datetime.fromisoformat(text)
    except ValueError:
        return None
    return found if found.tzinfo is not None else found.replace(tzinfo=UTC)
