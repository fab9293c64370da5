"""Releases as Kubeflow runs, by its own client against a server that speaks its API: each started once and followed."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from tests.support.eventually import eventually
from tests.support.neighbours.http_server import http_server

from tidegate_pipelines.hub.config import HubConfig, KubeflowConfig, RunConfig, Runner
from tidegate_pipelines.hub.releases.follow import Follower
from tidegate_pipelines.hub.releases.kubeflow_runs import KubeflowRuns
from tidegate_pipelines.hub.releases.requests import Request, request_release
from tidegate_pipelines.hub.store import Database, ReleaseRow
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, Unauthenticated, Unavailable

PACKAGE = Path(__file__).parents[3] / "pipelines/tidegate_pipelines/compiled/release.yaml"
_API = "/apis/v2beta1"


class Kubeflow:
    """Experiments and runs as the API server of Kubeflow Pipelines keeps them, over HTTP. `states` are those that a run
    goes through, one at each look; `fault` is the status that everything answers with instead, and
    `only_token` the one that counts, where one is set."""

    def __init__(self) -> None:
        self.experiments: list[dict[str, Any]] = []
        self.runs: list[dict[str, Any]] = []
        self.states = ["PENDING", "RUNNING", "SUCCEEDED"]
        self.fault = 0
        self.tokens: set[str] = set()
        self.only_token = ""
        server = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                self._answer(server.get(*self._place()))

            def do_POST(self) -> None:
                body = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
                self._answer(server.post(self._place()[0], body))

            def _place(self) -> tuple[str, dict[str, str]]:
                server.tokens.add(self.headers.get("Authorization", ""))
                split = urlsplit(self.path)
                return split.path.removeprefix(_API), {k: v[0] for k, v in parse_qs(split.query).items()}

            def _answer(self, found: dict[str, Any] | None) -> None:
                wrong = server.only_token and self.headers.get("Authorization") != server.only_token
                status = 401 if wrong else server.fault or (200 if found is not None else 404)
                data = json.dumps(found if status == 200 else {"error": "x", "message": "not so"}).encode()
                self.send_response(status)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(data)))
                self.end_headers()
                self.wfile.write(data)

        self.handler = Handler
        self.url = ""

    def get(self, path: str, query: dict[str, str]) -> dict[str, Any] | None:
        if path == "/healthz":
            return {"multi_user": False}
        if path == "/experiments":
            return {"experiments": self._named(self.experiments, query)}
        if path == "/runs":
            return {"runs": self._named(self.runs, query)}
        found = next((run for run in self.runs if path == f"/runs/{run['run_id']}"), None)
        if found is not None:
            found["state"] = self.states[min(found["looks"], len(self.states) - 1)]
            found["looks"] += 1
        return found

    def post(self, path: str, body: dict[str, Any]) -> dict[str, Any]:
        kept = {"/experiments": self.experiments, "/runs": self.runs}[path]
        kept.append({**body, path[1:-1] + "_id": f"{path[1:-1]}-{len(kept) + 1}", "looks": 0})
        return kept[-1]

    @staticmethod
    def _named(kept: list[dict[str, Any]], query: dict[str, str]) -> list[dict[str, Any]]:
        names = [one["stringValue"] for one in json.loads(query.get("filter", '{"predicates": []}'))["predicates"]]
        return [one for one in kept if not names or one["display_name"] in names]


@contextmanager
def served() -> Iterator[Kubeflow]:
    server = Kubeflow()
    with http_server(server.handler) as address:
        server.url = f"http://{address}"
        yield server


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))  # Its client looks for a context there.


@pytest.fixture
def kubeflow() -> Iterator[Kubeflow]:
    with served() as server:
        yield server


def config(kubeflow: Kubeflow, folder: Path) -> HubConfig:
    token = folder / "token"
    token.write_text("hush")
    token.chmod(0o600)
    given = {"directory": "{directory}", "held_out": "june.parquet", "timeout": 60.0, "control": "{model}"}
    settings = KubeflowConfig(url=kubeflow.url, package=PACKAGE, parameters=given, token_file=token)
    run = RunConfig(runner=Runner.KUBEFLOW, lease_seconds=5.0)
    return HubConfig(directory=folder, run=run, kubeflow=settings)


def ask(database: Database, version: int = 3) -> int:
    with database.writing() as session:
        return request_release(database, session, Request("flights", version, "api", "anna")).id


def row(database: Database, number: int) -> ReleaseRow:
    with database.reading() as session:
        return session.get_one(ReleaseRow, number)


def test_a_release_is_a_run_that_is_followed_to_its_end(kubeflow: Kubeflow, database: Database, tmp_path: Path) -> None:
    found = config(kubeflow, tmp_path)
    follower = Follower(found, database, "one", KubeflowRuns(found), lambda release: "", 0.05)
    follower.start()
    try:
        number = ask(database)
        eventually(lambda: row(database, number).state == "RELEASED", 60)
        kubeflow.states = ["RUNNING", "FAILED"]
        other = ask(database, 4)
        eventually(lambda: row(database, other).state == "FAILED", 60)
    finally:
        follower.stop()
    assert row(database, number).external_run == "run-1"
    assert f"{kubeflow.url}/#/runs/details/run-1" in row(database, number).sentence
    assert [one["display_name"] for one in kubeflow.experiments] == ["tidegate"]
    first = kubeflow.runs[0]
    assert (first["display_name"], first["experiment_id"]) == (f"tidegate-release-{number}", "experiment-1")
    assert first["pipeline_spec"]["pipelineInfo"]["name"]
    assert first["runtime_config"]["parameters"] == {
        "directory": f"{tmp_path}/models/flights/3",
        "held_out": "june.parquet",
        "timeout": 60.0,
        "control": "flights",
    }
    assert kubeflow.tokens == {"Bearer hush"}


def test_a_run_that_was_started_before_a_crash_is_found_again(
    kubeflow: Kubeflow, database: Database, tmp_path: Path
) -> None:
    number = ask(database)
    started = [KubeflowRuns(config(kubeflow, tmp_path)).start(row(database, number)) for _ in range(2)]
    assert (started, len(kubeflow.runs)) == (["run-1", "run-1"], 1)


@pytest.mark.parametrize(
    ("status", "error"), [(500, Unavailable), (429, Unavailable), (404, FailedPrecondition), (401, Unauthenticated)]
)
def test_what_kubeflow_refuses_is_said(kubeflow: Kubeflow, tmp_path: Path, status: int, error: type[Exception]) -> None:
    runs = KubeflowRuns(config(kubeflow, tmp_path))
    with pytest.raises(FailedPrecondition, match="404"):
        runs.ended("run-9")
    kubeflow.fault = status
    with pytest.raises(error, match=f"answers with {status}: not so"):
        runs.ended("run-9")


def test_a_kubeflow_that_is_away_is_waited_for(tmp_path: Path) -> None:
    with served() as kubeflow:
        runs = KubeflowRuns(config(kubeflow, tmp_path))
        with pytest.raises(FailedPrecondition):
            runs.ended("run-9")
    with pytest.raises(Unavailable, match="does not answer"):
        runs.ended("run-9")


def test_a_runner_without_a_pipeline_is_refused() -> None:
    with pytest.raises(InvalidInput, match=r"package under \[kubeflow\]"):
        HubConfig(run=RunConfig(runner=Runner.KUBEFLOW))


def test_a_token_that_was_replaced_meanwhile_is_read_again(kubeflow: Kubeflow, tmp_path: Path) -> None:
    settings = config(kubeflow, tmp_path)
    runs = KubeflowRuns(settings)
    kubeflow.states = ["RUNNING"]
    kubeflow.runs.append({"run_id": "run-1", "looks": 0})
    assert runs.ended("run-1") is None
    kubeflow.only_token = "Bearer new"
    assert settings.kubeflow.token_file is not None
    settings.kubeflow.token_file.write_text("new")
    assert runs.ended("run-1") is None
