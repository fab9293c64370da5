"""A hub with nothing but sign-in and a few routes, for tests of who may do what."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from fastapi import APIRouter, FastAPI, Request
from fastapi.responses import HTMLResponse
from starlette.testclient import TestClient

from tidegate_pipelines.hub.access import Access, require
from tidegate_pipelines.hub.api.decisions import decision_routes
from tidegate_pipelines.hub.api.sign_in import sign_in_routes
from tidegate_pipelines.hub.app import Hub, create_app
from tidegate_pipelines.hub.audit import AuditLog
from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.decisions import Decisions
from tidegate_pipelines.hub.people_config import AccessConfig
from tidegate_pipelines.hub.store import Database
from tidegate_serving.control.access.access_file import hash_of

TOKENS = {name: f"tg_{name}" + "x" * 40 for name in ("ci", "anna", "boss", "gone")}
PEOPLE = f"""
format = "tidegate.hub-access/1"
[team.flights]
models = ["flights*"]
[team.mail]
models = ["spam"]
[[token]]
name = "ci"
sha256 = "{hash_of(TOKENS["ci"])}"
role = "release"
teams = ["flights"]
[[token]]
name = "anna"
sha256 = "{hash_of(TOKENS["anna"])}"
role = "look"
[[token]]
name = "boss"
sha256 = "{hash_of(TOKENS["boss"])}"
role = "operate"
[[token]]
name = "gone"
sha256 = "{hash_of(TOKENS["gone"])}"
role = "operate"
expires = "2020-01-01T00:00:00Z"
[[member]]
email = "ben@example.com"
role = "operate"
teams = ["mail"]
[[member]]
group = "flights-people"
role = "release"
teams = ["flights"]
"""


def people_file(folder: Path, text: str = PEOPLE) -> Path:
    """An access file with these people."""
    path = folder / "access.toml"
    path.write_text(text)
    return path


def make_hub(
    database: Database, config: AccessConfig, public_url: str = "", **more: Any
) -> tuple[Hub, Access, AuditLog]:
    """A hub's parts; `more` are fields of its config."""
    log = AuditLog(database)
    access = Access(config, database, log)
    return Hub(HubConfig(access=config, public_url=public_url, **more), database, access, log), access, log


def decisions_client(database: Database, folder: Path, token: str = "boss") -> tuple[TestClient, AuditLog]:
    """A program that decides at a hub, known by its token; and the hub's audit log."""
    hub, access, log = make_hub(database, AccessConfig(file=people_file(folder, PEOPLE)))
    decisions = Decisions(database, hub.config, log)
    app = create_app(hub, [lambda hub: decision_routes(hub, access, log, decisions)], access=access)
    headers = {"authorization": f"Bearer {TOKENS[token]}"}
    return TestClient(app, "http://127.0.0.1:8600", headers=headers, follow_redirects=False), log


def make_app(hub: Hub, access: Access) -> FastAPI:
    """Sign-in, a page, and what changes a model."""
    router = APIRouter()

    @router.get("/")
    def page(request: Request) -> HTMLResponse:
        return HTMLResponse(access.form_token(request))

    @router.post("/models/{model}/pin", name="pin")
    def pin(model: str, request: Request) -> dict[str, str]:
        caller = access(request)
        require(caller, "release", model)
        return {"by": caller.name}

    return create_app(hub, [lambda _: router, lambda _: sign_in_routes(access)], access=access)
