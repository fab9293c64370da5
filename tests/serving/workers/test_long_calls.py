"""Calls of a model that take longer than an operator allows: their worker's process is ended, another one answers."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, publish
from tests.support.models.versions_in_workers import asked, versions_in_workers

from tidegate_serving.contract.errors import ModelFailed, Unavailable
from tidegate_serving.workers.place import WorkerPlace
from tidegate_serving.workers.shared_hosts import SharedHosts
from tidegate_serving.workers.version_workers import Staff, VersionWorkers

MOST = 3.0  # far more than a call takes that returns
MODEL = """
import threading, time
from pathlib import Path

CALLS = Path({calls!r})
time.sleep({load_seconds})

class Model:
    def predict(self, inputs):
        x = inputs["x"]
        if (x == -1).any():
            with CALLS.open("a") as file:
                file.write("one ")
            while True:
                pass
        if (x == -2).any():
            time.sleep(2 * {most})
        return {{"y": x * 2}}
"""
Make = Callable[..., VersionWorkers]


def draft(folder: Path, load_seconds: float = 0.0) -> Draft:
    model = MODEL.format(calls=str(folder / "calls"), load_seconds=load_seconds, most=MOST)
    return Draft(files={"model.py": model})


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes versions that share one process."""
    shared = SharedHosts(lambda: 1, lambda: 60)
    with versions_in_workers(tmp_path) as load:
        yield lambda name, call_seconds=MOST, load_seconds=0.0: load(
            name, draft(tmp_path, load_seconds), Staff(1, WorkerPlace(call_seconds=call_seconds), shared)
        )


def test_a_call_that_takes_too_long_fails_once_and_the_next_is_answered(make: Make, tmp_path: Path) -> None:
    workers = make("a")
    before = workers.pids
    with pytest.raises(ModelFailed, match="on this batch: a call in it took longer than the 3 s that call_seconds"):
        asked(workers, -1)
    assert (tmp_path / "calls").read_text() == "one ", "a batch that took too long is not tried again"
    assert asked(workers, 3) == 6
    assert workers.pids != before


def test_whoever_shares_the_process_loses_no_request(make: Make, tmp_path: Path) -> None:
    workers, neighbour = make("a"), make("b")
    before = neighbour.pids
    failed: list[str] = []

    def loop() -> None:
        with pytest.raises(ModelFailed) as raised:
            asked(workers, -1)
        failed.append(str(raised.value))

    looping = threading.Thread(target=loop)
    looping.start()
    eventually((tmp_path / "calls").exists)
    while looping.is_alive():
        assert asked(neighbour, 5) == 10
    looping.join()
    assert len(failed) == 1
    assert asked(neighbour, 6) == 12
    assert before[0] not in neighbour.pids


def test_a_load_may_take_longer(make: Make) -> None:
    assert make("a", call_seconds=0.01, load_seconds=1.0).pids


def test_an_engine_ends_calls_of_the_models_that_say_so(tmp_path: Path) -> None:
    root = tmp_path / "r"
    for name in ("a", "b"):
        publish(root, name, 1, draft(tmp_path))
    config = {"repository": root, "allow_unverified": True, "isolation": "own", "drain_seconds": 1}
    engine = EngineProcess(tmp_path / "engine", **config)
    with engine.config.open("a") as file:
        file.write(f"[models.a]\ncall_seconds = {MOST}\n")

    def answers(x: float) -> bool:
        try:
            return bool(client.predict("a", {"x": np.array([x], np.float32)}).outputs["y"][0] == 2 * x)
        except (ModelFailed, Unavailable):
            return False

    with engine, engine.client() as client:
        with pytest.raises(ModelFailed, match="took longer than the 3 s that call_seconds allows"):
            client.predict("a", {"x": np.array([-1], np.float32)}, timeout=60)
        assert (tmp_path / "calls").read_text() == "one "
        eventually(lambda: answers(3))
        said = client.predict("b", {"x": np.array([-2], np.float32)}, timeout=60)
        assert float(said.outputs["y"][0]) == -4, "ten minutes are allowed to others"
