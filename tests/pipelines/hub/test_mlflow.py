"""Setting an alias in a real MLflow deploys through all gates; what is lost, forged or stale ends as it should."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import TYPE_CHECKING

import httpx
import pytest
from tests.support.eventually import eventually
from tests.support.hub.process import HubProcess
from tests.support.hub.registry import hub_config, register, write_data
from tests.support.neighbours.http_server import http_server
from tests.support.orchestrators.webhooks import delivery
from tests.support.release.world import Endpoints, World, available

if TYPE_CHECKING:
    from mlflow import MlflowClient

pytestmark = pytest.mark.filterwarnings("default")  # MLflow warns of its own typing as it is imported
SECRET = "a secret of the hub's"


@dataclass(frozen=True)
class Team:
    """A registry with two good versions of each model and a third that has learnt the opposite, and a hub over it."""

    hub: HubProcess
    registry: str
    client: MlflowClient

    def tags(self, model: str, version: int) -> dict[str, str]:
        return dict(self.client.get_model_version(model, str(version)).tags)

    def aliases(self, model: str) -> dict[str, str]:
        return dict(self.client.get_registered_model(model).aliases)


@pytest.fixture(scope="module")
def team(
    mlflow_address: str, world: World, endpoints: Endpoints, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Team]:
    import mlflow

    folder = tmp_path_factory.mktemp("hub")
    write_data(folder)
    register(mlflow_address, "tides", "polled", "guarded", "forged", "anew")
    (folder / "secret").write_text(SECRET)
    (folder / "secret").chmod(0o600)
    registry = f'address = "{mlflow_address}"\nwebhook_secret_file = "{folder}/secret"\npoll_seconds = 5'
    config = hub_config(world, endpoints.control, folder, registry)
    client = mlflow.MlflowClient(mlflow_address)
    with HubProcess(folder, config) as hub:
        client.create_webhook(
            name="hub", url=f"{hub.url}/hooks/mlflow", secret=SECRET, events=["model_version_alias.created"]
        )
        yield Team(hub, mlflow_address, client)
    mlflow.set_tracking_uri("")


def test_an_alias_deploys_a_version_and_the_registry_is_told(team: Team, endpoints: Endpoints) -> None:
    team.client.set_registered_model_alias("tides", "candidate", "1")
    released = team.hub.over("tides", 1)
    assert (released["state"], released["source"]) == ("RELEASED", "mlflow"), released["sentence"]
    assert available(endpoints, "tides") == [1]
    eventually(lambda: team.aliases("tides").get("serving") == "1")
    eventually(lambda: team.tags("tides", 1).get("tidegate.serving") == "true")
    tags = team.tags("tides", 1)
    assert (tags["tidegate.state"], tags["tidegate.allowed"], tags["tidegate.outcome"]) == ("RELEASED", "true", "PASS")
    assert tags["tidegate.report"] == f"{team.hub.url}/releases/{released['id']}"
    team.client.set_registered_model_alias("tides", "candidate", "2")
    assert team.hub.over("tides", 2)["state"] == "RELEASED"
    assert available(endpoints, "tides") == [2]
    eventually(lambda: team.tags("tides", 1).get("tidegate.serving") == "false")
    assert team.aliases("tides") == {"candidate": "2", "serving": "2"}
    assert team.hub.get("/deliveries")["accepted"] >= 2


def test_what_a_gate_refuses_is_told_and_loses_nothing(team: Team, endpoints: Endpoints) -> None:
    team.client.set_registered_model_alias("guarded", "candidate", "1")
    assert team.hub.over("guarded", 1)["state"] == "RELEASED"
    team.client.set_registered_model_alias("guarded", "candidate", "3")
    refused = team.hub.over("guarded", 3)
    assert refused["state"] == "REFUSED"
    assert "refused by the quality gate" in refused["sentence"]
    eventually(lambda: team.tags("guarded", 3).get("tidegate.state") == "REFUSED")
    tags = team.tags("guarded", 3)
    assert (tags["tidegate.allowed"], tags["tidegate.sentence"]) == ("false", refused["sentence"])
    assert "tidegate.serving" not in tags
    assert team.aliases("guarded") == {"candidate": "3", "serving": "1"}
    assert available(endpoints, "guarded") == [1]


def test_a_change_whose_message_was_lost_is_found(team: Team, endpoints: Endpoints) -> None:
    """The registry's database, written by a client that goes past the server, sends nothing."""
    webhooks = [one.webhook_id for one in team.client.list_webhooks()]
    for one in webhooks:
        team.client.update_webhook(one, status="DISABLED")
    try:
        eventually(lambda: all(str(one.status).endswith("DISABLED") for one in team.client.list_webhooks()))
        team.client.set_registered_model_alias("polled", "candidate", "2")
        assert team.hub.over("polled", 2)["state"] == "RELEASED"
    finally:
        for one in webhooks:
            team.client.update_webhook(one, status="ACTIVE")
    assert available(endpoints, "polled") == [2]


