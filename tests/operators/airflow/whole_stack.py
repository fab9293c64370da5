"""Every DAG of dags/ under a real scheduler, triggerer and API server, against a real engine and a real MLflow.

Part of `make test-extras`: the four processes of Airflow take longer to start than a suite may wait.
"""

from __future__ import annotations

import hashlib
import json
import shutil
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from tests.support.browsers.browser import chromium, opened
from tests.support.eventually import eventually
from tests.support.orchestrators.airflow_stack import AirflowStack, airflow_stack, fetch
from tests.support.release.world import (
    BETTER,
    HONEST,
    SIGNATURE,
    Endpoints,
    World,
    available,
    rows,
    serve_first,
    traffic,
)

from tidegate_operators.steps import push
from tidegate_serving.contract.repository import verdict_path

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
def stack(world: World, endpoints: Endpoints, mlflow_address: str) -> Iterator[AirflowStack]:
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
    variables["AIRFLOW_CONN_TIDEGATE_DEFAULT"] = json.dumps(engine)
    variables["MLFLOW_TRACKING_URI"] = mlflow_address
    variables["AIRFLOW__CORE__DEFAULT_TASK_RETRIES"] = "2"  # on a busy machine Airflow loses tasks before they begin
    variables["AIRFLOW__TIDEGATE__REPORT_ROOTS"] = f"{world.repository}, {world.root / 'reports'}"
    log = {"type": "file", "log_file_path": str(world.root / "airflow" / "lineage.jsonl"), "append": True}
    variables["AIRFLOW__OPENLINEAGE__TRANSPORT"] = json.dumps(log)
    with airflow_stack(world.root / "airflow", dags, variables) as one:
        yield one


def register(address: str, versions: int) -> None:
    """Registers a model of x and kind so often, and lets alias `champion` name the last."""
    import mlflow
    from mlflow.models import infer_signature
    from sklearn.compose import make_column_transformer
    from sklearn.linear_model import LogisticRegression
    from sklearn.pipeline import make_pipeline

    table = rows(2000, seed=3).to_pandas()
    frame = table[["x", "kind"]]
    model = make_pipeline(make_column_transformer(("passthrough", ["x"])), LogisticRegression())
    model.fit(frame, table["late"])
    mlflow.set_tracking_uri(address)
    for _ in range(versions):
        mlflow.sklearn.log_model(
            model,
            name="model",
            pip_requirements=["scikit-learn"],
            registered_model_name="flights",
            signature=infer_signature(frame, model.predict(frame)),
            input_example=frame.head(2),
        )
    mlflow.MlflowClient(address).set_registered_model_alias("flights", "champion", str(versions))
    mlflow.set_tracking_uri("")


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
    events = stack.ask("/api/v2/assets/events?source_task_id=promote")["asset_events"]
    assert [event["extra"]["version"] for event in events] == [2]


def test_the_report_is_a_page_of_airflows_own_for_whoever_is_signed_in(stack: AirflowStack) -> None:
    run = stack.runs("flights_release")[0]["dag_run_id"]
    links = stack.ask(f"/api/v2/dags/flights_release/dagRuns/{run}/taskInstances/validate/links")["extra_links"]
    page = f"{stack.address}{links['Verdict report']}"
    assert page.endswith("/tidegate/reports/flights/2.report/index.html")
    assert fetch(page)[0] == 401
    assert fetch(page, stack.token)[0] == 200
    with chromium() as browser, opened(browser, page, own=stack.address) as (visited, heard):
        answer = visited.reload()
        assert answer is not None
        assert (answer.status, "flights" in visited.inner_text("body")) == (401, False)
        visited.context.add_cookies([{"name": "_token", "value": stack.token, "url": stack.address}])
        answer = visited.goto(page)
        assert answer is not None
        assert answer.status == 200
        assert visited.inner_text("h1") == "This version may serve."
        visited.get_by_role("link", name="the same as JSON").click()
        assert '"tidegate.verdict/' in visited.inner_text("body")
        assert heard.elsewhere == []


