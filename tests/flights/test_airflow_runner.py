"""DAG runs in Airflow's own process: the flights DAG on a tiny model and a real engine, and what says no."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from tests.support.eventually import eventually
from tests.support.release.world import (
    BETTER,
    CRASHES,
    HONEST,
    SIGNATURE,
    Endpoints,
    World,
    available,
    rows,
    serve_first,
    traffic,
)

from tidegate_flights.airflow_runner import AirflowRunner, DagResult
from tidegate_operators.steps import promote, push
from tidegate_serving.contract.errors import NotFound, Unavailable
from tidegate_serving.contract.repository import report_directory, verdict_path

FLIGHTS = Path(__file__).resolve().parents[2] / "dags" / "flights_release.py"

RETRYING = """
from datetime import UTC, datetime, timedelta
from airflow.sdk import DAG
from tidegate.airflow import RollbackOperator, ServeModelOperator

patient = {"retries": 3, "retry_delay": timedelta(seconds=600)}
with DAG("retrying", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), default_args=patient,
         params={"directory": "", "servable": ""}) as dag:
    ServeModelOperator(task_id="serve", directory="{{ params.directory }}") >> RollbackOperator(
        task_id="rollback", servable="{{ params.servable }}")
"""


OTHERS = """
from datetime import UTC, datetime
from airflow.sdk import DAG
from tidegate.airflow import PublishModelOperator, RollbackOperator, SkewReportOperator

params = {name: "" for name in ("files", "repository", "training", "signature", "directory", "report")}
with DAG("others", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), params=params) as dag:
    publish = PublishModelOperator(
        task_id="publish", files="{{ params.files }}", servable="others", version="3", platform="python",
        repository="{{ params.repository }}", training="{{ params.training }}", signature="{{ params.signature }}",
        label_column="late")
    skew = SkewReportOperator(task_id="skew", directory="{{ params.directory }}", report="{{ params.report }}")
    publish >> skew >> RollbackOperator(task_id="rollback", servable="others")
"""

SKEW = """
from datetime import UTC, datetime
from airflow.sdk import DAG
from tidegate.airflow import SkewSensor

params = {name: "" for name in ("servable", "outcomes")}
with DAG("skew_%(timeout)s", schedule=None, start_date=datetime(2026, 1, 1, tzinfo=UTC), params=params) as dag:
    SkewSensor(task_id="wait", servable="{{ params.servable }}", outcomes="{{ params.outcomes }}",
        timeout=%(timeout)s, poke_interval=0.5, deferrable=True)
