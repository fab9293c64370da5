"""Releases whose tasks are killed, with Airflow's operators and with Kubeflow's components: they end as without a kill.

In each release every task is killed once by SIGKILL, at a boundary (a call to the engine, a write) or at a random
instant, and run again, as an orchestrator's retry does. Airflow's tasks run in forks of a process that has imported
everything: by Airflow's own supervisor a task takes seconds, and `scheduled` kills a few of those. Kubeflow's run in
such forks at boundaries, and as `python -m tidegate_operators.kfp.launcher` at random instants. `KILLS=20` for fewer,
`MINUTES=20` for as many as fit.
"""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import tempfile
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import closing, contextmanager, nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tests.bench.rows import Row
from tests.support.orchestrators.killer import Killer, State, state
from tests.support.orchestrators.launched_task import Task
from tests.support.release.world import (
    BETTER,
    RAISES,
    UNLOADABLE,
    Endpoints,
    World,
    engine,
    make_world,
    serve_first,
    traffic,
)

from tidegate_serving.admission import open_verdict
from tidegate_serving.contract.repository import verdict_path
from tidegate_serving.control_client import ControlClient

RULE = {
    "pairs": 10,
    "within_seconds": 60.0,
    "max_error_share": 0.3,
    "max_slow_share": 0.9,
    "shares": [0.25, 0.5, 1.0],
    "step_rows": 10,
    "step_seconds": 0.0,
}
STEPS = ("validate", "push", "canary", "promote")
OPERATORS = ("ValidateModelOperator", "ServeModelOperator", "CanaryOperator", "PromoteOperator")


@dataclass(frozen=True)
class Scenario:
    """A candidate, how it is released, and by which task it is refused; one that is `admitted` begins with the push."""

    name: str
    source: str
    mode: str = "shadow"
    admitted: bool = False
    refused_by: str = ""


SCENARIOS = (
    Scenario("good", BETTER),
    Scenario("growing", BETTER, "traffic"),
    Scenario("refused-by-gate", RAISES, refused_by="validate"),
    Scenario("refused-by-canary", RAISES.replace("> 0.9", "> 0.52"), admitted=True, refused_by="canary"),
    Scenario("not-loadable", UNLOADABLE, admitted=True, refused_by="push"),
)


@dataclass(frozen=True)
class Kill:
    """When a task dies: at a boundary, or after a share of the seconds that it takes unharmed."""

    boundary: int = -1
    seconds: float | None = None


@dataclass
class Ended:
    """How a release ended: each task's end, what is left, its verdicts, and how often its version became available."""

    tasks: dict[str, str] = field(default_factory=dict)
    left: State | None = None
    verdict: bool = True
    loads: int = 0
    took: dict[str, float] = field(default_factory=dict)
    boundaries: dict[str, int] = field(default_factory=dict)
    kills: int = 0


class Airflow:
    """Tasks are operators; each gets what the one before returned."""

    def __init__(self, killer: Killer, world: World, endpoints: Endpoints) -> None:
        self._killer, self._world = killer, world

    def task(self, step: str, scenario: Scenario, given: Any, run: str, kill: Kill) -> dict[str, Any]:
        arguments: dict[str, Any] = {"directory": given}
        if step == "validate":
            arguments |= evidence(self._world)
        if step == "canary":
            arguments |= {"mode": scenario.mode, "rule": RULE}
        told = {"operator": OPERATORS[STEPS.index(step)], "arguments": arguments, "run": run}
        return self._killer("airflow", told, kill.boundary, kill.seconds)

    def digest(self, given: Any) -> str | None:
        return given.get("verdict_digest") if isinstance(given, Mapping) else None


class Kubeflow:
    """Tasks are what the components' containers run; each gets the parameters that the ones before wrote."""

    def __init__(self, killer: Killer, world: World, endpoints: Endpoints) -> None:
        self._killer, self._world, self._control = killer, world, endpoints.control

    def task(self, step: str, scenario: Scenario, given: Any, run: str, kill: Kill) -> dict[str, Any]:
        task = Task(step, self._world.root / "kfp" / run)
        told = given if isinstance(given, dict) else {"directory": given}
        parameters = {
            "validate": {**evidence(self._world), "directory": told["directory"]},
            "push": {name: told[name] for name in ("directory", "verdict_digest", "judged_against") if name in told},
            "canary": {**self._version(told["directory"]), "mode": scenario.mode, "rule": RULE},
            "promote": self._version(told["directory"]),
        }[step]
        parameters |= {"control": self._control, "fail_on_refusal": True}
        if kill.seconds is None:
            found = self._killer("kfp", {"component": step, "document": task.document(parameters, {})}, kill.boundary)
        else:
            found = self._launch(task, parameters, kill.seconds)
        if step == "validate" and found["ended"] == "done":
            written = {"verdict_digest": task.parameter("verdict_digest")}
            told = {**told, **written, "judged_against": int(task.parameter("judged_against"))}
        return {**found, "result": told}

    def _launch(self, task: Task, parameters: dict[str, Any], seconds: float) -> dict[str, Any]:
        process = subprocess.Popen(task.command(parameters), stderr=subprocess.DEVNULL)
        killer = threading.Timer(seconds, process.send_signal, [signal.SIGKILL])
        killer.start()
        status = process.wait(180)
        killer.cancel()
        return {"ended": {-signal.SIGKILL: "killed", 0: "done"}.get(status, "refused"), "boundaries": None}

    def _version(self, directory: str) -> dict[str, Any]:
        return {"servable": Path(directory).parent.name, "version": int(Path(directory).name)}

    def digest(self, given: Any) -> str | None:
        return given.get("verdict_digest") if isinstance(given, dict) else None


