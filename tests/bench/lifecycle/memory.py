"""Resident memory after many loads and unloads of a model of 100 MB: what was taken is given back.

`TIDEGATE_BENCH_CYCLES` sets how many, 50 without it. The start is taken after two cycles, when code and buffers that
are kept for good are there.
"""

from __future__ import annotations

import os
from collections.abc import Sequence

from tests.bench.lifecycle.engines import folder, python_version, resident, running
from tests.bench.rows import Row
from tests.support.engine.control import push, push_and_wait

from tidegate_serving.contract.servable import State

CYCLES = int(os.environ.get("TIDEGATE_BENCH_CYCLES", "50"))
MEGABYTES = 100
SOURCE = """
import pathlib

import numpy as np

class Model:
    def __init__(self):
        data = pathlib.Path(__file__).with_name("weights").read_bytes()
        self.weights = np.frombuffer(data, dtype=np.float32) + np.float32(1)

    def predict(self, inputs):
        return {"y": inputs["x"] + self.weights[0]}
"""


def measure() -> Sequence[Row]:
    """Loads and unloads."""
    with folder() as place:
        weights = os.urandom(1 << 20) * MEGABYTES
        big = python_version(place, "big", 1, SOURCE, weights=weights)
        small = python_version(place, "big", 2, SOURCE, weights=weights[: 1 << 20])
        with running(place, policy="resources") as engine, engine.control() as control:
            pid = int(engine.addresses["pid"])

            def cycle() -> int:
                push_and_wait(control, big)
                loaded = resident(pid)
                push(control, small)
                control.wait_until("big", 1, State.END, 60)
                control.wait_until("big", 2, State.AVAILABLE, 60)
                return loaded

            for _ in range(2):
                cycle()
            start = resident(pid)
            most = max(cycle() for _ in range(CYCLES))
            end = resident(pid)
    grown = end / start - 1
    return [
        Row("resident memory with the 100 MB model", most / 2**20, "MiB", "-", None),
        Row("resident memory at the start", start / 2**20, "MiB", "-", None),
        Row(
            f"resident memory after {CYCLES} load/unload cycles of a 100 MB model, beside the start",
            100 * grown,
            "%",
            "within 2 %",
            abs(grown) <= 0.02,
        ),
    ]
