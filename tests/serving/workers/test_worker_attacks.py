"""Models that do harm in a worker process: none takes an answer from another request, its neighbours or the engine."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, publish

from tidegate_serving.contract.errors import DeadlinePassed, ModelFailed, Unavailable
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import SERVING_DEFAULT
from tidegate_serving.platforms.loader import ask as answer_of
from tidegate_serving.platforms.platform import PlatformOptions
from tidegate_serving.worker import _next
from tidegate_serving.workers.gauges import WorkerGauges
from tidegate_serving.workers.host import started
from tidegate_serving.workers.place import WorkerPlace
from tidegate_serving.workers.shared_hosts import SharedHosts
from tidegate_serving.workers.task import WorkerTask
from tidegate_serving.workers.version_workers import Staff, VersionWorkers

MODEL = """
import ctypes, os, signal, threading
from pathlib import Path

class Model:
    def __init__(self, directory):
        self.here = Path(directory).parent

    def predict(self, inputs):
        x = inputs["x"]
        if (x == -1).any():
            os.fork()  # and both go on
        if (x == -2).any() and not os.fork():
            (self.here / "child").write_text(str(os.getpid()))
            signal.pause()
        if (x == -3).any():
            os.closerange(3, 1000)
        if (x == -4).any():
            for descriptor in range(3, 60):
                try:
                    os.write(descriptor, {garbage!r})
                except OSError:
                    pass
        if (x == -5).any():
            (self.here / "holds").touch()
            ctypes.PyDLL(None).sleep(3600)
        return {{"y": x * 2}}
"""
DEEP = b"[" * 100_000
GARBAGE = {
    "noise": b"\xff" * 64,
    "an answer ahead": b"\0\0\0\2\0\0\0\2\0\0\0\2{}[]",
    "too deep": b"\0\0\0\2" + len(DEEP).to_bytes(4, "big") + b"\0\0\0\2" + DEEP + b"[]",
    "no object": b"\0\0\0\2\0\0\0\2\0\0\0\2[][]",
}
Make = Callable[..., VersionWorkers]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes versions that share one process."""
    shared, made = SharedHosts(lambda: 1, lambda: 4.0), list[VersionWorkers]()

    def make_workers(name: str, garbage: bytes = b"") -> VersionWorkers:
        directory = publish(tmp_path, name, 1, Draft(files={"model.py": MODEL.format(garbage=garbage)}))
        task = WorkerTask(directory, (directory / "manifest.json").read_text(), PlatformOptions())
        workers = VersionWorkers(ServableId(name, 1), task, Staff(1, WorkerPlace(), shared), WorkerGauges())
        made.append(workers)
        workers.load()
        return workers

    yield make_workers
    for workers in made:
        workers.close()


def asked(workers: VersionWorkers, x: float) -> float:
    return float(answer_of(workers, SERVING_DEFAULT, {"x": np.array([x], np.float32)}).outputs["y"][0])


