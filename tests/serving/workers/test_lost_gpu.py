"""A worker whose GPU answers it no more ends, and another one takes its place; played by a driver that fails on demand.

On real GPUs the same is tried in `tests/serving/gpu`.
"""

from __future__ import annotations

import ctypes
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, publish

from tidegate_serving.contract.errors import ModelFailed
from tidegate_serving.contract.signature import Signature, TensorSpec
from tidegate_serving.workers.lost_gpu import gpu_error

LOOKUP = """
import ctypes, os
import numpy as np

class Model:
    def __init__(self):
        self.driver = ctypes.CDLL({driver!r})
        self.lost = False

    def predict(self, inputs):
        if (inputs["x"] == 99).any():  # as a device-side assert, which every further call hears of
            self.lost = True
            self.driver.fault()
        if self.lost:
            raise RuntimeError("CUDA error: device-side assert triggered")
        if (inputs["x"] == 7).any():
            raise ValueError("no sevens")
        return {{"pid": np.full(len(inputs["x"]), os.getpid(), np.int64)}}
"""
PIDS = Signature((TensorSpec("x", "int64"),), (TensorSpec("pid", "int64"),))


@pytest.fixture(scope="module")
def driver(tmp_path_factory: pytest.TempPathFactory) -> str:
    library = tmp_path_factory.mktemp("driver") / "driver.so"
    source = Path(__file__).with_name("driver.c")
    subprocess.run(["cc", "-shared", "-fPIC", "-Wl,-soname,libcuda.so.1", "-o", library, source], check=True)
    return str(library)


@pytest.fixture
def engine(tmp_path: Path, driver: str) -> Iterator[EngineProcess]:
    draft = Draft(files={"model.py": LOOKUP.format(driver=driver)}, signature=PIDS)
    values = {"roots": [tmp_path / "r"], "allow_unverified": True, "pool_processes": 1}
    with EngineProcess(tmp_path / "engine", **values) as running, running.control() as control:
        for name in ("faulty", "neighbour"):
            push_and_wait(control, publish(tmp_path / "r", name, 1, draft))
        yield running


def asked(engine: EngineProcess, model: str, *x: int) -> int:
    with engine.client() as client:
        pids = set(client.predict(model, {"x": np.array(x, np.int64)}).outputs["pid"])
    (pid,) = pids
    return int(pid)


def test_a_worker_that_its_gpu_answers_no_more_is_replaced_and_its_neighbours_leave_it(engine: EngineProcess) -> None:
    shared = asked(engine, "faulty", 1)
    assert asked(engine, "neighbour", 1) == shared
    with pytest.raises(ModelFailed, match="device-side assert"):
        asked(engine, "faulty", 99)
    eventually(lambda: engine.said().count(f"(pid {shared}) died") == 2)
    after = asked(engine, "faulty", 1), asked(engine, "neighbour", 1)
    assert shared not in after
    assert after[0] != after[1], "each has a process of its own from then on"
    with pytest.raises(ModelFailed, match="device-side assert"):
        asked(engine, "faulty", 99)
    assert asked(engine, "neighbour", 1) == after[1]
    assert "no more (CUDA_ERROR_ASSERT)" in engine.said()


def test_a_call_that_fails_while_the_gpu_answers_ends_nothing(engine: EngineProcess) -> None:
    before = asked(engine, "faulty", 1)
    with pytest.raises(ModelFailed, match="no sevens"):
        asked(engine, "faulty", 7)
    assert asked(engine, "faulty", 1) == before


def test_a_process_without_a_gpu_asks_nobody() -> None:
    with pytest.raises(OSError, match=r"libcuda\.so\.1"):
        ctypes.CDLL("libcuda.so.1")
    assert gpu_error() == ""
