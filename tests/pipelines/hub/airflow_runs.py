"""Releases that a real Airflow runs: a hub starts each run once and follows it, though it is killed."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.eventually import eventually
from tests.support.hub.process import HubProcess
from tests.support.orchestrators.airflow_stack import AirflowStack, airflow_stack

_DAG = """
from pathlib import Path
from airflow.sdk import DAG, task

with DAG("release", schedule=None):
    @task
    def release(params=None, dag_run=None):
        conf = dag_run.conf
        if conf["version"] == 3:
            Path("{folder}/waits").touch()
            with open("{folder}/pipe", "rb") as pipe:
                pipe.read()
        if conf["version"] == 2:
            raise RuntimeError("the gates said no")
        Path("{folder}/" + conf["model"] + "-" + str(conf["version"])).touch()

    release()
"""


@pytest.fixture(scope="module")
def airflow(tmp_path_factory: pytest.TempPathFactory) -> Iterator[AirflowStack]:
    home = tmp_path_factory.mktemp("airflow")
    (home / "dags").mkdir()
    (home / "dags" / "release.py").write_text(_DAG.replace("{folder}", str(home)))
    with airflow_stack(home / "home", home / "dags", {}) as stack:
        yield stack


def test_releases_are_runs_of_a_dag(airflow: AirflowStack, tmp_path: Path) -> None:
    folder = airflow.home.parent
    os.mkfifo(folder / "pipe")
    password = tmp_path / "password"
    password.write_text("gate")
    password.chmod(0o600)
    config = f"""
[run]
runner = "airflow"
lease_seconds = 3
[airflow]
url = "{airflow.address}"
user = "admin"
password_file = "{password}"
poll_seconds = 0.5
"""
    with HubProcess(tmp_path / "hub", config) as hub:
        hub.post("/releases", {"model": "m", "version": 1})
        first = hub.over("m", 1, 240)
        assert (first["state"], first["external_run"]) == ("RELEASED", f"tidegate-release-{first['id']}")
        assert f"/dags/release/runs/{first['external_run']}" in first["sentence"]
        hub.post("/releases", {"model": "m", "version": 2})
        second = hub.over("m", 2, 240)
        assert second["state"] == "FAILED"
        assert "is failed" in second["sentence"]
        hub.post("/releases", {"model": "m", "version": 3})
        eventually((folder / "waits").exists, 240)
        hub.kill()
        (folder / "pipe").write_bytes(b"go")
        hub.start()
        third = hub.over("m", 3, 240)
    assert (third["state"], third["attempts"]) == ("RELEASED", 2)
    assert [one["dag_run_id"] for one in airflow.runs("release")] == [
        f"tidegate-release-{one['id']}" for one in (first, second, third)
    ]
    assert {path.name for path in folder.glob("m-*")} == {"m-1", "m-3"}