"""
DEFERRED = "[DAG TEST] running trigger in line"


@pytest.fixture(scope="module")
def home(world: World) -> Path:
    return world.root / "airflow"


@pytest.fixture(scope="module")
def runner(home: Path) -> Iterator[AirflowRunner]:
    """Airflow over a folder with the flights DAG and one whose tasks would be retried."""
    dags = home / "dags"
    dags.mkdir(parents=True)
    (dags / FLIGHTS.name).write_text(FLIGHTS.read_text())
    (dags / "retrying.py").write_text(RETRYING)
    (dags / "others.py").write_text(OTHERS)
    for timeout in (3, 300):
        (dags / f"skew_{timeout}.py").write_text(SKEW % {"timeout": timeout})
    (dags / "broken.py").write_text("import a_module_that_is_not_there\n")
    (dags / "none.py").write_text("x = 1\n")
    with AirflowRunner(home, dags) as runner:
        yield runner


class Release:
    """Runs the flights DAG on a version of the tiny model."""

    def __init__(self, runner: AirflowRunner, home: Path, world: World, endpoints: Endpoints) -> None:
        self._runner, self._home, self._world = runner, home, world
        host, _, port = endpoints.control.rpartition(":")
        self.connections = {"tidegate_default": {"conn_type": "tidegate", "host": host, "port": int(port)}}

    def __call__(self, directory: Path, **conf: Any) -> DagResult:
        given = {
            "directory": str(directory),
            "held_out": str(self._world.held_out),
            "private_key": str(self._world.private_key),
            "canary": {"pairs": 20, "within_seconds": 30},
        }
        return self._runner.run(self._home / "dags" / FLIGHTS.name, {**given, **conf}, self.connections)


@pytest.fixture(scope="module")
def release(runner: AirflowRunner, home: Path, world: World, endpoints: Endpoints) -> Release:
    return Release(runner, home, world, endpoints)


def query(home: Path, text: str) -> list[tuple[Any, ...]]:
    with sqlite3.connect(home / "airflow.db") as connection:
        return connection.execute(text).fetchall()


def test_a_release_walks_through_all_four_tasks_and_xcom_carries_what_each_returned(
    release: Release, world: World, endpoints: Endpoints, home: Path
) -> None:
    first = world.publish(1, name="walk")
    done = release(first)
    assert done.ok, done.reason
    assert available(endpoints, "walk") == [1]
    second = world.publish(2, BETTER, name="walk")
    with traffic(endpoints.grpc, "walk") as versions:
        done = release(second, policy=str(world.policy("quality")))
        assert done.ok, done.reason
        seen = len(versions)
        eventually(lambda: len(versions) > seen + 2)
    assert versions[-1] == 2
    assert available(endpoints, "walk") == [2]
    carried = [
        (task, key, json.loads(value)) for task, key, value in query(home, "select task_id, key, value from xcom")
    ]
    values = [(task, value) for task, key, value in carried if key == "return_value"]
    assert {task for task, _ in values} == {"validate", "serve", "canary", "promote"}
    for task, value in values:
        assert (value["servable"], value["directory"]) in {("walk", str(first)), ("walk", str(second))}, task
    assert {value["verdict_path"] for task, value in values if task == "validate"} == {
        str(verdict_path(first)),
        str(verdict_path(second)),
    }
    assert [value["ended"] for task, value in values if task == "promote"] == [[], [1]]
    links = {value for _, key, value in carried if key.startswith("_link_")}
    assert links == {(report_directory(path) / "index.html").as_uri() for path in (first, second)}


def test_a_version_that_crashes_is_refused_with_one_sentence_and_the_old_one_serves(
    release: Release, world: World, endpoints: Endpoints
) -> None:
    serve_first(endpoints, world, "crash")
    done = release(world.publish(2, CRASHES, name="crash"), policy=str(world.policy("robustness")))
    assert (done.state, done.failed_task) == ("failed", "validate")
    assert done.reason
    assert "\n" not in done.reason
    assert "refused by the robustness gate" in done.reason
    assert "ended with exit status 9" in done.reason
    assert available(endpoints, "crash") == [1]


def test_a_canary_without_traffic_fails_its_task_and_leaves_nothing(
    release: Release, world: World, endpoints: Endpoints
) -> None:
    serve_first(endpoints, world, "quiet")
    policy = str(world.policy("skew"))
    done = release(world.publish(2, BETTER, name="quiet"), policy=policy, canary={"pairs": 5, "within_seconds": 1})
    assert (done.state, done.failed_task) == ("failed", "canary")
    assert "0 requests were shadowed" in str(done.reason)
    assert available(endpoints, "quiet") == [1]


def test_a_refusal_is_not_retried_though_the_dag_asks_for_retries(
    runner: AirflowRunner, release: Release, world: World, home: Path
) -> None:
    directory = world.publish(1, name="patient")
    done = runner.run(home / "dags" / "retrying.py", {"directory": str(directory)}, release.connections)
    assert (done.state, done.failed_task) == ("failed", "serve")
    assert "1.verdict.json" in str(done.reason)
    assert done.seconds < 60.0
    tries = query(home, "select task_id, state, try_number, max_tries from task_instance where dag_id = 'retrying'")
    assert ("serve", "failed", 1, 3) in tries


def test_the_other_operators_publish_report_and_roll_back(
    runner: AirflowRunner, release: Release, world: World, endpoints: Endpoints, home: Path, tmp_path: Path
) -> None:
    for version in (1, 2):
        push(directory=world.admitted(version, name="others"), control=endpoints.control)
        promote(control=endpoints.control, servable="others", version=version)
    (tmp_path / "model.py").write_text(HONEST)
    (tmp_path / "signature.json").write_text(json.dumps(SIGNATURE.to_dict()))
    pq.write_table(rows(500, seed=1), tmp_path / "train.parquet")
    conf = {
        "files": str(tmp_path / "model.py"),
        "repository": str(world.repository),
        "training": str(tmp_path / "train.parquet"),
        "signature": str(tmp_path / "signature.json"),
        "directory": str(world.repository / "others" / "2"),
        "report": str(tmp_path / "skew"),
    }
    with traffic(endpoints.grpc, "others") as versions:
        eventually(lambda: len(versions) > 20)
        done = runner.run(home / "dags" / "others.py", conf, release.connections)
    assert done.ok, (done.failed_task, done.reason)
    assert (world.repository / "others" / "3" / "manifest.json").is_file()
    assert (tmp_path / "skew" / "index.html").is_file()
    assert available(endpoints, "others") == [1]
    again = runner.run(home / "dags" / "others.py", conf, release.connections)
    assert (again.failed_task, "to go back to" in str(again.reason)) == ("rollback", True)
    (tmp_path / "model.py").write_text(BETTER)
    changed = runner.run(home / "dags" / "others.py", conf, release.connections)
    assert (changed.failed_task, "published already" in str(changed.reason)) == ("publish", True)


class Awaited:
    """Runs a DAG that waits for skew; `deferrals` counts how often it slept in the triggerer so far."""

    def __init__(self, runner: AirflowRunner, home: Path, release: Release, endpoints: Endpoints, world: World) -> None:
        self._runner, self._home, self._release, self._endpoints = runner, home, release, endpoints
        serve_first(endpoints, world, "skewed")
        self._before = self._deferred()

    def __call__(self, outcomes: str, timeout: int = 300) -> DagResult:
        conf = {"servable": "skewed", "outcomes": outcomes}
        return self._runner.run(self._home / "dags" / f"skew_{timeout}.py", conf, self._release.connections)

    @property
    def deferrals(self) -> int:
        return self._deferred() - self._before

    def _deferred(self) -> int:
        return self._runner.log.read_text().count(DEFERRED) if self._runner.log.exists() else 0

    def asked(self, more: int) -> None:
        with traffic(self._endpoints.grpc, "skewed") as versions:
            eventually(lambda: len(versions) >= more, 60)


def test_a_sensor_for_skew_waits_in_the_triggerer_where_it_has_to_and_only_there(
    runner: AirflowRunner, release: Release, world: World, endpoints: Endpoints, home: Path
) -> None:
    awaited = Awaited(runner, home, release, endpoints, world)
    with ThreadPoolExecutor(1) as pool:
        waiting = pool.submit(awaited, "PASS,WARN,FAIL")
        eventually(lambda: awaited.deferrals > 1, 120)
        assert not waiting.done(), "nothing is logged yet"
        awaited.asked(1000)
        done = waiting.result(300)
    assert done.ok, done.reason
    slept = awaited.deferrals
    quick = awaited("PASS,WARN,FAIL")
    assert quick.ok, quick.reason
    assert awaited.deferrals == slept, "what is there at once never defers"
    never = awaited("ERROR", timeout=3)
    assert (never.state, never.failed_task) == ("failed", "wait")
    assert "the skew of skewed was none of ERROR in 3 s" in str(never.reason)
    assert awaited.deferrals > slept
    unknown = awaited("BAD")
    assert "outcomes 'BAD' are unknown: use PASS, WARN, FAIL, INCONCLUSIVE, ERROR" in str(unknown.reason)


def test_missing_parameters_and_files_fail_with_their_names(release: Release, world: World) -> None:
    done = release(world.repository / "nobody" / "1")
    assert done.failed_task == "validate"
    assert "nobody/1 is gone, its repository is here: it was deleted" in str(done.reason)


def test_a_file_that_holds_no_dag_is_named(runner: AirflowRunner, home: Path) -> None:
    with pytest.raises(Unavailable, match="a_module_that_is_not_there"):
        runner.run(home / "dags" / "broken.py", {})
    with pytest.raises(Unavailable, match="0 DAGs"):
        runner.run(home / "dags" / "none.py", {})
    with pytest.raises(NotFound, match=r"missing\.py is missing"):
        runner.run(home / "dags" / "missing.py", {})