def test_openlineage_hears_what_was_read_and_served_and_of_the_verdict(stack: AirflowStack, world: World) -> None:
    events = [json.loads(line) for line in (stack.home / "lineage.jsonl").read_text().splitlines()]
    ended = {one["job"]["name"]: one for one in events if one["eventType"] == "COMPLETE"}
    validate, promote = ended["flights_release.validate"], ended["flights_release.promote"]
    version = {"namespace": "file", "name": str(world.repository / "flights" / "2")}
    read = [{"namespace": one["namespace"], "name": one["name"]} for one in validate["inputs"]]
    assert read == [{"namespace": "file", "name": str(world.held_out)}, version]
    verdict = validate["run"]["facets"]["tidegate_verdict"]
    path = verdict_path(world.repository / "flights" / "2")
    assert (verdict["allowed"], verdict["digest"]) == (True, hashlib.sha256(path.read_bytes()).hexdigest())
    assert verdict["sentence"].startswith("flights:2")
    (served,) = promote["outputs"]
    assert (served["namespace"], served["name"]) == ("tidegate://tidegate_default", "flights")
    assert served["facets"]["version"]["datasetVersion"] == "2"
    assert promote["run"]["facets"]["tidegate_verdict"] == verdict
    started = next(one for one in events if one["job"]["name"] == "flights_release.promote")
    assert (started["eventType"], started["outputs"]) == ("START", [])


def test_what_waits_sleeps_in_the_triggerer_and_wakes(stack: AirflowStack, world: World, endpoints: Endpoints) -> None:
    soon = (datetime.now(UTC) + timedelta(seconds=45)).isoformat()
    run = stack.start("waiting", {"until": soon})
    eventually(lambda: set(stack.tasks("waiting", run).values()) == {"deferred"}, 60.0)
    push(directory=world.admitted(1, name="awaited"), control=endpoints.control)
    assert stack.wait("waiting", run) == {"version": "success", "skew": "success"}
    assert datetime.now(UTC) > datetime.fromisoformat(soon)


def test_skew_starts_a_training_whose_version_is_released(
    stack: AirflowStack, world: World, endpoints: Endpoints
) -> None:
    """The skew is that of the test above: all of its requests have the same kind, the training data had two."""
    with traffic(endpoints.grpc, "flights"):
        eventually(lambda: len(stack.runs("flights_retrain")) > 0, 60.0)
        run = stack.runs("flights_retrain")[0]["dag_run_id"]
        assert stack.wait("flights_retrain", run) == dict.fromkeys(("train", "newest", "publish", "release"), "success")
        (event,) = stack.ask("/api/v2/assets/events?source_dag_id=waiting")["asset_events"]
        assert (event["source_task_id"], event["extra"]["outcome"], event["extra"]["version"]) == ("skew", "FAIL", 2)
        assert (world.root / "trained.txt").is_file()
        assert (world.repository / "flights" / "3" / "manifest.json").is_file()
        eventually(lambda: len(stack.runs("flights_release")) == 2, 60.0)
        stack.wait("flights_release", stack.runs("flights_release")[1]["dag_run_id"])


@pytest.mark.filterwarnings("default")  # MLflow warns of its own typing as it is imported
def test_an_alias_in_mlflow_releases_the_version_that_it_names(
    stack: AirflowStack, mlflow_address: str, world: World, endpoints: Endpoints
) -> None:
    if not available(endpoints, "flights"):
        serve_first(endpoints, world, "flights")
    with traffic(endpoints.grpc, "flights"):
        register(mlflow_address, versions=5)
        eventually(lambda: len(stack.runs("flights_release_registered")) > 0, 90.0)
        run = stack.runs("flights_release_registered")[0]["dag_run_id"]
        tasks = stack.wait("flights_release_registered", run)
    assert set(tasks.values()) == {"success"}, tasks
    assert available(endpoints, "flights") == [5]
