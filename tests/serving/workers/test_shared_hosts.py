"""Versions that share worker processes: who runs where, and what one of them can do to the others."""

from __future__ import annotations

import errno
import os
import socket
import statistics
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import pytest
from tests.support.eventually import at_best, eventually
from tests.support.models.versions import Draft, publish

from tidegate_serving.contract.errors import ModelFailed, Unavailable
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec
from tidegate_serving.platforms.loader import ask as answer_of
from tidegate_serving.platforms.platform import PlatformOptions
from tidegate_serving.workers.gauges import WorkerGauges
from tidegate_serving.workers.place import WorkerPlace
from tidegate_serving.workers.process import WorkerDescription
from tidegate_serving.workers.shared_hosts import SharedHosts
from tidegate_serving.workers.task import WorkerTask
from tidegate_serving.workers.version_workers import Staff, VersionWorkers

SIGNATURE = Signature((TensorSpec("x", "float32"),), (TensorSpec("pid", "int64"),))
MODEL = """
import os, time
import numpy as np

STOP = ""

class Model:
    def predict(self, inputs):
        if (inputs["x"] == -1).any():
            os.kill(os.getpid(), 9)
        if (inputs["x"] == -3).any():
            time.sleep(3600)
        while (inputs["x"] == -4).any() and not os.path.exists(STOP):
            for _ in range(10_000_000):
                pass
        return {"pid": np.full(len(inputs["x"]), os.getpid(), np.int64)}
"""
HERE = WorkerPlace()


class Versions:
    """Makes versions that share at most two processes; `described` is what each said of itself, by name."""

    def __init__(self, folder: Path) -> None:
        self.described: dict[str, WorkerDescription] = {}
        self._folder = folder
        self.shared = SharedHosts(lambda: 2, lambda: 60)
        self._made: list[VersionWorkers] = []

    def __call__(self, name: str, count: int = 1, model: str = MODEL, place: WorkerPlace = HERE) -> VersionWorkers:
        draft = Draft(files={"model.py": model}, signature=SIGNATURE)
        directory = publish(self._folder / str(len(self._made)), name, 1, draft)
        task = WorkerTask(directory, (directory / "manifest.json").read_text(), PlatformOptions())
        workers = VersionWorkers(ServableId(name, 1), task, Staff(count, place, self.shared), WorkerGauges())
        self._made.append(workers)
        self.described[name] = workers.load()
        return workers

    def close(self) -> None:
        for workers in self._made:
            workers.close()


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Versions]:
    with closing(Versions(tmp_path)) as versions:
        yield versions


def asked(workers: VersionWorkers, x: float = 1) -> int:
    """The process that answers."""
    return int(answer_of(workers, SERVING_DEFAULT, {"x": np.array([x], np.float32)}).outputs["pid"][0])


