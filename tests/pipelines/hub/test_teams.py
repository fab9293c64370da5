"""What a team does not have it does not see, whatever it asks for, on SQLite and PostgreSQL."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.support.hub.access import TOKENS, make_hub, people_file

from tidegate_pipelines.hub.api import api_router
from tidegate_pipelines.hub.app import create_app
from tidegate_pipelines.hub.people_config import AccessConfig
from tidegate_pipelines.hub.releases.requests import Request, request_release
from tidegate_pipelines.hub.store import Database, EngineRow

MODELS = ("flights", "flights-eu", "spam", "Flights", "xflights")


@pytest.fixture
def client(database: Database, tmp_path: Path) -> TestClient:
    """A hub that knows some models, asked by somebody of the team of flights."""
    with database.writing() as session:
        for model in MODELS:
            request_release(database, session, Request(model, 1, "api", "x"))
        session.add(EngineRow(name="a", addresses="x", state="UP", since=datetime.now(UTC), status={"secret": "spam"}))
    hub, access, _ = make_hub(database, AccessConfig(file=people_file(tmp_path)))
    app = create_app(hub, [api_router], access=access)
    return TestClient(app, "http://127.0.0.1:8600", headers={"authorization": f"Bearer {TOKENS['ci']}"})


def test_lists_hold_the_models_of_the_team_alone(client: TestClient) -> None:
    assert {one["model"] for one in client.get("/api/v1/releases").json()} == {"flights", "flights-eu"}
    assert {one["name"] for one in client.get("/api/v1/models").json()} == {"flights", "flights-eu"}
    everybody = {"authorization": f"Bearer {TOKENS['anna']}"}
    assert {one["model"] for one in client.get("/api/v1/releases", headers=everybody).json()} == set(MODELS)


def test_another_teams_model_is_as_one_that_is_not_there(client: TestClient) -> None:
    assert client.get("/api/v1/models/spam").status_code == 404
    assert client.get("/api/v1/releases/3").status_code == 404
    assert client.get("/api/v1/releases/1").status_code == 200
    assert client.post("/api/v1/releases/3/cancel", json={"reason": "x"}).status_code == 404
    assert client.post("/api/v1/releases", json={"model": "spam", "version": 2}).status_code == 404
    assert client.post("/api/v1/releases", json={"model": "flights", "version": 2}).status_code == 201
    different = {"model": "flights", "version": 2, "settings": {"canary": False}}
    assert client.post("/api/v1/releases", json=different).status_code == 403


def test_what_an_engine_says_of_all_models_is_for_whoever_sees_all(client: TestClient) -> None:
    assert "spam" not in client.get("/api/v1/engines").text
    everybody = {"authorization": f"Bearer {TOKENS['anna']}"}
    assert "spam" in client.get("/api/v1/engines", headers=everybody).text
