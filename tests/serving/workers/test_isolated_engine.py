"""An engine whose models run in processes of their own: nothing that happens to these reaches its clients."""

from __future__ import annotations

import contextlib
import os
import signal
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, adding, publish

from tidegate_serving.contract.errors import ModelFailed
from tidegate_serving.contract.signature import Signature, TensorSpec

PID = """
import os
import numpy as np

class Model:
    def predict(self, inputs):
        if (inputs["x"] == -1).any():
            os.kill(os.getpid(), 9)
        return {"y": np.full(len(inputs["x"]), os.getpid(), np.int64)}
"""
MEGABYTE = 1 << 20
WIDE = 5 * MEGABYTE // 4
PIDS = Signature((TensorSpec("x", "float32"),), (TensorSpec("y", "int64"),))


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineProcess]:
    directory = publish(tmp_path / "r", "m", 1, Draft(files={"model.py": PID}, signature=PIDS))
    inside = publish(tmp_path / "r", "inside", 1, Draft(files={"model.py": PID}, signature=PIDS))
    config = {"isolation": "own", "batching": {"concurrency": 2, "max_batch_rows": 8}}
    with EngineProcess(tmp_path / "engine", roots=[tmp_path / "r"], allow_unverified=True, **config) as running:
        running.config.write_text(running.config.read_text() + '[models.inside]\nisolation = "engine"\n')
        with running.control() as control:
            control.reload(requested_by="test")
            push_and_wait(control, directory)
            push_and_wait(control, inside)
        yield running


def workers(engine: EngineProcess) -> list[int]:
    """Processes that run workers and live: what the keepers keep that the engine started."""
    parents = {int(path.name): parent(path) for path in Path("/proc").glob("[0-9]*")}
    keepers = {pid for pid, of in parents.items() if of == engine.addresses["pid"]}
    return sorted(pid for pid, of in parents.items() if of in keepers and lives(pid))


def parent(process: Path) -> int | None:
    try:
        return int((process / "stat").read_text().rpartition(")")[2].split()[1])
    except (FileNotFoundError, ProcessLookupError):
        return None


def is_replaced(engine: EngineProcess, gone: int) -> bool:
    now = workers(engine)
    return gone not in now and len(now) == 2


def lives(pid: int) -> bool:
    try:
        return "State:\tZ" not in Path(f"/proc/{pid}/status").read_text()
    except (FileNotFoundError, ProcessLookupError):
        return False


def asked(engine: EngineProcess, model: str, *x: float) -> list[int]:
    with engine.client() as client:
        return [int(pid) for pid in client.predict(model, {"x": np.array(x, np.float32)}).outputs["y"]]


def test_a_model_runs_where_its_config_says(engine: EngineProcess) -> None:
    assert set(asked(engine, "m", 1, 2)) <= set(workers(engine))
    assert len(workers(engine)) == 2
    assert asked(engine, "inside", 1) == [engine.addresses["pid"]]


def test_whoever_a_request_waits_for_on_its_way_to_a_worker_and_back_takes_short_turns(engine: EngineProcess) -> None:
    (worker,) = asked(engine, "m", 1)

    def takes_short_turns(task: Path) -> bool:
        return bool(os.sched_getscheduler(int(task.name)) & os.SCHED_RESET_ON_FORK)

    executors = [
        takes_short_turns(task)
        for task in Path(f"/proc/{engine.addresses['pid']}/task").iterdir()
        if (task / "comm").read_text() == "tg-exec\n"
    ]
    assert True in executors
    assert True in map(takes_short_turns, Path(f"/proc/{worker}/task").iterdir())


def test_workers_that_are_killed_under_load_lose_no_request(engine: EngineProcess) -> None:
    stop = threading.Event()

    def load() -> int:
        count = 0
        with engine.client() as client:
            while not stop.is_set():
                client.predict("m", {"x": np.array([1], np.float32)}, timeout=60)
                count += 1
        return count

    with ThreadPoolExecutor(8) as threads:
        running = [threads.submit(load) for _ in range(8)]
        for _ in range(5):
            before = workers(engine)
            os.kill(before[0], signal.SIGKILL)
            eventually(partial(is_replaced, engine, before[0]), 60)
        stop.set()
        assert sum(one.result() for one in running) > 20


def test_a_request_that_ends_its_worker_fails_alone(engine: EngineProcess) -> None:
    with ThreadPoolExecutor(16) as threads, engine.client() as client:

        def ask(x: float) -> str:
            try:
                client.predict("m", {"x": np.array([x], np.float32)}, timeout=120)
            except ModelFailed as error:
                return error.message
            return "answered"

        found = list(threads.map(ask, [*range(1, 8), -1, *range(8, 16)]))
    assert "ended its worker process on this batch: it was ended by SIGKILL" in found.pop(7)
    assert set(found) == {"answered"}


