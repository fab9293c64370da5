"""A new version each second under steady traffic on both endpoints: nothing fails, nothing is wrong, and every
answer comes from a version that the stream of states said was there.

`TIDEGATE_BENCH_SWAP_SECONDS` sets how long, 300 without it. Each version answers with its own number, so that a wrong
answer shows.
"""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import dataclass, field
from http.client import HTTPConnection
from pathlib import Path

import numpy as np
from tests.bench.lifecycle.engines import folder, python_version, running
from tests.bench.rows import Row
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess

from tidegate_serving.contract.servable import State, StateChange
from tidegate_serving.control_client import ControlClient

SECONDS = float(os.environ.get("TIDEGATE_BENCH_SWAP_SECONDS", "300"))
CLIENTS_PER_ENDPOINT = 2
PAUSE_SECONDS = 0.002
# Clocks of one machine: how far the report of a state may lie beside the instant that it tells of.
SLACK_US = 50_000
SOURCE = """
import numpy as np

class Model:
    def predict(self, inputs):
        return {{"y": inputs["x"] * np.float32(2) + np.float32({0})}}
"""


@dataclass(slots=True)
class Seen:
    """What one client saw: answers as (version, sent, received) in Unix microseconds, and what went wrong."""

    answers: list[tuple[int, int, int]] = field(default_factory=list)
    failed: list[str] = field(default_factory=list)
    wrong: int = 0

    def note(self, x: float, sent: int, ask: Callable[[float], tuple[int, float]]) -> None:
        """Asks once."""
        try:
            version, y = ask(x)
        except Exception as error:
            self.failed.append(f"{type(error).__name__}: {error}")
            return
        self.wrong += y != 2 * x + version
        self.answers.append((version, sent, now_us()))


def now_us() -> int:
    """Unix time in microseconds, as states carry it."""
    return time.time_ns() // 1000


def measure() -> Sequence[Row]:
    """Swaps and asks."""
    with folder() as place, running(place) as engine, engine.control() as control, engine.control() as watching:
        states: list[StateChange] = []
        listener = threading.Thread(target=lambda: states.extend(watching.watch("m")), daemon=True)
        listener.start()
        directories = [python_version(place, "m", 1, SOURCE.format(1))]
        push_and_wait(control, directories[0], labels={"stable": 1})
        stop = threading.Event()
        seen = [Seen() for _ in range(2 * CLIENTS_PER_ENDPOINT)]
        clients = [
            threading.Thread(target=_ask, args=(engine, one, number % 2 == 0, stop)) for number, one in enumerate(seen)
        ]
        for client in clients:
            client.start()
        versions = _swap(place, control)
        stop.set()
        for client in clients:
            client.join()
        control.wait_until("m", versions, State.AVAILABLE, 30)
        watching.close()
        listener.join()
    answers = [answer for one in seen for answer in one.answers]
    failed = [text for one in seen for text in one.failed]
    if failed:
        print(f"the first of {len(failed)} that failed: {failed[0]}")
    unavailable = sum(not _was_available(states, *answer) for answer in answers)
    wrong = sum(one.wrong for one in seen)
    return [
        Row("a new version each second: versions", float(versions), "versions", f"one a second, {SECONDS:g} s", None),
        Row(
            "a new version each second: answers", float(len(answers)), "answers", "steady traffic, both endpoints", None
        ),
        Row("a new version each second: failed", float(len(failed)), "answers", "0", not failed),
        Row("a new version each second: wrong", float(wrong), "answers", "0", wrong == 0),
        Row(
            "a new version each second: from a version that was not AVAILABLE",
            float(unavailable),
            "answers",
            "0",
            unavailable == 0,
        ),
    ]


def _swap(place: Path, control: ControlClient) -> int:
    """Pushes a version a second; the last one's number."""
    version, began = 1, time.monotonic()
    pause = threading.Event()
    while time.monotonic() - began < SECONDS:
        version += 1
        directory = python_version(place, "m", version, SOURCE.format(version))
        push_and_wait(control, directory, labels={"stable": version})
        pause.wait(max(0.0, began + version - 1 - time.monotonic()))
    return version


def _ask(engine: EngineProcess, seen: Seen, grpc: bool, stop: threading.Event) -> None:
    with ExitStack() as stack:
        if grpc:
            client = stack.enter_context(engine.client())

            def ask(x: float) -> tuple[int, float]:
                found = client.predict("m", {"x": np.array([x], dtype=np.float32)})
                return found.version, float(found.outputs["y"][0])
        else:
            http = stack.enter_context(contextlib.closing(HTTPConnection(engine.addresses["rest"], timeout=10.0)))

            def ask(x: float) -> tuple[int, float]:
                http.request("POST", "/v1/models/m:predict", json.dumps({"instances": [x]}))
                answer = http.getresponse()
                body = answer.read()
                if answer.status != 200:
                    raise RuntimeError(f"{answer.status}: {body.decode()}")
                return int(answer.headers["x-tidegate-version"]), float(json.loads(body)["predictions"][0])

        number = 0
        while not stop.wait(PAUSE_SECONDS):
            number = (number + 1) % 1000
            seen.note(float(number), now_us(), ask)


def _was_available(states: Sequence[StateChange], version: int, sent: int, received: int) -> bool:
    """Whether the version was AVAILABLE, or UNLOADING with a handle out, at some time between sending and receiving."""
    mine = [change for change in states if change.id.version == version]
    begins = [change.at_us for change in mine if change.state is State.AVAILABLE]
    ends = [change.at_us for change in mine if change.state is State.END]
    if not begins:
        return False
    return begins[0] - SLACK_US <= received and (not ends or sent <= ends[0] + SLACK_US)
