"""The process of `killed_steps` for tasks of orchestrators: Airflow's operators, the launcher of Kubeflow's components.

An operator is made and executed as Airflow's task process does it, with a context of its own and the connection from
the environment, but without Airflow's supervisor, which takes seconds for each task.
"""

from __future__ import annotations

from collections import defaultdict
from types import SimpleNamespace
from typing import Any

from tests.support import killed_steps

import tidegate.airflow
from tidegate_operators.kfp import launcher


def airflow(operator: str, arguments: dict[str, Any], run: str) -> Any:
    """Executes an operator as the task of that name in a run; what it returns is its XCom."""
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


def kfp(component: str, document: str) -> None:
    """Runs a component as its container does."""
    launcher.main([component, "--executor-input", document])


if __name__ == "__main__":
    killed_steps.STEPS.update(airflow=airflow, kfp=kfp)
    killed_steps.main()
