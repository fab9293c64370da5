"""Releases that ran without the hub are told to it once they are over; what the gates said it reads itself."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from starlette.testclient import TestClient
from tests.support.hub.access import TOKENS, make_hub, people_file
from tests.support.models.versions import Validator, digest_of, make_validator, publish

from tidegate_operators.steps.canary import write_result
from tidegate_pipelines.hub.api import api_router
from tidegate_pipelines.hub.app import create_app
from tidegate_pipelines.hub.audit import AuditLog
from tidegate_pipelines.hub.config import ReleaseConfig
from tidegate_pipelines.hub.people_config import AccessConfig
from tidegate_pipelines.hub.store import Database, FeatureProfileRow, ModelRow, VerdictRow
from tidegate_serving.admission import Outcome
from tidegate_validation.canary.judgement import CanaryResult
from tidegate_validation.canary.numbers import CanaryNumbers

BEGUN = datetime.now(UTC) - timedelta(minutes=1)


@pytest.fixture
def validator(tmp_path: Path) -> Validator:
    return make_validator(tmp_path)


@pytest.fixture
def client(database: Database, tmp_path: Path) -> TestClient:
    config = AccessConfig(file=people_file(tmp_path))
    hub, access, _ = make_hub(database, config, releases=ReleaseConfig(repository=tmp_path / "models"))
    app = create_app(hub, [api_router], access=access)
    return TestClient(app, "http://127.0.0.1:8600", headers={"authorization": f"Bearer {TOKENS['ci']}"})


def told(**changes: Any) -> dict[str, Any]:
    ended = BEGUN + timedelta(minutes=2)
    stages = [{"name": "validate", "at": BEGUN.isoformat()}, {"name": "push", "at": ended.isoformat()}]
    document = {"model": "flights", "version": 1, "succeeded": True, "key": "run-1", "run": "dag run 1"}
    return document | {"begun": BEGUN.isoformat(), "ended": ended.isoformat(), "stages": stages} | changes


def keep(client: TestClient, **changes: Any) -> dict[str, Any]:
    answer = client.post("/api/v1/releases/elsewhere", json=told(**changes))
    assert answer.status_code == 201, answer.text
    found: dict[str, Any] = answer.json()
    return found


def events(client: TestClient, release: dict[str, Any]) -> list[tuple[str, str]]:
    return [(one["stage"], one["kind"]) for one in client.get(f"/api/v1/releases/{release['id']}/events").json()]


def test_a_release_is_kept_once_with_the_verdict_that_it_left(
    client: TestClient, database: Database, validator: Validator, tmp_path: Path
) -> None:
    directory = publish(tmp_path / "models", "flights", 1)
    validator.sign(directory)
    numbers = CanaryNumbers(shadowed=120, compared=100)
    write_result(directory, CanaryResult(Outcome.PASS, "The canary did well.", numbers), digest_of(directory))
    kept = keep(client)
    assert (kept["state"], kept["source"], kept["external_run"]) == ("RELEASED", "elsewhere", "dag run 1")
    assert (kept["sentence"], kept["digest"]) == ("It is as good as the one before.", digest_of(directory))
    found = events(client, kept)
    assert found[0] == ("", "state")
    assert [one for one in found if one[1] == "finding"] == [("validate", "finding"), ("canary", "finding")]
    assert found[-1][1] == "state"
    assert keep(client)["id"] == kept["id"]
    with database.reading() as session:
        assert session.get_one(ModelRow, "flights").last_release == kept["id"]
        assert len(session.scalars(select(VerdictRow)).all()) == 1


def test_a_no_of_the_gates_or_the_canary_is_a_refusal_and_everything_else_a_failure(
    client: TestClient, validator: Validator, tmp_path: Path
) -> None:
    validator.sign(publish(tmp_path / "models", "flights", 2), allowed=False)
    refused = keep(client, version=2, key="2", succeeded=False, sentence="task validate failed")
    assert (refused["state"], refused["sentence"]) == ("REFUSED", "It is worse than the one before.")
    directory = publish(tmp_path / "models", "flights", 3)
    validator.sign(directory)
    write_result(directory, CanaryResult(Outcome.FAIL, "The canary is worse.", CanaryNumbers()), digest_of(directory))
    outdone = keep(client, version=3, key="3", succeeded=False, sentence="The canary is worse.")
    assert (outdone["state"], outdone["sentence"]) == ("REFUSED", "The canary is worse.")
    directory = publish(tmp_path / "models", "flights", 5)
    validator.sign(directory)
    write_result(directory, CanaryResult(Outcome.ERROR, "It was pinned.", CanaryNumbers()), digest_of(directory))
    assert keep(client, version=5, key="5", succeeded=False, sentence="It was pinned.")["state"] == "FAILED"
    failed = keep(client, version=4, key="4", succeeded=False, sentence="the engine was away")
    assert (failed["state"], failed["sentence"], failed["directory"]) == ("FAILED", "the engine was away", "")


def test_a_verdict_of_an_earlier_release_is_not_this_ones(
    client: TestClient, validator: Validator, tmp_path: Path
) -> None:
    validator.sign(publish(tmp_path / "models", "flights", 1), allowed=False)
    later = datetime.now(UTC) + timedelta(minutes=1)
    kept = keep(client, begun=later.isoformat(), ended=later.isoformat(), succeeded=False, sentence="no evidence")
    assert (kept["state"], kept["sentence"]) == ("FAILED", "no evidence")


@pytest.mark.parametrize(
    ("changes", "status", "said"),
    [
        ({"model": "spam"}, 404, "there is no model 'spam'"),
        ({"model": "flights/../x"}, 422, "flights/../x"),
        ({"version": 0}, 422, "use 1 or more"),
        ({"ended": "2020-01-01T00:00:00Z"}, 422, "lies before begun"),
        ({"stages": [{"name": "think", "at": "2026-01-01T00:00:00Z"}]}, 422, "use fetch, validate"),
    ],
)
def test_what_cannot_be_is_refused(client: TestClient, changes: dict[str, Any], status: int, said: str) -> None:
    answer = client.post("/api/v1/releases/elsewhere", json=told(**changes))
    assert (answer.status_code, said in answer.json()["error"]["message"]) == (status, True), answer.text
    looks = {"authorization": f"Bearer {TOKENS['anna']}"}
    assert client.post("/api/v1/releases/elsewhere", json=told(), headers=looks).status_code == 403


def test_a_release_that_is_not_over_yet_is_told_later(client: TestClient) -> None:
    ended = (datetime.now(UTC) + timedelta(hours=1)).isoformat()
    answer = client.post("/api/v1/releases/elsewhere", json=told(ended=ended))
    assert answer.status_code == 422
    assert "ahead of the hub's clock: tell a release once it is over" in answer.json()["error"]["message"]
    assert client.get("/api/v1/releases").json() == []


SKEW = {
    "format": "tidegate.skew-report/1",
    "model": "flights",
    "version": 1,
    "since": "2026-05-01T00:00:00+00:00",
    "until": "2026-05-02T00:00:00+00:00",
    "rows": 100,
    "outcome": "PASS",
    "sentence": "as in training",
    "findings": [],
    "shares": {"x": {"labels": ["low"], "reference": [1.0], "current": [1.0]}},
}


@pytest.mark.parametrize(
    ("path", "body", "listed"),
    [
        ("releases", {"model": "flights", "version": 1, "key": "k"}, "releases"),
        ("releases/elsewhere", told(), "releases"),
        ("skew", SKEW, "skew?model=flights"),
    ],
)
def test_what_is_kept_and_its_line_in_the_audit_log_are_there_both_or_neither(
    client: TestClient,
    database: Database,
    monkeypatch: pytest.MonkeyPatch,
    path: str,
    body: dict[str, Any],
    listed: str,
) -> None:
    def killed(*_: Any) -> None:
        raise RuntimeError("a hub that ends now")

    with monkeypatch.context() as patched:
        patched.setattr(AuditLog, "add", killed)
        with pytest.raises(RuntimeError, match="ends now"):
            client.post(f"/api/v1/{path}", json=body)
    with database.reading() as session:
        assert session.scalars(select(FeatureProfileRow)).all() == []
    assert client.get(f"/api/v1/{listed}").json() == []
    assert client.post(f"/api/v1/{path}", json=body).status_code == 201
    assert [one["version"] for one in client.get(f"/api/v1/{listed}").json()] == [1]
    (line,) = AuditLog(database).lines()
    assert (line.act.outcome.value, line.act.thing.partition(":")[0]) == ("done", "model flights")


def test_a_report_that_a_token_may_not_send_is_in_the_audit_log(client: TestClient, database: Database) -> None:
    assert client.post("/api/v1/skew", json={**SKEW, "model": "spam"}).status_code == 404
    (line,) = AuditLog(database).lines()
    assert (line.act.thing, line.act.action, line.act.outcome.value) == ("model spam", "keep skew report", "refused")
