"""A whole Airflow on this machine: API server, scheduler, DAG processor and triggerer, on SQLite in one folder."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tests.support.eventually import eventually

from tidegate_flights.airflow_runner import private_environment

_PARTS = ("api-server", "scheduler", "dag-processor", "triggerer")
_USER = "admin"
_PASSWORD = "gate"


@dataclass(frozen=True)
class AirflowStack:
    """Where it answers, and the token of its one user."""

    address: str
    token: str
    home: Path

    def ask(self, path: str, body: Mapping[str, Any] | None = None, method: str | None = None) -> dict[str, Any]:
        """The answer of the REST interface to a signed-in user."""
        status, data = fetch(f"{self.address}{path}", self.token, body, method)
        assert status < 300, (path, status, data)
        found: dict[str, Any] = json.loads(data)
        return found

    def runs(self, dag: str) -> list[dict[str, Any]]:
        """The runs of a DAG, oldest first."""
        found = self.ask(f"/api/v2/dags/{dag}/dagRuns?order_by=run_after")["dag_runs"]
        return list(found)

    def tasks(self, dag: str, run: str) -> dict[str, str]:
        """The state of each task of a run."""
        found = self.ask(f"/api/v2/dags/{dag}/dagRuns/{run}/taskInstances")["task_instances"]
        return {one["task_id"]: one["state"] for one in found}

    def start(self, dag: str, conf: Mapping[str, Any]) -> str:
        """Starts a run; its id."""
        return str(self.ask(f"/api/v2/dags/{dag}/dagRuns", {"logical_date": None, "conf": dict(conf)})["dag_run_id"])

    def wait(self, dag: str, run: str, seconds: float = 240.0) -> dict[str, str]:
        """Waits until a run has ended; the states of its tasks."""

        def ended() -> bool:
            return self.ask(f"/api/v2/dags/{dag}/dagRuns/{run}")["state"] in ("success", "failed")

        eventually(ended, seconds)
        return self.tasks(dag, run)


def fetch(
    address: str, token: str | None = None, body: Mapping[str, Any] | None = None, method: str | None = None
) -> tuple[int, bytes]:
    """Status and body of an answer."""
    headers = {"Content-Type": "application/json", **({"Authorization": f"Bearer {token}"} if token else {})}
    data = None if body is None else json.dumps(body).encode()
    request = urllib.request.Request(address, data, headers, method=method)
    try:
        with urllib.request.urlopen(request, timeout=120) as answer:
            return int(answer.status), bytes(answer.read())
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read()


def _free_ports(count: int) -> list[int]:
    sockets = [socket.socket() for _ in range(count)]
    for one in sockets:
        one.bind(("127.0.0.1", 0))
    ports = [one.getsockname()[1] for one in sockets]
    for one in sockets:
        one.close()
    return ports


@contextmanager
def airflow_stack(home: Path, dags: Path, variables: Mapping[str, str]) -> Iterator[AirflowStack]:
    """The stack once its API answers and every DAG file is read; `variables` are further ones of its environment."""
    home.mkdir(parents=True, exist_ok=True)
    port, worker_log, trigger_log = _free_ports(3)
    (home / "passwords.json").write_text(json.dumps({_USER: _PASSWORD}))
    address = f"http://127.0.0.1:{port}"
    env = {
        **private_environment(home, dags),
        "AIRFLOW__API__HOST": "127.0.0.1",
        "AIRFLOW__API__PORT": str(port),
        "AIRFLOW__API__WORKERS": "1",
        "AIRFLOW__API_AUTH__JWT_SECRET": "a secret that is long enough for tests of one machine, 64 bytes",
        "AIRFLOW__CORE__DAGS_ARE_PAUSED_AT_CREATION": "False",
        "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "5",
        "AIRFLOW__CORE__EXECUTION_API_SERVER_URL": f"{address}/execution/",
        "AIRFLOW__CORE__PARALLELISM": "2",
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_PASSWORDS_FILE": str(home / "passwords.json"),
        "AIRFLOW__CORE__SIMPLE_AUTH_MANAGER_USERS": f"{_USER}:admin",
        "AIRFLOW__LOGGING__TRIGGER_LOG_SERVER_PORT": str(trigger_log),
        "AIRFLOW__LOGGING__WORKER_LOG_SERVER_PORT": str(worker_log),
        "AIRFLOW__SCHEDULER__ENABLE_HEALTH_CHECK": "False",
        **variables,
    }
    airflow = [sys.executable, "-m", "airflow"]
    with (home / "migrate.log").open("wb") as log:
        subprocess.run([*airflow, "db", "migrate"], env=env, stdout=log, stderr=log, check=True)
    processes = []
    try:
        for part in _PARTS:
            with (home / f"{part}.log").open("wb") as log:
                command = [*airflow, part]
                processes.append(subprocess.Popen(command, env=env, stdout=log, stderr=log, start_new_session=True))
        eventually(lambda: _answers(address) or any(one.poll() is not None for one in processes), 180.0)
        body = {"username": _USER, "password": _PASSWORD}
        status, data = fetch(f"{address}/auth/token", body=body)
        assert status == 201, data
        stack = AirflowStack(address, json.loads(data)["access_token"], home)
        wanted = {path.stem for path in dags.glob("*.py")}
        eventually(lambda: wanted <= {one["dag_id"] for one in stack.ask("/api/v2/dags")["dags"]}, 120.0)
        yield stack
    finally:
        for process in processes:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait(30)


def _answers(address: str) -> bool:
    try:
        return fetch(f"{address}/api/v2/version")[0] == 200
    except OSError:
        return False