def lives(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


def test_versions_share_as_many_processes_as_there_may_be(make: Versions) -> None:
    pids = [asked(make(name)) for name in ("a", "b", "c", "d")]
    assert len(set(pids)) == 2
    assert sorted(pids.count(pid) for pid in set(pids)) == [2, 2]


def test_workers_of_one_version_are_in_different_processes(make: Versions) -> None:
    first, second = make("a", 2), make("b", 3)
    assert len(set(first.pids)) == 2
    assert len(set(second.pids)) == 3, "one more than else may be"
    assert set(first.pids) < set(second.pids)


def test_another_place_is_another_process(make: Versions) -> None:
    processor = min(os.sched_getaffinity(0))
    first, elsewhere = make("a"), make("b", place=WorkerPlace(processors=(processor,)))
    assert asked(first) != asked(elsewhere)
    assert os.sched_getaffinity(asked(elsewhere)) == {processor}


def test_a_process_ends_with_its_last_version(make: Versions) -> None:
    versions = [make(name) for name in ("a", "b", "c")]
    pids = [asked(workers) for workers in versions]
    assert pids[2] in pids[:2]
    stays = versions[2]
    gone = versions[pids.index(pids[2])]
    gone.close()
    assert asked(stays) == pids[2]
    stays.close()
    assert not lives(pids[2])


def test_bytes_that_versions_hold_are_counted_once(make: Versions) -> None:
    for name in ("a", "b"):
        make(name)
    make("c", model=MODEL + "\nDATA = np.ones(25_000_000)\n")
    held = {name: described.held["ram"] for name, described in make.described.items()}
    assert 190e6 < held["c"] < 230e6, "its own 200 MB, and not once more what the process had before"
    assert held["a"] < 150e6


@pytest.mark.parametrize(("told", "most"), [("1 << 60", 300e6), ("-(1 << 60)", 0)])
def test_no_version_holds_more_than_its_process_or_less_than_nothing(make: Versions, told: str, most: float) -> None:
    make("bad", model=f"import __main__\n__main__.Held.take = lambda self: {told}\n" + MODEL)
    assert 0 <= make.described["bad"].held["ram"] <= most


def test_what_a_model_holds_of_a_gpu_is_told_by_its_workers_and_its_memory_is_not(make: Versions) -> None:
    tells = "    def device_bytes(self):\n        return {'gpu:0': 5, 'gpu:1': -7, 'ram': 1 << 60}\n"
    make("big", 2, model=MODEL + tells)
    held = make.described["big"].held
    assert (held["gpu:0"], held["gpu:1"]) == (10, 0)
    assert held["ram"] < 1 << 40


def test_who_ends_a_process_takes_the_others_along_once(make: Versions) -> None:
    good, other, bad = make("good"), make("other"), make("bad")
    neighbour = next(workers for workers in (good, other) if asked(workers) == asked(bad))
    with pytest.raises(ModelFailed, match="bad:1 ended its worker process on this batch: it was ended by SIGKILL"):
        asked(bad, -1)
    assert asked(neighbour) != asked(bad)
    before = asked(neighbour)
    with pytest.raises(ModelFailed):
        asked(bad, -1)
    assert asked(neighbour) == before
    assert neighbour.restarts == 1


def test_nothing_is_lost_when_a_shared_process_dies_under_load(make: Versions) -> None:
    versions = [make(name) for name in ("a", "b", "c", "d")]
    with ThreadPoolExecutor(8) as threads:
        answers = [threads.submit(asked, workers, number) for number in range(1, 50) for workers in versions]
        os.kill(asked(versions[0]), 9)
        assert all(answer.result() > 0 for answer in answers)


def test_a_load_that_ends_its_process_is_tried_again_in_one_of_its_own(make: Versions) -> None:
    versions = [make("a"), make("b")]
    for _ in range(2):
        with pytest.raises(ModelFailed, match="bad:1 cannot be loaded by a worker process: it ended with status 7"):
            make("bad", model="import os\nos._exit(7)")
        assert all(asked(workers) > 0 for workers in versions)
    assert sum(workers.restarts for workers in versions) == 1


def test_a_load_whose_process_another_one_ends_is_tried_again(make: Versions, tmp_path: Path) -> None:
    begun, go = tmp_path / "begun", tmp_path / "go"
    waits = (
        f"import os, time\nopen({str(begun)!r}, 'w')\nwhile not os.path.exists({str(go)!r}):\n    time.sleep(0.01)\n"
    )
    with ThreadPoolExecutor(1) as threads:
        good = threads.submit(make, "good", model=waits + MODEL)
        eventually(begun.exists)
        make("other")
        with pytest.raises(ModelFailed, match="bad:1 cannot be loaded"):
            make("bad", model="import os\nos._exit(7)")
        go.touch()
        assert asked(good.result()) > 0


BREAKS = "import json\njson.tool = 7\n" + MODEL
BREAKABLE = "import json\nif hasattr(json, 'tool'):\n    raise KeyError('tool')\n" + MODEL


def test_a_load_that_a_neighbour_makes_fail_is_tried_alone_and_one_that_fails_there_too_is_so_once(
    make: Versions, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    first, _ = make("first", model=BREAKS), make("other")
    good = make("good", model=BREAKABLE)
    assert asked(good) not in first.pids
    assert "good:1 cannot be loaded beside others, and alone it can" in caplog.text
    loads = tmp_path / "loads"
    bad = f"import os\nopen({str(loads)!r}, 'a').write(f'{{os.getpid()}} ')\nraise KeyError('nothing')"
    for tried in (2, 3):
        with pytest.raises(ModelFailed, match="KeyError: 'nothing'"):
            make("bad", model=bad)
        assert len(loads.read_text().split()) == tried


def test_a_version_that_failed_alone_and_has_loaded_since_is_tried_alone_again(make: Versions) -> None:
    others = [make("first", model=BREAKS), make("other", model=BREAKS)]
    with pytest.raises(ModelFailed, match="KeyError: 'a file'"):
        make("good", model="raise KeyError('a file')")
    make("good").close()
    assert asked(make("good", model=BREAKABLE)) not in [asked(workers) for workers in others]


def test_workers_that_fail_side_by_side_are_tried_alone_once(make: Versions, tmp_path: Path) -> None:
    loads = tmp_path / "loads"
    loads.mkdir()
    both = f"while len(os.listdir({str(loads)!r})) < 2:\n    time.sleep(0.01)\n"
    bad = f"import os, time\nos.mkdir(f'{loads}/{{os.getpid()}}')\n{both}raise KeyError('nothing')"
    make("first"), make("other")
    with pytest.raises(ModelFailed, match="KeyError: 'nothing'"):
        make("bad", 2, model=bad)
    assert len(list(loads.iterdir())) == 3


def test_a_version_fails_with_its_own_error_where_no_process_can_be_started_to_try_it_alone(
    make: Versions, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    def lacking(place: WorkerPlace) -> NoReturn:
        raise OSError(errno.EMFILE, "Too many open files")

    make("first"), make("other")
    monkeypatch.setattr("tidegate_serving.workers.version_workers.started", lacking)
    with pytest.raises(ModelFailed, match="KeyError: 'nothing'"):
        make("bad", model="raise KeyError('nothing')")
    assert "bad:1 cannot be loaded in a process of its own: [Errno 24]" in caplog.text


def at_second_load(folder: Path, does: str) -> str:
    """A model that notes each of its loads in a folder."""
    folder.mkdir()
    note = f"import os, time\nload = len(os.listdir({str(folder)!r}))\nos.mkdir(f'{folder}/{{load}}')\n"
    return note + f"if load == 1:\n    {does}\n" + MODEL


def test_a_replacement_that_is_loaded_twice_counts_twice_and_the_first_ones_end_is_told(
    make: Versions, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    workers = make("good", model=at_second_load(tmp_path / "loads", "os._exit(7)"))
    os.kill(asked(workers), 9)
    eventually(lambda: workers.restarts == 2)
    assert asked(workers) > 0
    assert "good:1, which is loaded again alone: it ended with status 7" in caplog.text


def test_a_version_that_is_unloaded_while_a_replacement_loads_is_not_loaded_again(
    make: Versions, tmp_path: Path
) -> None:
    loads = tmp_path / "loads"
    workers = make("good", model=at_second_load(loads, "time.sleep(3600)"))
    os.kill(asked(workers), 9)
    eventually((loads / "1").exists)
    workers.close()
    eventually(lambda: all(thread.name != "tidegate-worker-replace" for thread in threading.enumerate()))
    assert not make.shared.keeps_alone(ServableId("good", 1))


def test_a_load_that_fails_leaves_the_others_alone(make: Versions) -> None:
    versions = [make("a"), make("b")]
    before = [asked(workers) for workers in versions]
    with pytest.raises(ModelFailed, match="KeyError: 'nothing'"):
        make("bad", model="raise KeyError('nothing')")
    assert [asked(workers) for workers in versions] == before


def test_a_call_that_hangs_ends_with_its_version_and_the_others_come_back(make: Versions, tmp_path: Path) -> None:
    versions = [make("a"), make("b")]
    hangs = tmp_path / "hangs"
    bad = make("bad", model=MODEL.replace("time.sleep", f"open({str(hangs)!r}, 'w').close(); time.sleep"))
    neighbour = next(workers for workers in versions if asked(workers) == asked(bad))
    pid = asked(bad)
    with ThreadPoolExecutor(1) as threads:
        hung = threads.submit(asked, bad, -3)
        eventually(hangs.exists)
        bad.close()
        with pytest.raises((ModelFailed, Unavailable)):
            hung.result(20)
    assert not lives(pid)
    assert asked(neighbour) != pid


def test_a_version_is_unloaded_without_an_end_to_neighbours_that_keep_python_waiting(
    make: Versions, tmp_path: Path
) -> None:
    holds = tmp_path / "holds"
    hold = f"open({str(holds)!r}, 'w').close(); __import__('ctypes').PyDLL(None).sleep(2)"
    good, _, old = make("good", model=MODEL.replace("time.sleep(3600)", hold)), make("other"), make("old")
    assert asked(old) == (before := asked(good))
    with ThreadPoolExecutor(1) as threads:
        held = threads.submit(asked, good, -3)
        eventually(holds.exists)
        old.close()
        assert held.result(60) == before
    assert good.restarts == 0


def test_a_model_that_computes_in_python_hardly_delays_those_that_share_its_process(
    make: Versions, tmp_path: Path
) -> None:
    """Each time one of them takes Python's lock it waits for Python's switch interval: 5 ms where nobody says less."""
    versions, stop, pace = [make("a"), make("b")], tmp_path / "stop", threading.Event()
    busy = make("busy", model=MODEL.replace('STOP = ""', f"STOP = {str(stop)!r}"))
    neighbour = next(workers for workers in versions if asked(workers) == asked(busy))

    def seconds() -> float:
        pace.wait(0.005)  # who asks without a pause finds Python's lock as it left it
        began = time.monotonic()
        asked(neighbour)
        return time.monotonic() - began

    with ThreadPoolExecutor(1) as threads:
        computing = threads.submit(asked, busy, -4)
        try:
            assert at_best(10, lambda: statistics.median(seconds() for _ in range(20)) < 0.0035)
        finally:
            stop.touch()
        assert computing.result(60) == asked(busy)


def test_a_process_that_takes_no_workers_is_asked_once(monkeypatch: pytest.MonkeyPatch) -> None:
    shared, asked = SharedHosts(lambda: 1, lambda: 60), list[int]()
    first, line = shared.open(ServableId("a", 1), HERE, ())
    send = socket.send_fds

    def refused(sock: socket.socket, *rest: Any) -> int:
        asked.append(sock.fileno())
        assert len(asked) < 10, "it was asked again and again"
        if len(asked) == 1:
            raise BrokenPipeError
        return send(sock, *rest)

    with monkeypatch.context() as patched:
        patched.setattr(socket, "send_fds", refused)
        second, other = shared.open(ServableId("b", 1), HERE, ())
    assert second.pid != first.pid
    first.leave(line)
    second.leave(other)
