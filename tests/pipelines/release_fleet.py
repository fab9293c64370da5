"""Releases to a fleet, where an engine's address would be: the command line, Airflow's operators, the hub and MLflow.

Two nodes that ask for verdicts, two controllers, a router that clients ask, real Airflow, real MLflow, a real hub. Part
of `make test-extras`.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import mlflow
import numpy as np
import pytest
from tests.support.eventually import eventually
from tests.support.hub.process import HubProcess
from tests.support.hub.registry import hub_config, register, write_data
from tests.support.neighbours.fleet import Fleet, RouterProcess, fleet_over
from tests.support.release.world import BETTER, NONSENSE, Endpoints, World, available, traffic

from tidegate_serving.client import Client
from tidegate_serving.fleet.state.model import Copies

pytestmark = pytest.mark.filterwarnings("default")  # MLflow warns of its own typing as it is imported
MODEL = "tides-of-a-fleet"
ONE = np.array([1.0])
SECRET = "a secret of the hub's"
RULE = {"pairs": 20, "within_seconds": 60}


@pytest.fixture(scope="module")
def fleet(world: World) -> Iterator[Fleet]:
    with fleet_over(world.root) as running:
        for name in "ab":
            running.node(
                name, allow_unverified=False, trusted_keys=[world.public_key], log_path=world.root / "log" / name
            )
        for node in running.nodes.values():
            node.await_ready()
        running.controller("first").await_ready()
        eventually(lambda: len(running.view().nodes) == 2)
        yield running


@pytest.fixture(scope="module")
def router(fleet: Fleet) -> RouterProcess:
    return fleet.router().await_ready()


@pytest.fixture(scope="module")
def endpoints(fleet: Fleet, router: RouterProcess) -> Endpoints:
    """The fleet as an engine: the control port is the controller's that does not lead, the data ports the router's."""
    control = fleet.controller("second").await_ready().address
    return Endpoints(router.addresses["grpc"], router.addresses["rest"], control, 0)


def everywhere(fleet: Fleet, model: str) -> None:
    """Two copies from now on."""
    with fleet.operations() as operations:
        operations.set_copies(model, Copies(2, 2))
    eventually(lambda: len(fleet.routes(model)) == 2 and fleet.view().models[model].settled)


def overrides(engine: dict[str, Any], model: str) -> list[str]:
    """What the hub knows to be decided there."""
    return [one["action"] for one in engine["status"]["models"][model]["overrides"]]


def by_command(world: World, endpoints: Endpoints, directory: Path) -> str:
    command = [sys.executable, "-m", "tidegate_pipelines.cli", "release", str(directory)]
    command += ["--held-out", str(world.held_out)]
    done = subprocess.run(
        [*command, "--key", str(world.private_key), "--control", endpoints.control, "--pairs", "20"],
        capture_output=True,
        text=True,
        timeout=240,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return done.stdout + done.stderr


def by_airflow(world: World, endpoints: Endpoints, directory: Path) -> dict[str, object]:
    """What the operators said, in a process of their own."""
    host, _, port = endpoints.control.partition(":")
    kept = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    done = subprocess.run(
        [
            *(sys.executable, "-m", "tests.support.orchestrators.airflow_release", directory),
            *(world.held_out, world.private_key, json.dumps(RULE)),
        ],
        env={
            **kept,
            "AIRFLOW_HOME": str(world.root / "airflow-home"),
            "AIRFLOW_CONN_TIDEGATE_DEFAULT": json.dumps({"conn_type": "tidegate", "host": host, "port": int(port)}),
        },
        capture_output=True,
        text=True,
        timeout=300,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout.splitlines()[-1])
    return found


def test_the_command_releases_a_first_and_a_second_version_under_traffic(
    world: World, fleet: Fleet, endpoints: Endpoints
) -> None:
    by_command(world, endpoints, world.publish(1, name="command"))
    everywhere(fleet, "command")
    with traffic(endpoints.grpc, "command") as answered:
        said = by_command(world, endpoints, world.publish(2, BETTER, name="command"))
        eventually(lambda: answered and answered[-1] == 2)
    assert "shadowed requests as well as the serving version" in said
    assert available(endpoints, "command") == [2]


def test_airflows_operators_release_to_a_fleet_and_a_canary_that_fails_leaves_it(
    world: World, fleet: Fleet, endpoints: Endpoints
) -> None:
    first = by_airflow(world, endpoints, world.publish(1, name="airflow"))
    assert first["refusal"] == ""
    everywhere(fleet, "airflow")
    with traffic(endpoints.grpc, "airflow"):
        second = by_airflow(world, endpoints, world.publish(2, BETTER, name="airflow"))
    assert second["refusal"] == "", second
    with traffic(endpoints.grpc, "airflow") as answered:
        third = by_airflow(world, endpoints, world.publish(3, NONSENSE, name="airflow"))
    assert third["refusal"]
    assert set(answered) == {2}
    assert available(endpoints, "airflow") == [2]


def test_an_alias_in_mlflow_reaches_the_fleet_through_the_hub_and_its_rollback_goes_back(
    world: World, fleet: Fleet, endpoints: Endpoints, mlflow_address: str, tmp_path: Path
) -> None:
    write_data(tmp_path)
    register(mlflow_address, MODEL)
    secret = tmp_path / "secret"
    secret.write_text(SECRET)
    secret.chmod(0o600)
    table = f'address = "{mlflow_address}"\nwebhook_secret_file = "{secret}"\npoll_seconds = 5'
    client = mlflow.MlflowClient(mlflow_address)
    with HubProcess(tmp_path, hub_config(world, endpoints.control, tmp_path, table)) as hub:
        client.create_webhook(
            name="fleet", url=f"{hub.url}/hooks/mlflow", secret=SECRET, events=["model_version_alias.created"]
        )
        for version in (1, 2):
            client.set_registered_model_alias(MODEL, "candidate", str(version))
            released = hub.over(MODEL, version)
            assert (released["state"], released["source"]) == ("RELEASED", "mlflow"), released["sentence"]
        everywhere(fleet, MODEL)
        eventually(lambda: client.get_registered_model(MODEL).aliases.get("serving") == "2")
        decided = hub.post("/decisions/rollback", {"model": MODEL, "reason": "late answers", "key": "one"})
        assert decided.is_success, decided.text
        eventually(lambda: available(endpoints, MODEL) == [1])
        eventually(lambda: client.get_registered_model(MODEL).aliases.get("serving") == "1")
        again = hub.post("/decisions/rollback", {"model": MODEL, "reason": "by mistake", "key": "two"})
        assert again.status_code == 404, "nothing is before the first version, and the second is not gone back to"
        blocked = hub.post("/decisions/block", {"model": MODEL, "version": 2, "reason": "late answers", "key": "three"})
        assert blocked.is_success, blocked.text
        with Client(endpoints.grpc) as asking:
            for _ in range(20):
                assert asking.predict(MODEL, {"a": ONE, "b": ONE}).version == 1
        eventually(lambda: sum(one["requests"] for one in hub.get("/traffic", model=MODEL)) >= 20)
        (engine,) = eventually(lambda: [one for one in hub.get("/engines") if overrides(one, MODEL) == ["block"]])
        assert (engine["state"], engine["problem"]) == ("UP", "")
        assert httpx.get(f"{hub.url}/models/{MODEL}", timeout=30, trust_env=False).status_code == 200
    mlflow.set_tracking_uri("")
