"""Releases by a real Airflow: what an operator costs beside its step, and tasks that are killed under the scheduler.

An operator's own time is that of its task, less that of an empty task, less that of its step in a task of Airflow's own
which calls nothing else, imports counted in. `SCHEDULED_KILLS=1` for fewer.
"""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import statistics
import tempfile
from pathlib import Path

from tests.bench.rows import Row
from tests.bench.servers import ROOT
from tests.support.eventually import eventually
from tests.support.orchestrators.airflow_stack import AirflowStack, airflow_stack
from tests.support.orchestrators.killer import State, state
from tests.support.release.world import BETTER, Endpoints, World, engine, make_world, serve_first, traffic

TIMES = 5
NAME = "flights"
STEPS = ("validate", "serve", "canary", "promote")
COSTS = """
import time
from airflow.sdk import DAG, chain, task
from tidegate.airflow import PromoteOperator

DIRECTORY, CONTROL = {directory!r}, {control!r}

with DAG("costs", schedule=None, default_args={{"retries": 0}}):
    @task
    def empty():
        return None

    @task
    def step():
        began = time.perf_counter()
        from tidegate_operators.steps import promote
        promote(control=CONTROL, servable={servable!r}, version=1)
        return time.perf_counter() - began

    rounds = [
        [empty.override(task_id=f"empty{{n}}")(), step.override(task_id=f"step{{n}}")(),
         PromoteOperator(task_id=f"operator{{n}}", directory=DIRECTORY)]
        for n in range({times})
    ]
    chain(*[one for several in rounds for one in several])
"""


def measure() -> list[Row]:
    kills = int(os.environ.get("SCHEDULED_KILLS", "4"))
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        world = make_world(Path(folder))
        with engine(world) as endpoints:
            serve_first(endpoints, world, "costs")
            with airflow_stack(world.root / "airflow", _dags(world, endpoints), _variables(endpoints)) as stack:
                return [*_costs(stack), *_kills(stack, world, endpoints, kills)]


def _dags(world: World, endpoints: Endpoints) -> Path:
    dags = world.root / "dags"
    dags.mkdir()
    directory = str(world.repository / "costs" / "1")
    text = COSTS.format(directory=directory, control=endpoints.control, servable="costs", times=TIMES)
    (dags / "costs.py").write_text(text)
    shutil.copy(ROOT / "dags" / "flights_release.py", dags)
    return dags


def _variables(endpoints: Endpoints) -> dict[str, str]:
    host, _, port = endpoints.control.rpartition(":")
    connection = {"conn_type": "tidegate", "host": host, "port": int(port)}
    return {
        "AIRFLOW_CONN_TIDEGATE_DEFAULT": json.dumps(connection),
        "AIRFLOW__CORE__DEFAULT_TASK_RETRIES": "2",
        "AIRFLOW__CORE__DEFAULT_TASK_RETRY_DELAY": "1",
    }


def _costs(stack: AirflowStack) -> list[Row]:
    run = stack.start("costs", {})
    tasks = stack.wait("costs", run, 600.0)
    assert set(tasks.values()) == {"success"}, tasks
    base = f"/api/v2/dags/costs/dagRuns/{run}/taskInstances"
    seconds = {one["task_id"]: one["duration"] for one in stack.ask(base)["task_instances"]}
    steps = [float(stack.ask(f"{base}/step{n}/xcomEntries/return_value")["value"]) for n in range(TIMES)]
    empty, operator = (statistics.median(seconds[f"{kind}{n}"] for n in range(TIMES)) for kind in ("empty", "operator"))
    own = operator - statistics.median(steps) - empty
    return [
        Row("an empty task of this Airflow", empty, "s", "reported", None),
        Row("the task of an operator whose step has nothing to do", operator, "s", "reported", None),
        Row("that step, with its imports", statistics.median(steps), "s", "reported", None),
        Row("the operator's own time", own, "s", "at most 0.3", own <= 0.3),
    ]


def _kills(stack: AirflowStack, world: World, endpoints: Endpoints, kills: int) -> list[Row]:
    serve_first(endpoints, world, NAME)
    wrong, struck = 0, 0
    for number in range(kills):
        version, step = 2 + number, STEPS[number % len(STEPS)]
        conf = {
            "directory": str(world.publish(version, BETTER, name=NAME)),
            "held_out": str(world.held_out),
            "private_key": str(world.private_key),
            "policy": str(world.policy("robustness")),
            "canary": {"pairs": 10, "within_seconds": 120},
        }
        with traffic(endpoints.grpc, NAME):
            run = stack.start("flights_release", conf)
            struck += _strike(stack, run, step)
            tasks = stack.wait("flights_release", run, 400.0)
        left = state(endpoints, NAME)
        if set(tasks.values()) != {"success"} or left != State(
            (version,), frozenset({version}), {"stable": version}, None
        ):
            print(f"{step} was killed: {tasks}, {left}", flush=True)
            wrong += 1
    return [
        Row("tasks killed under the scheduler", struck, "kills", "reported", None),
        Row("their releases that did not end released, with nothing left", wrong, "releases", "0", wrong == 0),
    ]


def _strike(stack: AirflowStack, run: str, step: str) -> bool:
    """Kills the process of a task as soon as it is seen; False where the task was quicker."""
    path = f"/api/v2/dags/flights_release/dagRuns/{run}/taskInstances/{step}"

    def found() -> list[int] | str:
        one = stack.ask(path)
        if one["state"] in ("success", "failed"):
            return str(one["state"])
        return _processes(one["id"])

    seen = eventually(found, 240.0)
    if isinstance(seen, str):
        return False
    for process in seen:
        os.kill(process, signal.SIGKILL)
    return True


def _processes(task: str) -> list[int]:
    """The processes that Airflow's supervisor has started for a task instance, by the title that it gives them."""
    title = f"airflow worker -- {task}".encode()
    found = []
    for one in Path("/proc").glob("[0-9]*/cmdline"):
        with contextlib.suppress(OSError):  # it has ended meanwhile
            if one.read_bytes().startswith(title):
                found.append(int(one.parent.name))
    return found
