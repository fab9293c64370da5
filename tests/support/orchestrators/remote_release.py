"""Runs releases as an Airflow worker that has nothing of the engine's: `python -m` and this module, with JSON.

For each of `runs`, the conf of a run of the DAG file, prints as JSON how it ended. From the second run on clients ask
the engine at `grpc` meanwhile, since a canary needs them. `look` is a folder, and what it holds here is said too.
"""

from __future__ import annotations

import json
import sys
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Any

from tests.support.release.world import traffic

from tidegate_flights.airflow_runner import AirflowRunner


def main(told: dict[str, Any]) -> dict[str, Any]:
    """What became of each run, and what this machine has of the folder."""
    dag = Path(told["dag"])
    ended: list[dict[str, Any]] = []
    with AirflowRunner(Path(told["home"]), dag.parent) as runner:
        for number, conf in enumerate(told["runs"]):
            with traffic(told["grpc"], told["servable"]) if number else nullcontext():
                ended.append(asdict(runner.run(dag, conf, told["connections"])))
    return {"ended": ended, "look": [path.name for path in Path(told["look"]).iterdir()]}


if __name__ == "__main__":
    print(json.dumps(main(json.loads(sys.argv[1]))))