def lives(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rsplit(")", 1)[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


def has_ended(told: Path) -> bool:
    """The process whose number stands in a file."""
    return not lives(int(told.read_text()))


def test_a_child_that_goes_on_answers_nobody(make: Make) -> None:
    workers, neighbour = make("a"), make("b")
    pids = workers.pids
    for turn in range(3):
        assert asked(workers, -1) == -2
        assert [asked(workers, x) for x in range(turn, 20)] == [2 * x for x in range(turn, 20)]
        assert asked(neighbour, 7) == 14
    assert workers.pids == neighbour.pids == pids


def test_a_child_that_goes_on_answers_no_client(tmp_path: Path) -> None:
    publish(tmp_path / "r", "a", 1, Draft(files={"model.py": MODEL.format(garbage=b"")}))
    config = {"repository": tmp_path / "r", "allow_unverified": True, "isolation": "pool"}
    with EngineProcess(tmp_path / "engine", **config) as engine, engine.client() as client:

        def answer(x: float) -> float:
            return float(client.predict("a", {"x": np.array([x], np.float32)}).outputs["y"][0])

        for _ in range(20):
            assert answer(-1) == -2
            assert [answer(x) for x in range(20)] == [2 * x for x in range(20)]


def test_children_end_with_their_process(make: Make, tmp_path: Path) -> None:
    workers = make("a")
    assert asked(workers, -2) == -4
    child = int(eventually(lambda: (tmp_path / "a" / "child").exists() and (tmp_path / "a" / "child").read_text()))
    assert lives(child)
    workers.close()
    eventually(lambda: not lives(child))


@pytest.mark.parametrize("garbage", GARBAGE.values(), ids=GARBAGE.keys())
def test_whoever_writes_to_the_sockets_harms_itself_alone(make: Make, garbage: bytes) -> None:
    workers, neighbour = make("a", garbage), make("b")
    with pytest.raises(ModelFailed, match="a:1 ended its worker process"):
        asked(workers, -4)
    for x in range(1, 5):
        assert asked(workers, x) == asked(neighbour, x) == 2 * x
    assert workers.pids != neighbour.pids


def test_whoever_closes_all_descriptors_harms_itself_alone(make: Make) -> None:
    workers, neighbour = make("a"), make("b")
    with pytest.raises(ModelFailed, match="a:1 ended its worker process"):
        asked(workers, -3)
    for x in range(1, 5):
        assert asked(workers, x) == asked(neighbour, x) == 2 * x


def test_memory_is_taken_from_workers_first(make: Make) -> None:
    (pid,) = make("a").pids
    ours, theirs = (int(Path(f"/proc/{one}/oom_score_adj").read_text()) for one in ("self", pid))
    assert theirs == min(1000, ours + 500)


def test_each_process_competes_for_processors_as_one(make: Make) -> None:
    """Linux groups threads by sessions."""
    (pid,) = make("a").pids
    assert os.getsid(pid) == pid != os.getsid(0)


def test_a_process_that_is_not_wanted_any_more_ends_well_although_it_was_just_asked_whether_it_lives() -> None:
    engine, worker = socket.socketpair()
    with worker:
        engine.send(b"??")
        worker.send(b"an answer that is not read")
        engine.close()
        assert _next(worker) is None


def test_whoever_keeps_all_of_python_waiting_gets_a_process_of_its_own(make: Make, tmp_path: Path) -> None:
    workers, neighbour = make("a"), make("b")

    def hold() -> None:
        with pytest.raises((ModelFailed, Unavailable)):
            asked(workers, -5)

    holding = threading.Thread(target=hold)
    holding.start()
    eventually((tmp_path / "a" / "holds").exists)
    assert asked(neighbour, 7) == 14, "its batch is tried again in another process"
    assert lives(neighbour.pids[0])
    eventually(lambda: workers.pids and workers.pids != neighbour.pids)
    workers.close()
    holding.join()
    assert asked(neighbour, 8) == 16


def does_nothing(pid: int) -> bool:
    """Whether all threads of a process are stopped, or it has gone."""
    try:
        stats = [stat.read_text() for stat in Path(f"/proc/{pid}/task").glob("*/stat")]
    except OSError:  # one went in between
        return False
    return all(stat.rpartition(") ")[2][0] == "T" for stat in stats)


def test_a_process_that_somebody_stops_is_replaced(make: Make) -> None:
    workers = make("a")
    before = workers.pids
    os.kill(before[0], signal.SIGSTOP)
    eventually(lambda: does_nothing(before[0]))  # the thread that answers may stop a bit later
    assert asked(workers, 1) == 2, "its batch is tried again"
    assert workers.pids != before
    assert not lives(before[0])


def test_a_process_that_stops_while_it_loads_is_ended(tmp_path: Path) -> None:
    stops = (
        "import os, signal, time\nos.kill(os.getpid(), signal.SIGSTOP)\ntime.sleep(600)\n"  # it may stop a bit later
    )
    directory = publish(tmp_path, "a", 1, Draft(files={"model.py": stops + MODEL.format(garbage=b"")}))
    task = WorkerTask(directory, (directory / "manifest.json").read_text(), PlatformOptions())
    workers = VersionWorkers(ServableId("a", 1), task, Staff(1, WorkerPlace()), WorkerGauges())
    with pytest.raises(ModelFailed, match="it was stopped by a signal and did not go on for 1 s"):
        workers.load()


def test_a_process_that_has_ended_can_be_ended_once_more() -> None:
    host, line = started(WorkerPlace())
    os.kill(host.pid, signal.SIGKILL)
    assert host.ending() == "it was ended by SIGKILL"
    host.kill()
    host.leave(line)


def test_whoever_keeps_all_of_python_waiting_keeps_no_client_waiting_for_long(tmp_path: Path) -> None:
    root = tmp_path / "r"
    for name in ("a", "b"):
        publish(root, name, 1, Draft(files={"model.py": MODEL.format(garbage=b"")}))
    config = {
        "repository": root,
        "allow_unverified": True,
        "isolation": "pool",
        "pool_processes": 1,
        "drain_seconds": 1,
    }
    with EngineProcess(tmp_path / "engine", **config) as engine, engine.client() as client:

        def hold() -> None:
            with pytest.raises((DeadlinePassed, ModelFailed, Unavailable)):
                client.predict("a", {"x": np.array([-5], np.float32)}, timeout=20)

        holding = threading.Thread(target=hold)
        holding.start()
        eventually((root / "a" / "holds").exists)
        said = client.predict("b", {"x": np.array([7], np.float32)}, timeout=20)
        assert float(said.outputs["y"][0]) == 14
        holding.join()


ENGINE = """
import sys, threading
from pathlib import Path
from tests.serving.workers.test_worker_attacks import asked, make
folder = Path(sys.argv[1])
with __import__("contextlib").contextmanager(make.__wrapped__)(folder) as make_workers:
    workers = make_workers("a")
    (folder / "pid").write_text(str(workers.pids[0]))
    asked(workers, -2)
    asked(workers, -5)
"""


def test_a_process_ends_with_an_engine_that_is_killed_although_a_model_holds_all_of_python(tmp_path: Path) -> None:
    with subprocess.Popen([sys.executable, "-c", ENGINE, str(tmp_path)]) as engine:
        try:
            eventually(lambda: (tmp_path / "a" / "holds").exists() and (tmp_path / "a" / "child").exists())
        finally:
            engine.kill()
    for told in (tmp_path / "pid", tmp_path / "a" / "child"):
        assert eventually(partial(has_ended, told))
