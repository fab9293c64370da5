"""Strangers cost the hub few writes from one address, and those who are known do not wait for them."""

from __future__ import annotations

import base64
import hashlib
import hmac
import time
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select
from starlette.testclient import TestClient
from tests.support.hub.access import TOKENS, make_app, make_hub, people_file
from tests.support.orchestrators.webhooks import delivery

from tidegate_pipelines.hub.access import guard
from tidegate_pipelines.hub.access.oidc import Provider
from tidegate_pipelines.hub.api.decisions import decision_routes
from tidegate_pipelines.hub.api.sign_in import sign_in_routes
from tidegate_pipelines.hub.app import create_app
from tidegate_pipelines.hub.config import MlflowConfig
from tidegate_pipelines.hub.decisions import Decisions
from tidegate_pipelines.hub.people_config import AccessConfig, OidcConfig
from tidegate_pipelines.hub.registry.webhook import PATH, webhook_router
from tidegate_pipelines.hub.store import AuditLineRow, Base, Database, DeliveryRow, PendingSignInRow

HERE = "http://127.0.0.1:8600"
SECRET = "a secret of the hub's"
BOSS = {"authorization": f"Bearer {TOKENS['boss']}"}
FREEZE = {"model": "flights", "until": (datetime.now(UTC) + timedelta(days=30)).isoformat(), "reason": "r", "key": "k"}
EVENT = {"entity": "model_version_alias", "action": "created", "data": {"name": "flights"}}


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """SQLite: what differs on PostgreSQL is tested with the claims."""
    return f"sqlite:///{tmp_path}/hub.db"


def rows(database: Database, table: type[Base]) -> int:
    with database.reading() as session:
        return int(session.scalar(select(func.count()).select_from(table)) or 0)


@pytest.mark.parametrize("headers", [{}, {"origin": "https://elsewhere.example"}])
def test_what_is_refused_to_a_stranger_does_not_fill_the_audit_log(
    database: Database, tmp_path: Path, headers: dict[str, str]
) -> None:
    hub, access, log = make_hub(database, AccessConfig(file=people_file(tmp_path)))
    decisions = Decisions(database, hub.config, log)
    routers = [lambda _: sign_in_routes(access), lambda _: decision_routes(hub, access, log, decisions)]
    client = TestClient(create_app(hub, routers, access=access), HERE)

    answers = [client.post("/api/v1/decisions/freeze", json=FREEZE, headers=headers) for _ in range(15)]

    assert [one.status_code == 429 for one in answers] == [False] * 10 + [True] * 5
    assert int(answers[-1].headers["retry-after"]) > 0
    assert rows(database, AuditLineRow) == 10
    assert client.get("/api/v1/me", headers=BOSS).status_code == 200


def test_forged_webhooks_are_counted_a_few_times_and_a_signed_one_still_counts(
    database: Database, tmp_path: Path
) -> None:
    hub, access, _ = make_hub(database, AccessConfig(file=people_file(tmp_path)))
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "secret").chmod(0o600)
    config = MlflowConfig(address="http://127.0.0.1:1", webhook_secret_file=tmp_path / "secret")
    looked: list[str] = []
    client = TestClient(
        create_app(hub, [lambda _: webhook_router(config, database, looked.append)], access=access), HERE
    )

    def send(secret: str) -> Any:
        headers, body = delivery(EVENT, secret)
        return client.post(PATH, headers=headers, content=body)

    assert [send("a guess").status_code for _ in range(15)] == [401] * 10 + [429] * 5
    with database.reading() as session:
        assert session.scalars(select(DeliveryRow.count)).all() == [10]
    assert rows(database, AuditLineRow) == 10
    assert (send(SECRET).status_code, looked) == (202, ["flights"])


@pytest.mark.parametrize(
    ("moment", "body", "status", "said"),
    [
        ("9" * 400, b"{}", 401, "which is no number of seconds"),
        (None, b"[" * 100_000, 422, "the webhook's body is not one of MLflow's"),
    ],
    ids=["a time of hundreds of digits", "lists in lists without end"],
)
def test_signed_webhooks_that_no_registry_sends_are_refused(
    database: Database, tmp_path: Path, moment: str | None, body: bytes, status: int, said: str
) -> None:
    hub, access, _ = make_hub(database, AccessConfig(file=people_file(tmp_path)))
    (tmp_path / "secret").write_text(SECRET)
    (tmp_path / "secret").chmod(0o600)
    config = MlflowConfig(address="http://127.0.0.1:1", webhook_secret_file=tmp_path / "secret")
    looked: list[str] = []
    routers = [lambda _: webhook_router(config, database, looked.append)]
    client = TestClient(create_app(hub, routers, access=access), HERE, raise_server_exceptions=False)
    at = moment or str(int(time.time()))
    made = hmac.new(SECRET.encode(), f"one.{at}.".encode() + body, hashlib.sha256).digest()
    headers = {"x-mlflow-signature": f"v1,{base64.b64encode(made).decode()}", "x-mlflow-delivery-id": "one"}
    answer = client.post(PATH, headers={**headers, "x-mlflow-timestamp": at}, content=body)
    assert answer.status_code == status
    assert said in answer.json()["error"]["message"]
    assert looked == []


def test_sign_ins_at_the_provider_are_begun_so_often_from_one_address(
    database: Database, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "_MOST_BEGUN", 3)
    monkeypatch.setattr(Provider, "address", lambda *_: "https://provider.example/")
    oidc = OidcConfig(issuer="https://provider.example", client_id="hub")
    hub, access, _ = make_hub(database, AccessConfig(file=people_file(tmp_path), oidc=oidc))

    def begin(address: str) -> int:
        client = TestClient(make_app(hub, access), HERE, follow_redirects=False, client=(address, 1))
        return client.get("/sign-in/oidc").status_code

    assert [begin("192.0.2.1") for _ in range(5)] == [303] * 3 + [429] * 2
    assert begin("192.0.2.2") == 303
    assert rows(database, PendingSignInRow) == 4
