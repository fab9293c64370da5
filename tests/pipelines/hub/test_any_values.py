"""Whatever values a client sends to a route of the hub are answered: with what it asked, or with what is wrong."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import quote, urlencode

import pytest
from fastapi.routing import APIRoute
from pydantic import BaseModel
from starlette.testclient import TestClient
from tests.support.hub.access import TOKENS, make_hub, people_file
from tests.support.hub.pages import make_world

from tidegate_pipelines.hub.api import api_router
from tidegate_pipelines.hub.api.decisions import decision_routes
from tidegate_pipelines.hub.api.sign_in import sign_in_routes
from tidegate_pipelines.hub.app import create_app
from tidegate_pipelines.hub.decisions import Decisions
from tidegate_pipelines.hub.decisions.asked import KINDS
from tidegate_pipelines.hub.pages import add_pages
from tidegate_pipelines.hub.people_config import AccessConfig
from tidegate_pipelines.hub.store import Database

BOSS = {"authorization": f"Bearer {TOKENS['boss']}"}
TEXTS = (
    *("", "0", "-1", "9" * 20, "9" * 5000, "1e400", "nan", "\0", "é☃", "²", "'\"<>", "[", "{}", "%", "//[", "a" * 5000),
    *("../../etc/passwd", "(((((a+)+)+)+$", "\r\nX: y", "0001-01-01T00:00:00+23:59", "9999-12-31T23:59:59-23:59"),
)
VALUES: tuple[Any, ...] = (None, True, -1, 2**63, 10**400, 1e308, "\0", "a" * 5000, [[]], {"a": 1}, *TEXTS[-2:])
BODY = {
    "model": "flights",
    "version": 1,
    "release_id": 8,
    "feature": "distance",
    "reason": "r",
    "key": "kkkkkkkk",
    "since": "2026-01-01T00:00:00Z",
    "until": (datetime.now(UTC) + timedelta(days=30)).isoformat(),
    "request_id": "x",
    "succeeded": True,
    "begun": "2026-01-01T00:00:00Z",
    "ended": "2026-01-02T00:00:00Z",
    "stages": [],
    "sentence": "s",
    "run": "r",
}
USUAL = {"model": "flights", "name": "distance", "request_id": "x", "id": "x"}
JSON = {"content-type": "application/json"}
SAID = {501, 503, 504}
"""Statuses from 500 on that say what the hub cannot do, not that it broke."""


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """SQLite: what differs on PostgreSQL is tested with the claims."""
    return f"sqlite:///{tmp_path}/hub.db"


@pytest.fixture
def client(database: Database, tmp_path: Path) -> Iterator[TestClient]:
    """What a route raises comes out of it, too. All requests run in one event loop."""
    make_world(database, folder=tmp_path)
    hub, access, log = make_hub(database, AccessConfig(file=people_file(tmp_path), attempts=10_000))
    decisions = Decisions(database, hub.config, log)
    routers = [api_router, lambda _: sign_in_routes(access), lambda _: decision_routes(hub, access, log, decisions)]
    app = create_app(hub, routers, access=access)
    add_pages(app, hub)
    with TestClient(app, "http://127.0.0.1:8600", follow_redirects=False) as client:
        yield client


def routes_of(routes: Iterable[Any]) -> Iterator[APIRoute]:
    """All that answer once: a stream of events does not end."""
    for route in routes:
        if isinstance(route, APIRoute):
            if not route.path.endswith("/events"):
                yield route
        elif hasattr(route, "routes"):
            yield from routes_of(route.routes)


def all_routes(client: TestClient) -> list[APIRoute]:
    app: Any = client.app
    found = list(routes_of(app.routes))
    assert len(found) > 30
    return found


def path_of(route: APIRoute, value: str) -> str:
    return re.sub(r"\{\w+(:path)?\}", lambda _: quote(value, safe=""), route.path) or "/"


def test_any_text_in_a_path_or_a_query(client: TestClient) -> None:
    broken = []
    for route in all_routes(client):
        method = "GET" if "GET" in route.methods else sorted(route.methods)[0]
        names = [one.name for one in route.dependant.query_params]
        for text in TEXTS:
            queries = [{**{one: USUAL[one] for one in names if one in USUAL}, name: text} for name in names]
            places = [f"{path_of(route, '8')}?{urlencode(query)}" for query in queries]
            for place in [path_of(route, text), *places]:
                answer = client.request(method, place, headers=BOSS)
                if answer.status_code >= 500 and answer.status_code not in SAID:
                    broken.append((method, place[:80], answer.status_code))
    assert broken == []


def documents(client: TestClient) -> Iterator[tuple[str, list[str]]]:
    """Where a document goes to, and the members that it may have."""
    for route in all_routes(client):
        document = route.body_field and route.body_field.field_info.annotation
        if isinstance(document, type) and issubclass(document, BaseModel):
            yield path_of(route, "8"), list(document.model_fields)
    for kind in KINDS:
        yield (
            f"/api/v1/decisions/{kind}",
            ["model", "version", "release_id", "feature", "since", "until", "reason", "key"],
        )


def test_any_value_in_a_document(client: TestClient) -> None:
    broken, taken = [], set()
    for path, members in documents(client):
        usual = {name: BODY[name] for name in members if name in BODY}
        for number, (name, value) in enumerate((name, value) for name in members for value in VALUES):
            # Nothing of that kind came with this key before.
            keyed = {"key": f"key {number}"} if "key" in members else {}
            text = json.dumps({**usual, **keyed, name: value})
            answer = client.post(path, content=text, headers={**BOSS, **JSON})
            if answer.status_code < 300:
                taken.add(path)
            if answer.status_code >= 500 and answer.status_code not in SAID:
                broken.append((path, name, str(value)[:40], answer.status_code))
    assert len(taken) > 3, "most of it could be good"
    assert broken == []
