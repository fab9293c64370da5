"""The process of `killed_steps` for tasks of orchestrators: Airflow's operators, the launcher of Kubeflow's components.

An operator is made and executed as Airflow's task process does it, with a context of its own and the connection from
the environment, but without Airflow's supervisor, which takes seconds for each task.
"""

from __future__ import annotations

import os
import time
from collections import defaultdict
from collections.abc import Mapping
from importlib import import_module
from types import SimpleNamespace
from typing import Any

from tests.support.orchestrators import killed_steps

import tidegate.airflow
from tidegate_operators.kfp import launcher
from tidegate_operators.steps import stored_version


def airflow(
    operator: str,
    arguments: dict[str, Any],
    run: str,
    machine: Mapping[str, Any] | None = None,
) -> Any:
    """Executes an operator as the task of that name in a run; what it returns is its XCom."""
    _become(**(machine or {}))
    task = getattr(tidegate.airflow, operator)(task_id=operator, **arguments)
    context: dict[str, Any] = {
        "dag": SimpleNamespace(dag_id="release"),
        "run_id": run,
        "ti": SimpleNamespace(
            dag_id="release", task_id=operator, map_index=-1, try_number=1, xcom_push=lambda key, value: None
        ),
        "outlet_events": defaultdict(lambda: SimpleNamespace(extra=None, add=lambda asset, extra: None)),
    }
    return task.execute(context)


def kfp(component: str, document: str, machine: Mapping[str, Any] | None = None) -> None:
    """Runs a component as its container does."""
    _become(**(machine or {}))
    launcher.main([component, "--executor-input", document])


def _become(variables: Mapping[str, str] | None = None, ahead: float = 0.0, patience: float | None = None) -> None:
    """A machine with these variables, whose clock is so many seconds ahead, and that gives up on a store earlier."""
    os.environ.update(variables or {})
    if ahead:
        clock = SimpleNamespace(time=lambda: time.time() + ahead, monotonic=time.monotonic, sleep=time.sleep)
        setattr(import_module("tidegate_operators.steps.canary"), "time", clock)  # noqa: B010 - gRPC needs its own
    if patience is not None:
        setattr(stored_version, "_STALLED_SECONDS", patience)  # noqa: B010 - a constant to mypy


if __name__ == "__main__":
    killed_steps.STEPS.update(airflow=airflow, kfp=kfp)
    killed_steps.main()
