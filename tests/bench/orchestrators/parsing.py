"""What a DAG file costs the processes that read it: all DAG files of dags/ and the operators, in fresh processes.

Time counts from where `import airflow.sdk` has ended, and so do the modules that must not be loaded.
"""

from __future__ import annotations

import json
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tests.bench.rows import Row
from tests.bench.servers import ROOT

TIMES = 5
HEAVY = ("numpy", "pandas", "grpc")
_READ = """
import airflow.sdk, json, runpy, sys, time
before, began = set(sys.modules), time.perf_counter()
for file in sys.argv[2:]:
    runpy.run_path(file)
if sys.argv[1] == "operators":
    import tidegate.airflow
    for name in tidegate.airflow.__all__:
        getattr(tidegate.airflow, name)
print(json.dumps({"seconds": time.perf_counter() - began, "loaded": sorted(set(sys.modules) - before)}))
"""


def measure() -> list[Row]:
    files = sorted(map(str, (ROOT / "dags").glob("*.py")))
    rows = []
    for what, given in {"parse of all DAG files": ["files", *files], "import of the operators": ["operators"]}.items():
        with tempfile.TemporaryDirectory(prefix="tidegate-bench-") as home:
            found = [_read(Path(home), given) for _ in range(TIMES)]
        seconds = statistics.median(one["seconds"] for one in found)
        heavy = [name for name in HEAVY if name in found[0]["loaded"]]
        rows += [
            Row(f"{what}, beyond airflow.sdk", seconds, "s", "at most 1", seconds <= 1.0),
            Row(f"{what}: of {', '.join(HEAVY)} imported", len(heavy), "modules", "0", not heavy),
        ]
    return rows


def _read(home: Path, given: list[str]) -> dict[str, Any]:
    environment = {name: value for name, value in os.environ.items() if not name.startswith("AIRFLOW")}
    done = subprocess.run(
        [sys.executable, "-c", _READ, *given],
        env={**environment, "AIRFLOW_HOME": str(home)},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    found: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return found
