"""What an Airflow user sees when something around a task is wrong: what fails at once, what is retried, in which words.

AirflowFailException is what Airflow does not retry, AirflowException what it does.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest
from tests.operators.airflow.test_parsing import python
from tests.support.engine.process import free_port
from tests.support.models.gate import Gate
from tests.support.orchestrators.killer import Killer
from tests.support.release.world import HONEST, SIGNATURE, Endpoints, World, available, serve_first

from tidegate_operators.steps import promote, push
from tidegate_serving.files import remove_folder

AT_ONCE, RETRIED = "AirflowFailException", "AirflowException"


def connection(control: str) -> str:
    host, _, port = control.rpartition(":")
    return json.dumps({"conn_type": "tidegate", "host": host, "port": int(port)})


class Tasks:
    """Executes an operator in a process of its own; how that ended, as which error, and in which words."""

    def __init__(self, killer: Killer, control: str, **variables: str) -> None:
        self._killer = killer
        self._variables = {
            "AIRFLOW_CONN_TIDEGATE_DEFAULT": connection(control),
            "AIRFLOW_CONN_AWAY": connection(f"127.0.0.1:{free_port()}"),
            **variables,
        }

    def run(self, operator: str, arguments: Mapping[str, Any], run: str = "run") -> dict[str, Any]:
        """All that is said of how it ended."""
        machine = {"variables": self._variables}
        told = {"operator": operator, "arguments": dict(arguments), "run": run, "machine": machine}
        return self._killer("airflow", told)

    def __call__(self, operator: str, run: str = "run", **arguments: Any) -> tuple[str, str, str]:
        found = self.run(operator, arguments, run)
        return found["kind"], found["ended"], found["words"]


@pytest.fixture(scope="module")
def tasks(killer: Killer, endpoints: Endpoints) -> Tasks:
    return Tasks(killer, endpoints.control)


@pytest.mark.parametrize("operator", ["ServeModelOperator", "CanaryOperator", "PromoteOperator"])
def test_a_worker_that_lacks_the_root_is_told_what_is_missing_and_how_to_mend_it(tasks: Tasks, operator: str) -> None:
    output = {"servable": "m", "version": 2, "directory": "/srv/not-mounted/m/2", "manifest_digest": "0" * 64}
    kind, code, words = tasks(operator, directory=output)
    assert (kind, code) == (AT_ONCE, "not_found")
    assert "/srv/not-mounted/m/2 is not on this machine: mount the model repository here" in words


def test_a_task_that_runs_again_after_its_version_was_deleted_fails_and_harms_nothing(
    tasks: Tasks, endpoints: Endpoints, world: World
) -> None:
    serve_first(endpoints, world, "deleted")
    directory = world.admitted(2, name="deleted")
    assert tasks("ServeModelOperator", directory=str(directory))[1] == "done"
    remove_folder(directory)
    for operator in ("ServeModelOperator", "CanaryOperator", "PromoteOperator"):
        kind, code, words = tasks(operator, directory=str(directory))
        assert (kind, code) == (AT_ONCE, "not_found")
        assert f"{directory} is gone, its repository is here: it was deleted, publish the version again" in words
    assert available(endpoints, "deleted") == [1, 2]


def test_a_rollback_whose_task_runs_again_goes_back_once_whatever_its_reason(
    tasks: Tasks, endpoints: Endpoints, world: World
) -> None:
    serve_first(endpoints, world, "back")
    for version in (2, 3):
        push(directory=world.admitted(version, name="back"), control=endpoints.control)
        promote(control=endpoints.control, servable="back", version=version)
    arguments = {"servable": "back", "reason": "error rate alarm"}
    assert [tasks.run("RollbackOperator", arguments)["result"]["version"] for _ in range(2)] == [2, 2]
    assert tasks.run("RollbackOperator", arguments, "next")["result"]["version"] == 1


def test_an_engine_that_is_away_is_left_to_the_retries(tasks: Tasks, world: World) -> None:
    directory = str(world.admitted(1, name="away"))
    for operator in ("ServeModelOperator", "PromoteOperator"):
        kind, code, words = tasks(operator, directory=directory, tidegate_conn_id="away")
        assert (kind, code) == (RETRIED, "unavailable")
        assert "127.0.0.1:" in words


@pytest.mark.parametrize("name", ["team/flights", "../flights", "<b>flights</b>", "x" * 200])
def test_a_name_that_cannot_be_a_models_is_named(tasks: Tasks, world: World, tmp_path: Path, name: str) -> None:
    (tmp_path / "model.py").write_text("class Model: ...")
    kind, code, words = tasks(
        "PublishModelOperator",
        files=str(tmp_path / "model.py"),
        servable=name,
        version=1,
        platform="python",
        repository=str(tmp_path / "models"),
    )
    assert (kind, code) == (AT_ONCE, "invalid_input")
    assert "servable" in words
    assert not (tmp_path / "models").exists() or not list((tmp_path / "models").rglob("manifest.json"))
    kind, code, words = tasks("RollbackOperator", servable=name)
    assert (kind, code in ("invalid_input", "not_found", "failed_precondition")) == (AT_ONCE, True), words


@pytest.mark.parametrize("number", ["1.7", "nan", "1e400", "20261127T141312"])
def test_a_version_that_is_no_whole_number_is_named(tasks: Tasks, number: str) -> None:
    kind, code, words = tasks("RollbackOperator", servable="m", version=number)
    assert (kind, code) == (AT_ONCE, "invalid_input")
    assert f"version is {number!r}, which is no whole number" in words


def test_a_version_of_nineteen_digits_keeps_its_last_one(tasks: Tasks, tmp_path: Path) -> None:
    (tmp_path / "model.py").write_text(HONEST)
    (tmp_path / "signature.json").write_text(json.dumps(SIGNATURE.to_dict()))
    (tmp_path / "row.json").write_text(json.dumps({"x": 1.0, "kind": "a"}))
    kind, ended, words = tasks(
        "PublishModelOperator",
        files=str(tmp_path / "model.py"),
        servable="m",
        version="1795789000123456789",
        platform="python",
        repository=str(tmp_path / "models"),
        signature=str(tmp_path / "signature.json"),
        example=str(tmp_path / "row.json"),
    )
    assert ended == "done", (kind, words)
    assert [path.parent.name for path in (tmp_path / "models").rglob("manifest.json")] == ["1795789000123456789"]


@pytest.mark.parametrize("seconds", ["soon", "nan", "inf"])
def test_a_time_that_is_none_is_named_before_anything_is_done(tasks: Tasks, world: World, seconds: str) -> None:
    kind, code, words = tasks("CanaryOperator", directory=str(world.admitted(1, name="soon")), poll_seconds=seconds)
    assert (kind, code) == (AT_ONCE, "invalid_input")
    assert f"poll_seconds is {seconds!r}, which is no number" in words


def test_a_repository_that_lies_is_found_out(tasks: Tasks, endpoints: Endpoints, world: World) -> None:
    """As a store does that hands out other bytes than were written, or an older manifest."""
    serve_first(endpoints, world, "lies")
    directory = world.admitted(2, name="lies")
    handed = tasks.run("ServeModelOperator", {"directory": str(directory)})
    other = world.publish(3, name="lies")
    shutil.copy(other / "manifest.json", directory / "manifest.json")
    kind, code, words = tasks("PromoteOperator", directory=handed["result"])
    assert (kind, code) == (AT_ONCE, "tampered")
    assert str(directory) in words
    assert available(endpoints, "lies") == [1, 2]


HOUR = """
import asyncio, json, os, sys
from datetime import UTC, datetime, timedelta
from tidegate_operators.airflow import triggers, waiting

