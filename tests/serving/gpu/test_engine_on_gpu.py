"""An engine with models on a GPU: faults in kernels, memory that runs out, versions that change, workers that die."""

from __future__ import annotations

import io
import os
import signal
import subprocess
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Event
from typing import Any

import numpy as np
import pytest
import torch
from tests.support.engine.control import push, push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, publish

from tidegate_serving.contract.errors import ModelFailed, TidegateError
from tidegate_serving.contract.signature import Signature, TensorSpec

pytestmark = pytest.mark.filterwarnings("ignore:The given buffer is not writable:UserWarning")  # PyTorch's own reader
ROWS, WIDTH = 4096, 1024
HELD = 4 * ROWS * WIDTH
IDS = Signature((TensorSpec("ids", "int64", (-1, 4)),), (TensorSpec("y", "float32"),))
PLUS_ONE = Draft(
    files={"model.py": "class Model:\n    def predict(self, inputs):\n        return {'y': inputs['x'] + 1}\n"}
)


class Lookup(torch.nn.Module):  # type: ignore[misc]
    """A table of 16 MiB, of which a row holds its own number; the answer is the largest number times a factor."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor
        self.table = torch.nn.Embedding(ROWS, WIDTH)
        self.table.weight.data = torch.arange(ROWS, dtype=torch.float32).repeat(WIDTH, 1).T.contiguous()

    def forward(self, ids: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": self.table(ids).amax(dim=(1, 2)) * self.factor}


class Hungry(torch.nn.Module):  # type: ignore[misc]
    """Takes a GiB of the GPU for each row."""

    def forward(self, x: torch.Tensor) -> dict[str, torch.Tensor]:
        return {"y": x + x.new_zeros(x.shape[0], 2**28).sum(dim=1)}


def exported(module: torch.nn.Module, example: torch.Tensor, name: str) -> bytes:
    program = torch.export.export(module, (example,), dynamic_shapes={name: {0: torch.export.Dim.DYNAMIC}})
    file = io.BytesIO()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        torch.export.save(program, file)
    return file.getvalue()


def lookup(root: Path, version: int, name: str = "lookup") -> Path:
    program = exported(Lookup(float(version)), torch.zeros(2, 4, dtype=torch.int64), "ids")
    return publish(root / "r", name, version, Draft("torch", {"model.pt2": program}, IDS))


def serving(folder: Path, **values: Any) -> EngineProcess:
    return EngineProcess(folder / "engine", roots=[folder / "r"], allow_unverified=True, **values)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineProcess]:
    with serving(tmp_path, batching={"timeout_us": 2000}) as running, running.control() as control:
        push_and_wait(control, lookup(tmp_path, 1))
        push_and_wait(control, publish(tmp_path / "r", "processor", 1, PLUS_ONE))
        yield running


def asked(engine: EngineProcess, *ids: int) -> float:
    with engine.client() as client:
        return float(client.predict("lookup", {"ids": np.array([ids], np.int64)}, timeout=120).outputs["y"][0])


def free_bytes() -> int:
    return int(torch.cuda.mem_get_info()[0])


def on_gpu() -> set[int]:
    """Processes that use the GPU, this one left out."""
    command = ["nvidia-smi", "--query-compute-apps=pid", "--format=csv,noheader"]
    return {int(pid) for pid in subprocess.check_output(command, text=True).split()} - {os.getpid()}


def test_a_version_on_a_gpu_runs_outside_the_engines_process(engine: EngineProcess) -> None:
    assert asked(engine, 1, 2, 3, 4) == 4.0
    (worker,) = on_gpu()
    assert worker != engine.addresses["pid"]


def test_an_id_beyond_the_table_fails_alone_and_the_version_answers_again(engine: EngineProcess) -> None:
    assert asked(engine, 1, 2, 3, 4) == 4.0
    for _ in range(2):
        with pytest.raises(ModelFailed, match="device-side assert"):
            asked(engine, 1, 2, 3, ROWS)
        with engine.client() as client:
            assert client.predict("processor", {"x": np.array([1.0], np.float32)}).outputs["y"].tolist() == [2.0]
        assert asked(engine, 5, 6, 7, 8) == 8.0


def test_requests_beside_one_with_an_id_beyond_the_table_are_answered(engine: EngineProcess) -> None:
    def ask(number: int) -> float | str:
        try:
            return asked(engine, ROWS if number == 3 else number, 0, 0, 0)
        except TidegateError as error:
            return str(error)

    with ThreadPoolExecutor(8) as pool:
        answers = list(pool.map(ask, range(8)))
    assert answers[:3] + answers[4:] == [0.0, 1.0, 2.0, 4.0, 5.0, 6.0, 7.0]
    assert "device-side assert" in str(answers[3])


def test_versions_change_and_workers_die_under_load_and_no_request_is_lost(
    engine: EngineProcess, tmp_path: Path
) -> None:
    asked(engine, 1, 2, 3, 4)
    done = Event()

    def ask(number: int) -> set[float]:
        found = set()
        while not done.is_set():
            found.add(asked(engine, number, 0, 0, 0) / number)
        return found

    with ThreadPoolExecutor(4) as pool, engine.control() as control:
        asking = [pool.submit(ask, number) for number in range(1, 5)]
        try:
            push_and_wait(control, lookup(tmp_path, 2))
            for pid in on_gpu():
                os.kill(pid, signal.SIGKILL)
            asked(engine, 1, 0, 0, 0)
            push_and_wait(control, lookup(tmp_path, 3))
        finally:
            done.set()
        assert set().union(*(answers.result() for answers in asking)) <= {1.0, 2.0, 3.0}
    assert asked(engine, 4, 0, 0, 0) == 12.0


def test_memory_of_the_gpu_comes_back_when_the_engine_has_gone(tmp_path: Path) -> None:
    before = free_bytes()
    with serving(tmp_path) as running, running.control() as control:
        push_and_wait(control, lookup(tmp_path, 1))
        assert free_bytes() <= before - HELD
    eventually(lambda: free_bytes() >= before)


def test_a_request_that_the_gpu_has_no_memory_for_fails_and_the_next_one_is_answered(tmp_path: Path) -> None:
    signature = Signature((TensorSpec("x", "float32"),), (TensorSpec("y", "float32"),))
    draft = Draft("torch", {"model.pt2": exported(Hungry(), torch.zeros(2), "x")}, signature)
    with serving(tmp_path) as running, running.control() as control, running.client() as client:
        push_and_wait(control, publish(tmp_path / "r", "hungry", 1, draft))
        with pytest.raises(ModelFailed, match=r"(?i)out of memory"):
            client.predict("hungry", {"x": np.zeros(1000, np.float32)})
        assert client.predict("hungry", {"x": np.array([1], np.float32)}).outputs["y"].tolist() == [1.0]


def test_what_does_not_fit_the_gpus_budget_is_refused_before_it_loads(tmp_path: Path) -> None:
    limits = {"gpu:0": 3 * HELD // 2}
    with serving(tmp_path, device_limits_bytes=limits) as running, running.control() as control:
        push_and_wait(control, lookup(tmp_path, 1))
        before = free_bytes()
        second = lookup(tmp_path, 1, "second")
        push(control, second)

        def words() -> str:
            status = control.status("second").servable("second")
            version = None if status is None else status.version(1)
            return "" if version is None else version.error_message

        eventually(lambda: "insufficient gpu:0 memory to load second:1: it needs" in words())
        assert free_bytes() == before