def test_messages_that_are_forged_stale_or_torn_do_nothing_and_are_counted(team: Team) -> None:
    url = f"{team.hub.url}/hooks/mlflow"
    event = {"entity": "model_version_alias", "action": "created", "data": {"name": "forged", "version": "3"}}

    def send(secret: str = SECRET, *, away: float = 0.0, change: bytes = b"", body: bytes | None = None) -> int:
        headers, signed = delivery(event, secret, away_seconds=away, body=body)
        return httpx.post(url, headers=headers, content=signed + change, timeout=30, trust_env=False).status_code

    before = team.hub.get("/deliveries")["refused"]
    assert send("another secret") == 401
    assert send(change=b" ") == 401, "a body that is not what its signature says"
    assert send(away=-310.0) == 401
    assert send(away=310.0) == 401
    assert send(body=b"[") == 422
    assert send(body=json.dumps({"entity": "x", "action": "y", "data": {}}).encode()) == 422
    assert send(body=b" " * 1_000_001) == 413
    assert httpx.post(url, content=b"{}", trust_env=False).status_code == 401
    after = team.hub.get("/deliveries")["refused"]
    counted = {reason: after[reason] - before.get(reason, 0) for reason in after}
    assert counted == {"unauthenticated": 3, "stale": 2, "invalid_input": 2, "resource_exhausted": 1}
    headers, body = delivery(event, SECRET)
    answers = [httpx.post(url, headers=headers, content=body, trust_env=False).json() for _ in range(2)]
    assert answers == [{"outcome": "accepted"}, {"outcome": "duplicate"}]
    assert send(body=json.dumps({**event, "data": {"name": "a/<b>'\"", "version": "1"}}).encode()) == 202
    assert send() == 202
    eventually(lambda: not team.hub.get("/releases", model="forged"))
    assert team.hub.get("/releases", model="forged") == [], "no alias is set, whatever a message says"
    assert team.hub.get("/releases", model="a/<b>'\"") == []


def test_a_version_registered_anew_under_a_number_that_serves_is_no_release_of_it(
    team: Team, endpoints: Endpoints
) -> None:
    team.client.set_registered_model_alias("anew", "candidate", "1")
    assert team.hub.over("anew", 1)["state"] == "RELEASED"
    eventually(lambda: team.aliases("anew").get("serving") == "1")
    sources = [str(team.client.get_model_version("anew", number).source) for number in ("2", "1")]
    team.client.delete_registered_model("anew")
    team.client.create_registered_model("anew")
    for source in sources:
        team.client.create_model_version("anew", source, model_id=source.removeprefix("models:/"))
    team.client.set_registered_model_alias("anew", "candidate", "1")
    eventually(lambda: len(team.hub.get("/releases", model="anew")) == 2)
    anew = team.hub.over("anew", 1)
    assert (anew["state"], anew["stage"]) == ("FAILED", "fetch")
    assert "anew/1 is published already with other files" in anew["sentence"]
    eventually(lambda: team.tags("anew", 1).get("tidegate.state") == "FAILED")
    assert team.aliases("anew") == {"candidate": "1"}
    team.client.set_registered_model_alias("anew", "candidate", "2")
    assert team.hub.over("anew", 2)["state"] == "RELEASED"
    assert available(endpoints, "anew") == [2]


def test_a_hub_that_was_away_finds_what_happened_meanwhile(team: Team, endpoints: Endpoints) -> None:
    team.client.set_registered_model_alias("forged", "candidate", "1")
    assert team.hub.over("forged", 1)["state"] == "RELEASED"
    team.hub.kill()
    team.client.set_registered_model_alias("forged", "candidate", "2")
    team.hub.start()
    assert team.hub.over("forged", 2)["state"] == "RELEASED"
    assert [one["version"] for one in team.hub.get("/releases", model="forged")] == [2, 1]
    assert available(endpoints, "forged") == [2]


class _Faulty(BaseHTTPRequestHandler):
    """A registry that answers 500."""

    def do_GET(self) -> None:
        self.send_response(500)
        self.end_headers()


def test_a_registry_that_answers_500_is_away_since_then_and_nothing_else_stops(tmp_path: Path) -> None:
    with http_server(_Faulty) as address:
        config = f'[mlflow]\naddress = "http://{address}"\npoll_seconds = 0.2\n'
        with HubProcess(tmp_path, config) as hub:
            eventually(lambda: [one["state"] for one in hub.get("/registries")] == ["AWAY"])
            (registry,) = hub.get("/registries")
            assert "registered-models/search with 500" in registry["problem"]
            assert hub.get("/releases") == []