def test_a_request_among_many_that_ends_its_worker_ends_three_and_no_more(tmp_path: Path) -> None:
    """With the whole batch, with that once more, and alone."""
    publish(tmp_path / "r", "m", 1, Draft(files={"model.py": PID}, signature=PIDS))
    batching = {"concurrency": 1, "max_batch_rows": 32, "timeout_us": 2_000_000}
    config = {"repository": tmp_path / "r", "allow_unverified": True, "isolation": "own", "batching": batching}
    with EngineProcess(tmp_path / "engine", **config) as running, ThreadPoolExecutor(32) as threads:

        def ask(x: float) -> str:
            try:
                return str(asked(running, "m", x))
            except ModelFailed as error:
                return error.message

        found = list(threads.map(ask, [*range(1, 23), -1, *range(23, 32)]))
        assert "ended its worker process on this batch" in found.pop(22)
        assert not any("ended" in answer for answer in found)
        assert running.said().count("died: it was ended by SIGKILL") == 3


def test_memory_between_engine_and_worker_takes_none_at_rest_and_serves_again(tmp_path: Path) -> None:
    wide = Signature((TensorSpec("x", "float32", (-1, WIDE)),), (TensorSpec("y", "float32", (-1, WIDE)),))
    double = "class Model:\n    def predict(self, inputs):\n        return {'y': inputs['x'] * 2}\n"
    publish(tmp_path / "r", "m", 1, Draft(files={"model.py": double}, signature=wide, example={"x": [0.0] * WIDE}))
    config = {"repository": tmp_path / "r", "allow_unverified": True, "isolation": "own"}
    rows = np.arange(8 * WIDE, dtype=np.float32).reshape(8, WIDE)
    with EngineProcess(tmp_path / "engine", **config) as engine, engine.client() as client:
        asked = workers(engine)
        for count, megabytes in ((2, [16, 16]), (8, []), (2, [16, 16]), (2, [16, 16])):
            x = rows[:count]
            np.testing.assert_array_equal(client.predict("m", {"x": x}, timeout=60).outputs["y"], x * 2)
            # One for each way, but for a batch alone where it is very large.
            eventually(partial(holds, engine, megabytes))
            eventually(lambda: all(memory.st_blocks == 0 for memory in shared(engine)), 60)
        assert workers(engine) == asked, "engine and worker disagree on what they keep"


def holds(engine: EngineProcess, megabytes: list[int]) -> bool:
    return [memory.st_size // MEGABYTE for memory in shared(engine)] == megabytes


def shared(engine: EngineProcess) -> list[os.stat_result]:
    """The memory that the engine shares with workers."""
    found = []
    for one in Path(f"/proc/{engine.addresses['pid']}/fd").iterdir():
        with contextlib.suppress(FileNotFoundError):  # it was closed since
            if str(one.readlink()).startswith("/memfd:tidegate-batch"):
                found.append(one.stat())
    return found


def test_code_in_python_runs_outside_the_engine_unless_its_config_says_otherwise(tmp_path: Path) -> None:
    for name in ("a", "b", "c"):
        publish(tmp_path / "r", name, 1, Draft(files={"model.py": PID}, signature=PIDS))
    signature = Signature((TensorSpec("key", "string"),), (TensorSpec("value", "int64"),))
    table = Draft("table", {"t.json": '{"a": 1}'}, signature, example={"key": "a"})
    publish(tmp_path / "r", "t", 1, table)
    config = {"repository": tmp_path / "r", "allow_unverified": True, "pool_processes": 2}
    with EngineProcess(tmp_path / "engine", **config) as engine, engine.client() as client:
        assert {pid for name in "abc" for pid in asked(engine, name, 1)} == set(workers(engine))
        assert len(workers(engine)) == 2
        with pytest.raises(ModelFailed, match="a:1 ended its worker process on this batch: it was ended by SIGKILL"):
            asked(engine, "a", -1)
        assert [len(asked(engine, name, 1)) for name in "abc"] == [1, 1, 1]
        assert client.predict("t", {"key": ["a"]}).outputs["value"].tolist() == [1]


def test_the_metrics_count_the_workers(engine: EngineProcess) -> None:
    address = f"http://{engine.addresses['rest']}/metrics"
    with urlopen(address, timeout=30) as answer:
        assert 'tidegate_worker_processes{model="m",version="1"} 2' in answer.read().decode()


def test_workers_end_with_their_engine(engine: EngineProcess) -> None:
    pids = workers(engine)
    assert len(pids) == 2
    os.kill(engine.addresses["pid"], signal.SIGKILL)
    eventually(lambda: not any(lives(pid) for pid in pids))


def test_a_version_that_is_withdrawn_leaves_no_worker(engine: EngineProcess, tmp_path: Path) -> None:
    pids = workers(engine)
    directory = publish(tmp_path / "r", "m", 2, adding(1))
    with engine.control() as control:
        push_and_wait(control, directory)
    eventually(lambda: not any(lives(pid) for pid in pids))
    assert len(workers(engine)) == 2
