"""How much the load and the unload of a model of 1 GB disturb another model's tail latency.

`TIDEGATE_BENCH_BIG_MB` sets the size, 1024 without it. Quiet and disturbed stretches take turns, so that the machine's
own moods meet both. The client and the engine share the machine as they would.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Sequence
from pathlib import Path

import numpy as np
from tests.bench.lifecycle.engines import folder, python_version, running
from tests.bench.rows import Row
from tests.support.engine.control import push_and_wait

from tidegate_serving.client import Client
from tidegate_serving.contract.desired_state import DesiredState
from tidegate_serving.contract.servable import State
from tidegate_serving.control_client import ControlClient

MEGABYTES = int(os.environ.get("TIDEGATE_BENCH_BIG_MB", "1024"))
ROUNDS = int(os.environ.get("TIDEGATE_BENCH_ROUNDS", "4"))
QUIET_SECONDS = 3.0
PAUSE_SECONDS = 0.002
SMALL = """
import numpy as np

class Model:
    def predict(self, inputs):
        return {"y": inputs["x"] * np.float32(2)}
"""
BIG = """
import pathlib

import numpy as np

class Model:
    def __init__(self):
        self.weights = np.fromfile(pathlib.Path(__file__).with_name("weights"), dtype=np.float32)

    def predict(self, inputs):
        return {"y": inputs["x"] + self.weights[0]}
"""


def measure() -> Sequence[Row]:
    """Loads and unloads B while A is asked."""
    with folder() as place:
        small = python_version(place, "a", 1, SMALL)
        big = python_version(place, "b", 1, BIG, weights=np.zeros(MEGABYTES << 18, dtype=np.float32).tobytes())
        with running(place) as engine, engine.control() as control, engine.client() as client:
            push_and_wait(control, small)
            _asked(client, threading.Event(), 1.0)
            quiet: list[float] = []
            disturbed: list[float] = []
            for _ in range(ROUNDS):
                quiet += _asked(client, threading.Event(), QUIET_SECONDS)
                disturbed += _while_loading(client, control, big)
    calm, rough = float(np.percentile(quiet, 99)), float(np.percentile(disturbed, 99))
    size = f"{MEGABYTES} MB model B"
    return [
        Row("p99 of model A, quiet", calm * 1e3, "ms", "-", None),
        Row(f"p99 of model A while {size} loads and unloads", rough * 1e3, "ms", "-", None),
        Row(
            f"p99 of model A while {size} loads and unloads, beside its quiet p99",
            rough / calm,
            "times",
            "at most 1.2",
            rough / calm <= 1.2,
        ),
    ]


def _while_loading(client: Client, control: ControlClient, big: Path) -> list[float]:
    stop = threading.Event()

    def swap() -> None:
        push_and_wait(control, big)
        control.set_desired_state(DesiredState("b", requested_by="bench"))
        control.wait_until("b", 1, State.END, 120)
        stop.set()

    other = threading.Thread(target=swap)
    other.start()
    latencies = _asked(client, stop, 300.0)
    other.join()
    return latencies


def _asked(client: Client, stop: threading.Event, seconds: float) -> list[float]:
    """Latencies in seconds, one request after the other with a pause between."""
    inputs = {"x": np.array([1.0], dtype=np.float32)}
    latencies = []
    deadline = time.monotonic() + seconds
    while time.monotonic() < deadline and not stop.wait(PAUSE_SECONDS):
        began = time.perf_counter()
        client.predict("a", inputs)
        latencies.append(time.perf_counter() - began)
    return latencies
