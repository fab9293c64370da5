"""Resident memory of an engine with one small model that answers and is logged, beyond what the model itself needs.

What it needs is a bare Python with the libraries that the model imports. Models that are code in Python run in a worker
process, whose memory counts too.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Sequence

import numpy as np
from tests.bench.lifecycle.engines import folder, python_version, resident, running
from tests.bench.rows import Row
from tests.support.engine.control import push_and_wait

from tidegate_serving.workers.family import descendants

MOST_BEYOND = 60.0
REQUESTS = 10_000
SOURCE = """
import numpy as np

class Model:
    def predict(self, inputs):
        return {"y": inputs["x"] * np.float32(2)}
"""
BARE = """
import sys
import numpy as np
print(np.ones(8).sum(), flush=True)
sys.stdin.read()
"""


def measure() -> Sequence[Row]:
    """After so many logged requests, in the engine's process and in a worker of its own."""
    bare = _bare() / 2**20
    rows = [Row("resident memory of a Python with the small model's libraries", bare, "MiB", "-", None)]
    for isolation in ("engine", "pool"):
        found = _engine(isolation) / 2**20
        what = f'resident memory of an engine with one small model and the log, isolation "{isolation}"'
        holds = found - bare <= MOST_BEYOND if isolation == "engine" else None
        target = f"at most {MOST_BEYOND:g}" if holds is not None else "-"
        rows += [
            Row(what, found, "MiB", "-", None),
            Row(f"{what}, beyond that Python", found - bare, "MiB", target, holds),
        ]
    return rows


def _bare() -> int:
    with subprocess.Popen([sys.executable, "-c", BARE], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        found = resident(process.pid)
        process.communicate()
    return found


def _engine(isolation: str) -> int:
    """Of the engine's process, and of its workers where it has some."""
    with folder() as place:
        version = python_version(place, "small", 1, SOURCE)
        with (
            running(place, isolation=isolation, log_path=place / "log") as engine,
            engine.control() as control,
            engine.client() as client,
        ):
            push_and_wait(control, version)
            for _ in range(REQUESTS):
                client.predict("small", {"x": np.array([1.0, 2.0], np.float32)})
            pid = int(engine.addresses["pid"])
            return sum(resident(one) for one in (pid, *descendants(pid)))