class Clock(datetime):
    at = datetime(2026, 1, 1, tzinfo=UTC)
    @classmethod
    def now(cls, zone=None):
        return cls.at

async def sleep(seconds):
    Clock.at += timedelta(seconds=max(seconds, 1.0))
    if Clock.at - began >= timedelta(hours=1):
        os.environ["AIRFLOW_CONN_TIDEGATE_DEFAULT"] = sys.argv[1]

async def wait(hours):
    trigger = triggers.VersionTrigger(
        tidegate_conn_id="tidegate_default", servable="hour", version=1, poll_seconds=120.0,
        deadline=(began + timedelta(hours=hours)).isoformat(),
    )
    async for event in trigger.run():
        return [event.payload["state"], (Clock.at - began).total_seconds()]

triggers.datetime, asyncio.sleep = Clock, sleep
found = []
for hours in (0.5, 2):
    os.environ["AIRFLOW_CONN_TIDEGATE_DEFAULT"] = sys.argv[2]
    began = Clock.at
    found.append(asyncio.run(wait(hours)))
print(json.dumps(found))
"""


def test_an_engine_that_is_away_for_an_hour_is_waited_for(endpoints: Endpoints, world: World, tmp_path: Path) -> None:
    serve_first(endpoints, world, "hour")
    there, away = connection(endpoints.control), connection(f"127.0.0.1:{free_port()}")
    found = json.loads(python(HOUR, there, away, home=tmp_path))
    assert found == [["DEADLINE", 1800.0], ["AVAILABLE", 3600.0]]


WAKE = """
import asyncio, json, sys
from collections import defaultdict
from types import SimpleNamespace
from importlib import import_module
from airflow.sdk.exceptions import TaskDeferred
from tidegate.airflow import ServeModelOperator

import_module("tidegate_operators.airflow.operators.serve")._QUICK_SECONDS = 0.2
directory, pipe = sys.argv[1:]
serve = ServeModelOperator(task_id="serve", directory=directory, deferrable=True)
ti = SimpleNamespace(dag_id="release", task_id="serve", map_index=-1, xcom_push=lambda key, value: None)
context = {"dag": SimpleNamespace(dag_id="release"), "run_id": "run", "ti": ti}
try:
    serve.execute(context)
except TaskDeferred as waits:
    open(pipe, "w").close()
    path, arguments = waits.trigger.serialize()
    module, _, name = path.rpartition(".")
    again = getattr(import_module(module), name)(**json.loads(json.dumps(arguments)))

    async def wait():
        async for event in again.run():
            return event.payload

    print(json.dumps([waits.method_name, serve.finish(context, event=asyncio.run(wait()))]))
"""


def test_a_task_that_waited_needs_nothing_but_the_event(endpoints: Endpoints, world: World, tmp_path: Path) -> None:
    """`airflow dags test` forgets whatever else a task said as it was deferred."""
    serve_first(endpoints, world, "woken")
    gate = Gate.make(tmp_path / "gate")
    wait = f"open({str(gate.entered)!r}, 'w').close()\nopen({str(gate.pipe)!r}, 'rb').read()\n"
    directory = world.admitted(2, wait + HONEST, name="woken")
    variables = {"AIRFLOW_CONN_TIDEGATE_DEFAULT": connection(endpoints.control)}
    method, found = json.loads(python(WAKE, str(directory), str(gate.pipe), home=tmp_path, **variables))
    assert method == "finish"
    assert (found["servable"], found["version"], found["beside"]) == ("woken", 2, 1)
    assert available(endpoints, "woken") == [1, 2]
