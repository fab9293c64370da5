"""Runs a release as Airflow's operators do it: `python -m` and this module, with DIRECTORY HELD_OUT KEY RULE.

Each operator's `execute` is called in the DAG's order with what the one before returned; the environment has connection
`tidegate_default`. Prints what each returned or pushed, as JSON, and the refusal that ended it.
"""

from __future__ import annotations

import json
import sys
from typing import Any

from airflow.sdk import DAG
from airflow.sdk.execution_time.context import OutletEventAccessors

from tidegate.airflow import CanaryOperator, PromoteOperator, ServeModelOperator, ValidateModelOperator
from tidegate_operators.airflow.compat import AirflowFailException


class Instance:
    """A task instance that keeps what is pushed."""

    dag_id, map_index = "release", -1

    def __init__(self, task_id: str) -> None:
        self.task_id = task_id
        self.pushed: dict[str, Any] = {}

    def xcom_push(self, key: str, value: Any) -> None:
        self.pushed[key] = value


def main(directory: str, held_out: str, private_key: str, rule: dict[str, Any]) -> dict[str, Any]:
    """The tasks' results by task, and what ended the run; empty where it came through."""
    said: dict[str, Any] = {}
    before: Any = directory
    for task_id in ("validate", "serve", "canary", "promote"):
        operator: Any
        if task_id == "validate":
            operator = ValidateModelOperator(
                task_id=task_id, directory=before, held_out=held_out, private_key=private_key
            )
        elif task_id == "serve":
            operator = ServeModelOperator(task_id=task_id, directory=before)
        elif task_id == "canary":
            operator = CanaryOperator(task_id=task_id, directory=before, rule=rule)
        else:
            operator = PromoteOperator(task_id=task_id, directory=before)
        instance = Instance(task_id)
        context = {"ti": instance, "dag": DAG("release"), "run_id": f"run of {directory}"}
        try:
            before = operator.execute({**context, "outlet_events": OutletEventAccessors()})
        except AirflowFailException as error:
            return {"said": {**said, task_id: instance.pushed["return_value"]}, "refusal": str(error)}
        said[task_id] = before
    return {"said": said, "refusal": ""}


if __name__ == "__main__":
    version, held_out, key, rule = sys.argv[1:]
    print(json.dumps(main(version, held_out, key, json.loads(rule))))
