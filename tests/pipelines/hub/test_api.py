"""The hub's routes for programs, on a hub as a process over a made-up history, and on a real engine."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import httpx
import numpy as np
import pytest
from tests.support.eventually import eventually
from tests.support.hub.history import Size, make_history
from tests.support.hub.process import HubProcess
from tests.support.release.world import EXAMPLE, Endpoints, World, serve_first

from tidegate_pipelines.hub.store import Database
from tidegate_serving.client import Client

SIZE = Size(models=3, days=3, features=4, until=datetime(2026, 6, 1, tzinfo=UTC))


@pytest.fixture(scope="module")
def hub(world: World, endpoints: Endpoints, tmp_path_factory: pytest.TempPathFactory) -> Iterator[HubProcess]:
    """A hub with a history, that watches a real engine and is asked for releases of its world."""
    folder = tmp_path_factory.mktemp("hub")
    config = f"""
watch_seconds = 0.2
skew_reports = "{folder}/skew"
[engines.one]
control = "{endpoints.control}"
[releases]
held_out = "{world.held_out}"
private_key = "{world.private_key}"
repository = "{world.repository}"
policy = "{world.policy("quality")}"
canary = false
"""
    (folder / "hub").mkdir()
    database = Database(f"sqlite:///{folder}/hub/hub.db")
    make_history(database, SIZE)
    database.close()
    with HubProcess(folder, config) as process:
        yield process


def error_of(answer: httpx.Response) -> tuple[int, str, str]:
    error = answer.json()["error"]
    return answer.status_code, error["code"], error["message"]


def test_a_release_is_asked_for_and_looked_at(hub: HubProcess, world: World) -> None:
    world.publish(1, name="posted")
    asked = {"model": "posted", "version": 1, "reason": "because", "key": "once"}
    first, again = hub.post("/releases", asked), hub.post("/releases", asked)
    assert (first.status_code, again.json()["id"]) == (201, first.json()["id"])
    found = hub.over("posted", 1)
    assert (found["state"], found["source"], found["requested_by"]) == ("RELEASED", "api", "local")
    events = hub.get(f"/releases/{found['id']}/events")
    assert [one["text"] for one in events if one["kind"] == "stage"] == ["fetch", "validate", "push", "promote"]
    (verdict,) = hub.get("/verdicts", model="posted")
    whole = hub.get(f"/verdicts/{verdict['digest']}")["document"]
    assert (whole["allowed"], whole["manifest_digest"]) == (True, found["digest"])
    told = [line.partition(" INFO ")[2] for line in hub.said().splitlines() if f"release {found['id']} " in line]
    steps = [f"release {found['id']} of posted:1: {step}" for step in ("fetch", "validate", "push", "promote")]
    assert [line.partition(" ")[2] for line in told] == [
        *steps,
        f"release {found['id']} is RELEASED: {found['sentence']}",
    ]


def test_what_an_engine_serves_and_is_asked_is_there(hub: HubProcess, world: World, endpoints: Endpoints) -> None:
    serve_first(endpoints, world, "watched")
    eventually(lambda: any(one["name"] == "watched" for one in hub.get("/models")))
    with Client(endpoints.grpc) as client:
        for _ in range(7):
            client.predict("watched", {"x": np.array([0.5], "f4"), "kind": np.array([b"a"], dtype=object)})
    eventually(lambda: sum(one["requests"] for one in hub.get("/traffic", model="watched")) == 7)
    took = [(one["p50"], one["p99"]) for one in hub.get("/traffic", model="watched")]
    assert all(0 < p50 <= p99 < 60 for p50, p99 in took), took
    (served,) = hub.get("/models/watched")["served"]
    assert (served["engine"], served["state"], served["label"], served["ordinary"]) == (
        "one",
        "AVAILABLE",
        "stable",
        True,
    )
    (engine,) = [one for one in hub.get("/engines") if one["name"] == "one"]
    assert (engine["state"], engine["problem"]) == ("UP", "")
    assert set(EXAMPLE) == {"x", "kind"}


def test_the_newest_come_first_page_by_page(hub: HubProcess) -> None:
    first = hub.get("/releases", model="model-0001", limit=5)
    rest = hub.get("/releases", model="model-0001", before=first[-1]["id"], limit=500)
    ids = [one["id"] for one in first + rest]
    assert ids == sorted(ids, reverse=True)
    assert len(ids) == len(set(ids)) == SIZE.releases_per_model
    refused = hub.get("/releases", state="REFUSED", limit=500)
    assert {one["state"] for one in refused} == {"REFUSED"}


def test_skew_is_kept_once_from_reports_that_are_sent_or_lie_in_the_folder(hub: HubProcess, tmp_path: Path) -> None:
    assert len(hub.get("/skew", model="model-0002", feature="feature_01")) == SIZE.days
    finding = {"check": "skew", "subject": "x", "outcome": "FAIL", "sentence": "x: twice as large", "number": 0.4}
    report: dict[str, Any] = {
        "format": "tidegate.skew-report/1",
        "model": "sent",
        "version": 1,
        "since": "2026-05-01T00:00:00+00:00",
        "until": "2026-05-02T00:00:00+00:00",
        "rows": 100,
        "outcome": "FAIL",
        "sentence": "1 feature differs",
        "findings": [finding, {**finding, "outcome": "WARN", "sentence": "x: a little"}],
    }
    assert hub.post("/skew", report).json() == {"kept": 2}
    assert hub.post("/skew", report).json() == {"kept": 0}
    kept = {one["feature"]: one for one in hub.get("/skew", model="sent")}
    assert (kept["x"]["state"], kept["x"]["effect"], kept["x"]["cause"]) == ("FAIL", 0.4, "x: twice as large")
    folder = hub.folder / "skew" / "2026-05-03T000000Z"
    folder.mkdir(parents=True)
    later = {**report, "since": report["until"], "until": "2026-05-03T00:00:00+00:00"}
    (folder / "skew.json").write_text(json.dumps(later))
    (hub.folder / "skew" / "torn").mkdir()
    (hub.folder / "skew" / "torn" / "skew.json").write_text("{")
    eventually(lambda: len(hub.get("/skew", model="sent", feature="x")) == 2)
    assert error_of(hub.post("/skew", {**report, "until": None}))[:2] == (422, "invalid_input")


@pytest.mark.parametrize(
    ("body", "status", "said"),
    [
        ({"model": "../etc", "version": 1}, 422, "../etc"),
        ({"model": "<script>alert(1)</script>", "version": 1}, 422, "<script>"),
        ({"model": "m", "version": 0}, 422, "use 1 or more"),
        ({"model": "m", "version": 1, "settings": {"held_outt": "x"}}, 422, "did you mean held_out?"),
        ({"model": "m", "version": 2**70}, 422, "whole numbers below 2^63"),
        ({"model": "m", "version": 1, "modle": "n"}, 422, "modle is not known here"),
    ],
)
def test_a_bad_request_is_refused_with_its_cure(hub: HubProcess, body: dict[str, Any], status: int, said: str) -> None:
    answer = hub.post("/releases", body)
    assert error_of(answer)[:2] == (status, "invalid_input")
    assert said in error_of(answer)[2]
    assert answer.headers["content-type"] == "application/json"


def test_a_body_that_cannot_be_read_is_bad_input(hub: HubProcess) -> None:
    headers = {"content-type": "application/json"}
    answer = httpx.post(f"{hub.url}/api/v1/releases", content=b'{"model": "\xff"}', headers=headers, trust_env=False)
    assert error_of(answer)[:2] == (400, "invalid_input")
    assert "see /api/openapi.json" in error_of(answer)[2]


def test_labels_of_no_model_are_asked_for_one(hub: HubProcess) -> None:
    assert error_of(hub.post("/labels", {"request_id": "r", "label": 1})) == (
        422,
        "invalid_input",
        "the labels are of no model: name it, ?model=NAME or the form's `model`",
    )


def test_what_is_not_there_is_said(hub: HubProcess) -> None:
    for path in ("/releases/99999", "/releases/99999/events", "/models/none", "/verdicts/none"):
        answer = httpx.get(f"{hub.url}/api/v1{path}", trust_env=False)
        assert error_of(answer)[:2] == (404, "not_found"), path


def test_a_release_that_is_over_cannot_be_cancelled(hub: HubProcess) -> None:
    release = hub.get("/releases", model="model-0000")[0]["id"]
    answer = hub.post(f"/releases/{release}/cancel", {"reason": "too late"})
    assert error_of(answer)[:2] == (409, "conflict")


def test_events_come_as_they_happen_and_go_on_where_a_client_left(hub: HubProcess, world: World) -> None:
    world.publish(1, name="live")
    with httpx.stream("GET", f"{hub.url}/api/v1/events", timeout=60, trust_env=False) as answer:
        assert answer.headers["content-type"].startswith("text/event-stream")
        lines = answer.iter_lines()
        assert next(lines) == "retry: 1000"
        hub.post("/releases", {"model": "live", "version": 1})
        first = _events(lines, 2)
    after = {"Last-Event-ID": str(first[0]["id"])}
    with httpx.stream("GET", f"{hub.url}/api/v1/events", headers=after, timeout=60, trust_env=False) as answer:
        again = _events(answer.iter_lines(), 3)
    assert [one["data"].get("state") for one in first] == ["REQUESTED", "RUNNING"]
    assert again[0] == first[1]
    assert [one["id"] for one in again] == sorted(one["id"] for one in again)
    wrong = httpx.get(f"{hub.url}/api/v1/events", headers={"Last-Event-ID": "-1"}, trust_env=False)
    assert error_of(wrong)[:2] == (422, "invalid_input")
    hub.over("live", 1)


def _events(lines: Iterator[str], count: int) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = []
    for line in lines:
        if line.startswith("data: "):
            found.append(json.loads(line.removeprefix("data: ")))
            if len(found) == count:
                return found
    raise AssertionError("the stream ended")


def test_the_description_of_all_routes_needs_nothing_from_elsewhere(hub: HubProcess) -> None:
    described = httpx.get(f"{hub.url}/api/openapi.json", trust_env=False).json()
    assert {"/api/v1/releases", "/api/v1/models", "/api/v1/events", "/api/v1/skew"} <= described["paths"].keys()
    assert httpx.get(f"{hub.url}/health", trust_env=False).json() == {"status": "ok"}


def test_a_hub_without_any_set_up_starts_and_stops(tmp_path: Path) -> None:
    hub = HubProcess(tmp_path)
    hub.config.write_text(f'directory = "{tmp_path}/hub"\n')
    with hub:
        assert hub.get("/releases") == []
        eventually(lambda: [one["state"] for one in hub.get("/engines")] == ["AWAY"])
        (engine,) = hub.get("/engines")
        assert "127.0.0.1:8502" in engine["problem"]
        assert (tmp_path / "hub" / "keys" / "validator.key").stat().st_mode & 0o077 == 0
        assert hub.stop() == 0
