"""Serves reports of verdicts and skew from Airflow's API server to users who are signed in, read-only.

They are looked for under the folders of `[tidegate] report_roots`, such as model repositories. Only files of reports
are given out, nothing else that lies there, and no page may run a script.
"""

from __future__ import annotations

from collections.abc import MutableMapping, Sequence
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from urllib.parse import quote

from tidegate_operators.airflow.compat import conf, signed_in_user
from tidegate_serving.contract.errors import NotFound

if TYPE_CHECKING:
    from fastapi import FastAPI

PREFIX = "/tidegate/reports"
SECTION = "tidegate"
_SUFFIX = ".report"
_SKEW = "skew.json"
_KINDS = {
    ".css": "text/css",
    ".html": "text/html; charset=utf-8",
    ".ico": "image/x-icon",
    ".json": "application/json",
    ".png": "image/png",
    ".svg": "image/svg+xml",
    ".woff": "font/woff",
    ".woff2": "font/woff2",
}
_HEADERS = {
    b"content-security-policy": (
        b"default-src 'none'; style-src 'self' 'unsafe-inline'; img-src 'self' data:; font-src 'self'; "
        b"base-uri 'none'; form-action 'none'; frame-ancestors 'self'"
    ),
    b"x-content-type-options": b"nosniff",
    b"x-frame-options": b"SAMEORIGIN",
    b"referrer-policy": b"no-referrer",
    b"cache-control": b"private, no-store",
}


def report_roots() -> Sequence[Path]:
    """The folders that `[tidegate] report_roots` names, with commas between; none by default."""
    named = str(conf.get(SECTION, "report_roots", fallback="") or "")
    return [Path(one.strip()) for one in named.split(",") if one.strip()]


def address_of(page: Path) -> str | None:
    """Where Airflow's API server shows a page of a report; None where no root is configured. A page under none of the
    roots, as on a worker that mounts a repository elsewhere, is looked for by NAME/VERSION.report."""
    roots = report_roots()
    if not roots:
        return None
    under = next((page.relative_to(root).parts for root in roots if page.is_relative_to(root)), page.parts[-3:])
    server = str(conf.get("api", "base_url", fallback="") or "").rstrip("/")
    return "/".join([f"{server}{PREFIX}", *map(quote, under)])


def find_report_file(path: str) -> Path:
    """The file that an address names below the prefix. NotFound for what is no file of a report under a root."""
    for root in (one.resolve() for one in report_roots()):
        found = (root / path).resolve()
        if found.suffix in _KINDS and found.is_relative_to(root) and found.is_file() and _is_reports(found, root):
            return found
    raise NotFound(f"no report has a file {path!r}: see [tidegate] report_roots of Airflow's API server")


def _is_reports(file: Path, root: Path) -> bool:
    folders = [one for one in file.parents if one.is_relative_to(root) and one != root]
    return any(one.name.endswith(_SUFFIX) or (one / _SKEW).is_file() for one in folders)


async def application(scope: Any, receive: Any, send: Any) -> None:
    """What Airflow mounts at the prefix. It is made with the first request, since Airflow loads it in every process."""

    async def with_headers(message: MutableMapping[str, Any]) -> None:
        if message["type"] == "http.response.start":
            kept = [(name, value) for name, value in message["headers"] if name.lower() not in _HEADERS]
            message = {**message, "headers": [*kept, *_HEADERS.items()]}
        await send(message)

    await _application()(scope, receive, with_headers)


@cache
def _application() -> FastAPI:
    from fastapi import Depends, FastAPI, HTTPException
    from fastapi.responses import FileResponse

    app = FastAPI(docs_url=None, redoc_url=None, openapi_url=None)

    def report(path: str) -> FileResponse:
        try:
            file = find_report_file(path)
        except NotFound as error:
            raise HTTPException(404, error.message) from error
        return FileResponse(file, media_type=_KINDS[file.suffix])

    app.add_api_route("/{path:path}", report, dependencies=[Depends(signed_in_user())], response_model=None)
    return app