Orchestrator = Callable[[Killer, World, Endpoints], "Airflow | Kubeflow"]
ORCHESTRATORS: Mapping[str, Orchestrator] = {"Airflow": Airflow, "Kubeflow": Kubeflow}


def evidence(world: World) -> dict[str, Any]:
    return {
        "held_out": str(world.held_out),
        "private_key": str(world.private_key),
        "policy": str(world.policy("robustness")),
    }


def measure() -> list[Row]:
    kills, chance = int(os.environ.get("KILLS", "200")), random.Random(12)
    seconds = 60.0 * float(os.environ.get("MINUTES", "inf")) / len(ORCHESTRATORS)
    rows = []
    with world_and_engine() as (world, endpoints), closing(_killer(world, endpoints)) as killer:
        for name, orchestrator in ORCHESTRATORS.items():
            tasks = orchestrator(killer, world, endpoints)
            until = time.monotonic() + seconds
            rows += _rows(name, _trials(tasks, world, endpoints, kills // len(ORCHESTRATORS), until, chance))
    return rows


@contextmanager
def world_and_engine() -> Iterator[tuple[World, Endpoints]]:
    with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as folder:
        world = make_world(Path(folder))
        with engine(world) as endpoints:
            yield world, endpoints


def _killer(world: World, endpoints: Endpoints) -> Killer:
    host, _, port = endpoints.control.rpartition(":")
    connection = {"conn_type": "tidegate", "host": host, "port": int(port)}
    variables = {"AIRFLOW_HOME": str(world.root / "airflow"), "AIRFLOW_CONN_TIDEGATE_DEFAULT": json.dumps(connection)}
    return Killer("tests.support.orchestrators.killed_tasks", variables)


@dataclass
class Trials:
    """What came of all releases of one orchestrator, beside how the same release ends without a kill."""

    ended: list[tuple[Scenario, Ended, Ended]] = field(default_factory=list)

    @property
    def kills(self) -> int:
        return sum(one.kills for _, one, _ in self.ended)

    def count(self, wrong: Callable[[Ended, Ended], bool]) -> int:
        found = [(scenario, one, wanted) for scenario, one, wanted in self.ended if wrong(one, wanted)]
        for scenario, one, wanted in found:
            print(f"{scenario.name}: {one}, wanted {wanted}", flush=True)
        return len(found)


def _trials(
    tasks: Airflow | Kubeflow, world: World, endpoints: Endpoints, kills: int, until: float, chance: random.Random
) -> Trials:
    trials, prefix = Trials(), type(tasks).__name__.lower()
    wanted = {
        one: _release(f"{prefix}-{one.name}", one, tasks, world, endpoints, lambda step: Kill()) for one in SCENARIOS
    }
    for scenario, one in wanted.items():
        assert [step for step, how in one.tasks.items() if how != "done"] == [scenario.refused_by][
            : bool(scenario.refused_by)
        ]
    number = 0
    while trials.kills < kills and time.monotonic() < until:
        scenario = SCENARIOS[number % len(SCENARIOS)]
        unharmed = wanted[scenario]

        def plan(step: str, unharmed: Ended = unharmed) -> Kill:
            if chance.random() < 0.5 and unharmed.boundaries.get(step):
                return Kill(boundary=chance.randint(1, unharmed.boundaries[step]))
            return Kill(seconds=chance.uniform(0.0, unharmed.took[step]))

        name = f"{prefix}-{scenario.name}-{number}"
        trials.ended.append((scenario, _release(name, scenario, tasks, world, endpoints, plan), unharmed))
        number += 1
    return trials


def _release(
    name: str,
    scenario: Scenario,
    tasks: Airflow | Kubeflow,
    world: World,
    endpoints: Endpoints,
    plan: Callable[[str], Kill],
) -> Ended:
    """Every task in turn, killed as planned and then run again, until one says no."""
    serve_first(endpoints, world, name)
    publish = world.admitted if scenario.admitted else world.publish
    directory = publish(2, scenario.source, name=name)
    ended, given = Ended(), str(directory)
    for step in STEPS[1:] if scenario.admitted else STEPS:
        with traffic(endpoints.grpc, name) if step == "canary" else nullcontext():
            kill, began = plan(step), time.perf_counter()
            found = tasks.task(step, scenario, given, name, kill)
            if found["ended"] == "killed":
                ended.kills += 1
                began = time.perf_counter()
                found = tasks.task(step, scenario, given, name, Kill())
        assert found["ended"] != "fault", found["words"]
        ended.took[step] = time.perf_counter() - began
        ended.boundaries[step] = found["boundaries"] or 0
        ended.tasks[step] = "done" if found["ended"] == "done" else "refused"
        if found["ended"] != "done":
            break
        given = found["result"]
    digest = tasks.digest(given)
    ended.verdict = digest is None or open_verdict(verdict_path(directory)).digest == digest
    ended.left = state(endpoints, name)
    with ControlClient(endpoints.control) as client:
        entries = client.journal(servable=name)
    ended.loads = sum(one.version == 2 and one.action == "AVAILABLE" for one in entries)
    return ended


def _rows(orchestrator: str, trials: Trials) -> list[Row]:
    name = f"{orchestrator}: {trials.kills} kills in {len(trials.ended)} releases"
    wrong = {
        "ended otherwise than without the kill": trials.count(lambda one, wanted: one.tasks != wanted.tasks),
        "another verdict than the one that was handed on": trials.count(lambda one, wanted: not one.verdict),
        "left another state, such as a shadow or split": trials.count(lambda one, wanted: one.left != wanted.left),
        "loaded more often": trials.count(lambda one, wanted: one.loads != wanted.loads),
    }
    return [Row(f"{name}: {what}", value, "releases", "0", value == 0) for what, value in wrong.items()]
