"""Receipts in the hub: the logs of its engines are searched, and a team sees what was asked of its own models alone."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sqlalchemy import delete
from starlette.testclient import TestClient
from tests.support.hub.access import TOKENS, make_hub, people_file
from tests.support.log_blocks import FakeBlock, write_log
from tests.support.models.versions import adding, digest_of, publish

from tidegate_pipelines.hub.api import api_router
from tidegate_pipelines.hub.app import create_app
from tidegate_pipelines.hub.config import ReleaseConfig
from tidegate_pipelines.hub.pages import add_pages
from tidegate_pipelines.hub.people_config import AccessConfig
from tidegate_pipelines.hub.store import Database, EngineRow

AS_PAGE = {"accept": "text/html"}
TRACE = "4bf92f3577b34da6a3ce929d0e0e4736"


def as_(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {TOKENS[name]}"}


@pytest.fixture
def client(database: Database, tmp_path: Path) -> TestClient:
    """A hub over one engine's log, with a row of a model of the team of flights and one of another team's."""
    publish(tmp_path / "models", "flights", 1, adding(1))
    publish(tmp_path / "models", "spam", 1, adding(1))
    log(tmp_path, "flights", 2.0, "f1")
    log(tmp_path, "spam", 2.0, "s1")
    engine(database, tmp_path / "log")
    config = AccessConfig(file=people_file(tmp_path))
    hub, access, _ = make_hub(database, config, releases=ReleaseConfig(repository=tmp_path / "models"))
    app = create_app(hub, [api_router], access=access)
    add_pages(app, hub)
    return TestClient(app, "http://127.0.0.1:8600", headers=as_("ci"))


def log(folder: Path, model: str, y: float, request_id: str) -> None:
    outputs = {"y": np.array([y], "f4")}
    block = FakeBlock({"x": np.array([1], "f4")}, outputs, model=model, request_id=[request_id], trace_id=[TRACE])
    write_log(folder / "log", block)


def engine(database: Database, *logs: Path | str) -> None:
    with database.writing() as session:
        session.execute(delete(EngineRow))
        for number, path in enumerate(logs):
            status = {"log_path": str(path)}
            session.add(EngineRow(name=f"e{number}", addresses="x", state="UP", since=datetime.now(UTC), status=status))


def error(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["message"]


def test_a_request_leads_to_everything_behind_its_answer(client: TestClient, tmp_path: Path) -> None:
    (found,) = client.get("/api/v1/receipts", params={"request_id": "f1"}).json()
    assert (found["model"], found["version"], found["again"]) == ("flights", 1, None)
    assert found["trace_id"] == TRACE
    assert found["manifest_digest"] == digest_of(tmp_path / "models/flights/1")
    (again,) = client.post("/api/v1/receipts/again", json={"request_id": "f1"}).json()
    assert again["again"]["comparison"] == "same"
    log(tmp_path, "flights", 5.0, "f2")
    (again,) = client.post("/api/v1/receipts/again", json={"request_id": "f2", "model": "flights"}).json()
    assert again["again"]["sentence"] == "computed again, output 'y' differs by 0.6"


def test_another_teams_request_is_as_one_that_is_not_there(client: TestClient) -> None:
    for asked in ("s1", "unknown"):
        status, message = error(client.get("/api/v1/receipts", params={"request_id": asked}))
        assert (status, f"has no row of request '{asked}'" in message) == (404, True)
        assert client.post("/api/v1/receipts/again", json={"request_id": asked}).status_code == 404
        assert client.get("/receipts", params={"id": asked}, headers=AS_PAGE).status_code == 404
    assert client.get("/api/v1/receipts", params={"request_id": "s1"}, headers=as_("boss")).status_code == 200


def test_looking_is_one_role_and_asking_the_model_again_another(client: TestClient) -> None:
    looks = as_("anna")
    assert client.get("/api/v1/receipts", params={"request_id": "f1"}, headers=looks).status_code == 200
    assert client.post("/api/v1/receipts/again", json={"request_id": "f1"}, headers=looks).status_code == 403
    page = client.get("/receipts", params={"id": "f1"}, headers=looks | AS_PAGE)
    assert (page.status_code, "Compute it again" in page.text) == (200, False)
    assert client.get("/api/v1/receipts", params={"request_id": "f1"}, headers={"authorization": ""}).status_code == 401


def test_the_page_shows_it_and_has_it_computed_again(client: TestClient) -> None:
    page = client.get("/receipts", params={"id": " f1 "}, headers=AS_PAGE).text
    for text in (
        "Compute it again",
        "not in the log",
        "/models/flights",
        "Manifest",
        f"<dt>Trace</dt><dd>{TRACE}</dd>",
    ):
        assert text in page
    done = client.post("/receipts", data={"id": "f1", "model": "flights"}, headers=AS_PAGE)
    assert "computed again, the answer is exactly the same" in done.text
    empty = client.get("/receipts", headers=AS_PAGE)
    assert (empty.status_code, "x-request-id" in empty.text) == (200, True)


def test_what_a_request_held_is_shown_and_does_nothing(client: TestClient, tmp_path: Path) -> None:
    attack = "<script>alert(1)</script>"
    block = FakeBlock({"x": np.array([attack.encode()], object)}, {}, model="flights", request_id=[attack])
    write_log(tmp_path / "log", block)
    page = client.get("/receipts", params={"id": attack}, headers=AS_PAGE)
    assert page.status_code == 200
    assert attack not in page.text
    assert "&lt;script&gt;alert(1)" in page.text


@pytest.mark.parametrize("wrong", ["a\nb", "x" * 257])
def test_an_id_that_none_can_have_is_refused(client: TestClient, wrong: str) -> None:
    status, message = error(client.get("/api/v1/receipts", params={"request_id": wrong}))
    assert (status, "x-request-id" in message) == (422, True)
    page = client.get("/receipts", params={"id": wrong}, headers=AS_PAGE)
    assert (page.status_code, "x-request-id" in page.text) == (422, True)


def test_logs_that_the_hub_cannot_read_are_named(client: TestClient, database: Database, tmp_path: Path) -> None:
    engine(database, "/elsewhere/log", tmp_path / "log")
    assert client.get("/api/v1/receipts", params={"request_id": "f1"}).status_code == 200
    engine(database, "/elsewhere/log")
    status, message = error(client.get("/api/v1/receipts", params={"request_id": "f1"}))
    assert (status, "/elsewhere/log, which this hub does not see" in message) == (409, True)
    engine(database)
    assert "no engine of this hub keeps" in error(client.get("/api/v1/receipts", params={"request_id": "f1"}))[1]
