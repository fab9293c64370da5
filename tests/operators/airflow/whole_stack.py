"""Every DAG of dags/ under a real scheduler, triggerer and API server, against a real engine and a real MLflow.

Part of `make test-extras`: the four processes of Airflow take longer to start than a suite may wait.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.support.airflow_stack import AirflowStack, airflow_stack
from tests.support.eventually import eventually
from tests.support.releases import BETTER, HONEST, SIGNATURE, Endpoints, World, available, rows, serve_first, traffic

ROOT = Path(__file__).resolve().parents[3]

CONSUMER = """
from airflow.sdk import DAG, task
from tidegate.airflow import RollbackOperator, SkewReportOperator, VersionAvailableSensor, servable_asset

with DAG("after_promotion", schedule=[servable_asset("flights")]):
    @task
    def tell(triggering_asset_events=None):
        return [event.extra for events in triggering_asset_events.values() for event in events]
    tell()
"""
WAITING = """
from datetime import UTC, datetime, timedelta
from airflow.sdk import DAG
from tidegate.airflow import SkewReportOperator, VersionAvailableSensor

with DAG("waiting", schedule=None, params={"until": ""}):
    VersionAvailableSensor(task_id="version", servable="awaited", version=1, deferrable=True, timeout=300)
    SkewReportOperator(task_id="skew", servable="flights", until="{{ params.until }}", deferrable=True)
"""


@pytest.fixture(scope="module")
def stack(world: World, endpoints: Endpoints) -> Iterator[AirflowStack]:
    dags = world.root / "dags"
    shutil.copytree(ROOT / "dags", dags, ignore=shutil.ignore_patterns("__pycache__"))
    (dags / "after_promotion.py").write_text(CONSUMER)
    (dags / "waiting.py").write_text(WAITING)
    (world.root / "model.py").write_text(HONEST)
    (world.root / "signature.json").write_text(json.dumps(SIGNATURE.to_dict()))
    pq.write_table(rows(4000, seed=9), world.root / "train.parquet")
    host, _, port = endpoints.control.rpartition(":")
    engine = {"conn_type": "tidegate", "host": host, "port": int(port)}
    given = {
        "held_out": world.held_out,
        "policy": world.policy("robustness"),
        "private_key": world.private_key,
        "repository": world.repository,
        "reports": world.root / "reports",
        "files": world.root / "model.py",
        "platform": "python",
        "training": world.root / "train.parquet",
        "signature": world.root / "signature.json",
        "train": f"echo trained > {world.root}/trained.txt",
    }
    variables = {f"AIRFLOW_VAR_FLIGHTS_{name.upper()}": str(value) for name, value in given.items()}
    with airflow_stack(
        world.root / "airflow", dags, {**variables, "AIRFLOW_CONN_TIDEGATE_DEFAULT": json.dumps(engine)}
    ) as one:
        yield one


def test_a_release_runs_and_what_was_promoted_starts_another_dag(
    stack: AirflowStack, world: World, endpoints: Endpoints
) -> None:
    serve_first(endpoints, world, "flights")
    conf = {
        "directory": str(world.publish(2, BETTER, name="flights")),
        "held_out": str(world.held_out),
        "private_key": str(world.private_key),
        "policy": str(world.policy("robustness")),
        "canary": {"pairs": 20, "within_seconds": 120},
    }
    with traffic(endpoints.grpc, "flights"):
        run = stack.start("flights_release", conf)
        tasks = stack.wait("flights_release", run)
    assert set(tasks.values()) == {"success"}, tasks
    assert available(endpoints, "flights") == [2]
    eventually(lambda: len(stack.runs("after_promotion")) > 0, 60.0)
    following = stack.runs("after_promotion")[0]["dag_run_id"]
    assert stack.wait("after_promotion", following) == {"tell": "success"}
    path = f"/api/v2/dags/after_promotion/dagRuns/{following}/taskInstances/tell/xcomEntries/return_value"
    told = stack.ask(path)["value"]
    assert "'version': 2" in str(told) or '"version": 2' in str(told)
