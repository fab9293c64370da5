"""What the hub tells Prometheus: counts of what the caller sees, on SQLite and PostgreSQL."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from starlette.testclient import TestClient
from tests.support.hub.access import TOKENS, make_hub, people_file

from tidegate_pipelines.hub.api.metrics import metrics_router
from tidegate_pipelines.hub.app import create_app
from tidegate_pipelines.hub.people_config import AccessConfig
from tidegate_pipelines.hub.service import ROUTERS
from tidegate_pipelines.hub.store import (
    AlertRow,
    Database,
    DeliveryRow,
    EngineRow,
    RegistryRow,
    ReleaseRow,
    ReleaseState,
    ServedVersionRow,
)

NOW = datetime.now(UTC)
HOUR = timedelta(hours=1)


def release(model: str, version: int, state: ReleaseState, hours: int) -> ReleaseRow:
    given = {"source": "api", "requested_by": "ci", "requested_at": NOW - hours * HOUR}
    return ReleaseRow(model=model, version=version, state=state, **given)


@pytest.fixture
def client(database: Database, tmp_path: Path) -> TestClient:
    with database.writing() as session:
        session.add(release("flights", 1, ReleaseState.RELEASED, 9))
        session.add(release("flights", 2, ReleaseState.WAITING, 2))
        session.add(release("spam", 1, ReleaseState.RUNNING, 5))
        about = {"body": "b", "link": "", "since": NOW}
        session.add(AlertRow(key="a", model="flights", severity="warning", title="t", **about))
        session.add(AlertRow(key="b", model="spam", severity="critical", title="t", **about))
        session.add(AlertRow(key="c", model="flights", severity="critical", title="t", resolved_at=NOW, **about))
        session.add(EngineRow(name='so"uth', addresses="x", state="UP", since=NOW, status={}))
        session.add(EngineRow(name="north", addresses="x", state="AWAY", since=NOW, status={}))
        session.add(RegistryRow(name="mlflow", address="x", state="UP", since=NOW))
        served = {"state": "AVAILABLE", "label": "stable", "ordinary": True, "since": NOW, "error": ""}
        session.add(ServedVersionRow(engine="north", model="flights", version=1, **served))
        for age, count in ((1, 3), (24 * 8, 40)):
            given = {"received_at": NOW - age * HOUR, "outcome": "refused", "reason": "stale"}
            session.add(DeliveryRow(id=f"refused/{age}", count=count, **given))
    hub, access, _ = make_hub(database, AccessConfig(file=people_file(tmp_path)))
    return TestClient(create_app(hub, [metrics_router], access=access), "http://127.0.0.1:8600")


def samples(client: TestClient, who: str) -> dict[str, float]:
    answer = client.get("/metrics", headers={"authorization": f"Bearer {TOKENS[who]}"})
    assert (answer.status_code, answer.headers["content-type"]) == (200, "text/plain; version=0.0.4; charset=utf-8")
    lines = answer.text.splitlines()
    told = {line.split()[2] for line in lines if line.startswith("# HELP")}
    assert told == {line.split()[2] for line in lines if line.startswith("# TYPE")}
    found = {}
    for line in lines:
        if not line.startswith("#"):
            name, value = line.rsplit(" ", 1)
            assert re.match(r"\w+", name)[0] in told  # type: ignore[index]
            found[name.removeprefix("tidegate_hub_")] = float(value)
    return found


def test_everything_is_counted_for_whoever_sees_all(client: TestClient) -> None:
    found = samples(client, "anna")
    oldest = found.pop("oldest_release_seconds")
    assert 5 * HOUR <= timedelta(seconds=oldest) <= datetime.now(UTC) - NOW + 5 * HOUR
    assert {name: value for name, value in found.items() if value} == {
        'releases{state="RELEASED"}': 1,
        'releases{state="WAITING"}': 1,
        'releases{state="RUNNING"}': 1,
        'alerts{severity="warning"}': 1,
        'alerts{severity="critical"}': 1,
        'versions{state="AVAILABLE"}': 1,
        'engine_up{engine="so\\"uth"}': 1,
        'registry_up{registry="mlflow"}': 1,
        'refused_webhooks{reason="stale"}': 3,
    }
    assert found['engine_up{engine="north"}'] == 0
    assert found['releases{state="FAILED"}'] == 0, "a state that no release has is told too, for rules"


def test_a_team_counts_its_own_models(client: TestClient) -> None:
    found = samples(client, "ci")
    oldest = timedelta(seconds=found["oldest_release_seconds"])
    assert 2 * HOUR <= oldest <= datetime.now(UTC) - NOW + 2 * HOUR
    assert (found['releases{state="RUNNING"}'], found['releases{state="WAITING"}']) == (0, 1)
    assert (found['alerts{severity="warning"}'], 'alerts{severity="critical"}' in found) == (1, False)


def test_a_stranger_is_told_nothing(client: TestClient) -> None:
    assert client.get("/metrics").status_code == 401


def test_a_hub_has_them() -> None:
    assert metrics_router in ROUTERS
