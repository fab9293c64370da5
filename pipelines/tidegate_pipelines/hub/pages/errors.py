"""Errors as pages, for whoever asked with a browser; programs get them as JSON, as before."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.requests import Request
from starlette.responses import JSONResponse, RedirectResponse, Response

from tidegate_pipelines.hub.app import status_of
from tidegate_pipelines.hub.pages import render
from tidegate_pipelines.hub.pages.viewer import WhoLooks
from tidegate_serving.contract.errors import (
    InvalidInput,
    NotFound,
    TidegateError,
    Unauthenticated,
    Unavailable,
    Unsupported,
)

SIGN_IN = "/sign-in"
_SEE_OTHER = 303
_SIGNS_IN = "/sign-in/"
_DESCRIBED = "/api/openapi.json"


def show_errors(app: FastAPI, who: WhoLooks, clock: render.Clock, provider: bool) -> None:
    """From now on the application's errors are pages for browsers."""
    as_json: Any = app.exception_handlers[TidegateError]

    async def known(request: Request, error: Exception) -> Response:
        assert isinstance(error, TidegateError)
        return await _shown(request, error, as_json, who, clock, provider)

    async def malformed(request: Request, error: Exception) -> Response:
        assert isinstance(error, RequestValidationError)
        return await _shown(request, _malformed(request, error), as_json, who, clock, provider)

    async def unknown(request: Request, error: Exception) -> Response:
        assert isinstance(error, HTTPException)
        if not _is_browser(request):
            code = {400: InvalidInput.code, 404: NotFound.code}.get(error.status_code, Unsupported.code)
            message = f"{request.method} {request.url.path[:200]}: {str(error.detail).lower()}: see {_DESCRIBED}"
            said = {"error": {"code": code, "message": message}}
            return JSONResponse(said, error.status_code, headers=error.headers)
        nothing = NotFound(f"there is no page {request.url.path[:200]!r}: begin with the first page")
        return await _shown(request, nothing, as_json, who, clock, provider)

    async def unforeseen(request: Request, error: Exception) -> Response:
        fault = TidegateError(
            f"the hub failed at this ({type(error).__name__}): its log says where, so please report it"
        )
        return await _shown(request, fault, as_json, who, clock, provider)

    app.add_exception_handler(TidegateError, known)
    app.add_exception_handler(RequestValidationError, malformed)
    app.add_exception_handler(HTTPException, unknown)
    app.add_exception_handler(Exception, unforeseen)


async def _shown(
    request: Request,
    error: TidegateError,
    as_json: Callable[[Request, Exception], Awaitable[Response]],
    who: WhoLooks,
    clock: render.Clock,
    provider: bool,
) -> Response:
    if not _is_browser(request):
        return await as_json(request, error)
    if request.url.path.startswith(_SIGNS_IN):
        shown = {"problem": error.message, "return_to": getattr(request.state, "return_to", "/"), "provider": provider}
        return render.page("sign_in.html.jinja", None, clock(), status=status_of(error), **shown)
    if isinstance(error, Unauthenticated) and request.method in ("GET", "HEAD"):
        path = request.url.path + (f"?{request.url.query}" if request.url.query else "")
        return RedirectResponse(render.link(SIGN_IN, {"return_to": path}), _SEE_OTHER)
    back = request.headers.get("referer", "") if request.method == "POST" else ""
    written = getattr(request.state, "reason", "")  # of a decision that was sent
    shown = {"code": error.code, "message": error.message, "back": back, "written": written}
    return render.page("error.html.jinja", _viewer(request, error, who), clock(), status=status_of(error), **shown)


def _viewer(request: Request, error: TidegateError, who: WhoLooks) -> Any:
    """Who asked, so that the page has its ways to others; None where that cannot be told now."""
    if isinstance(error, Unavailable):
        return None
    try:
        return who(request)
    except TidegateError:
        return None


def _is_browser(request: Request) -> bool:
    """Whether a person waits for the answer; a page's script asks for pages too."""
    return "text/html" in request.headers.get("accept", "")


def _malformed(request: Request, error: RequestValidationError) -> InvalidInput:
    """The first of what is wrong with a request."""
    first = error.errors()[0]
    if isinstance(first.get("input"), bytes):  # a body that is not told to be JSON is not read as such
        kind = request.headers.get("content-type", "")[:100]
        said = f"is told to be {kind!r}" if kind else "has no content-type"
        return InvalidInput(f"the request's body {said}: send JSON with the header `content-type: application/json`")
    place = ".".join(str(one) for one in first["loc"][1:]) or "the request"
    if first["type"] == "json_invalid":
        return InvalidInput(f"the request's body is no JSON: send what {_DESCRIBED} describes")
    if first["type"] == "missing":
        return InvalidInput(f"{place} is missing: send what {_DESCRIBED} describes")
    if first["type"] == "extra_forbidden":
        return InvalidInput(f"{place} is not known here: send what {_DESCRIBED} describes")
    return InvalidInput(f"{place} is {str(first.get('input'))[:100]!r}: {str(first['msg']).lower()}")
