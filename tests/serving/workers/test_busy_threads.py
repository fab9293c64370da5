"""Threads of a worker that compute beside very many others weigh less, for the engine and other workers to run."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from tests.support.eventually import eventually
from tests.support.models.versions import Draft
from tests.support.models.versions_in_workers import asked, versions_in_workers

from tidegate_serving.workers import busy_threads, process_files
from tidegate_serving.workers.busy_threads import BusyThreads
from tidegate_serving.workers.kept import KeptProcess
from tidegate_serving.workers.place import WorkerPlace
from tidegate_serving.workers.version_workers import Staff, VersionWorkers

MOST = 4 * len(os.sched_getaffinity(0))
THREADS = MOST + 10
MODEL = f"""
import hashlib, threading

def compute():
    hashlib.pbkdf2_hmac("sha256", b"", b"", 1 << 30)  # without Python's lock

class Model:
    def predict(self, inputs):
        if (inputs["x"] == -1).any():
            for _ in range({THREADS}):
                threading.Thread(target=compute, daemon=True).start()
        return {{"y": inputs["x"] * 2}}
"""

COMPUTES = f"""
import hashlib, threading

def compute():
    hashlib.pbkdf2_hmac("sha256", b"", b"", 1 << 30)

for _ in range({THREADS}):
    threading.Thread(target=compute, daemon=True).start()
print("begun", flush=True)
threading.Event().wait()
"""


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[VersionWorkers]:
    with versions_in_workers(tmp_path) as load:
        yield load("a", Draft(files={"model.py": MODEL}), Staff(1, WorkerPlace(), None))


@pytest.fixture
def computing() -> Iterator[int]:
    """The number of a process without a keeper that computes in so many threads."""
    with subprocess.Popen([sys.executable, "-c", COMPUTES], stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        assert process.stdout.readline()
        yield process.pid
        process.kill()


def tasks(pid: int) -> list[int]:
    return [int(task.name) for task in Path(f"/proc/{pid}/task").iterdir()]


def weight(pid: int) -> float:
    """Of the threads that compute, as a number of threads of the usual weight."""
    idle = {task for task in tasks(pid) if os.sched_getscheduler(task) == os.SCHED_IDLE}
    nice = [26 if task in idle else os.getpriority(os.PRIO_PROCESS, task) for task in tasks(pid)]
    own = os.getpriority(os.PRIO_PROCESS, os.getpid())
    return sum(1.25 ** (own - one) for one in sorted(nice)[-THREADS:])


def test_very_many_weigh_as_one_for_each_processor_and_the_model_goes_on(workers: VersionWorkers) -> None:
    (pid,) = workers.pids
    assert asked(workers, -1) == -2
    eventually(lambda: weight(pid) <= len(os.sched_getaffinity(0)), 60)
    assert asked(workers, 3) == 6
    assert list(workers.pids) == [pid]


def test_a_keeper_looks_by_itself_and_tells_of_it(caplog: pytest.LogCaptureFixture) -> None:
    ours, theirs = os.pipe()
    kept = KeptProcess([sys.executable, "-c", COMPUTES], theirs)
    with ThreadPoolExecutor(1) as pool:
        status = pool.submit(kept.wait)
        try:
            eventually(lambda: f"process {kept.pid} computes in" in caplog.text, 60)
            eventually(lambda: weight(kept.pid) <= len(os.sched_getaffinity(0)), 60)
        finally:
            kept.end()
        assert status.result() == -signal.SIGKILL
    os.close(ours)
    os.close(theirs)


def test_only_more_than_four_for_each_processor_at_two_looks_in_a_row_do(
    computing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy_threads, "_weigh", lambda thread, nice: None)
    busy, few = BusyThreads(), BusyThreads()
    assert busy.look(lambda: [computing], 1) == 0
    assert busy.seem_many
    assert few.look(lambda: [computing], THREADS) == few.look(lambda: [computing], THREADS) == 0
    assert not few.seem_many


def test_once_they_weigh_less_they_do_so_until_they_weigh_as_one_for_each(
    computing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy_threads, "_weigh", lambda thread, nice: None)
    busy = BusyThreads()
    eventually(lambda: busy.look(lambda: [computing], 1), 60)
    assert eventually(lambda: busy.look(lambda: [computing], THREADS // 2), 60)


def test_those_that_weigh_as_little_as_can_be_are_left_alone(computing: int, monkeypatch: pytest.MonkeyPatch) -> None:
    for task in tasks(computing):
        os.sched_setscheduler(task, os.SCHED_IDLE, os.sched_param(0))
    monkeypatch.setattr(busy_threads, "_MOST_EACH", 0.01)
    busy = BusyThreads()
    assert [busy.look(lambda: [computing], 1) for _ in range(4)] == [0] * 4


def test_more_than_the_highest_nice_can_hold_back_run_where_others_leave_room(
    computing: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(busy_threads, "_LEAST", 2)
    busy = BusyThreads()
    eventually(lambda: busy.look(lambda: [computing], 1), 60)
    assert [os.sched_getscheduler(task) for task in tasks(computing)].count(os.SCHED_IDLE) >= THREADS


@pytest.mark.parametrize(("load", "many"), [("4/99 7", False), ("5/99 7", True), ("0/0 0", True)])
def test_threads_are_looked_at_only_where_more_run_on_the_whole_machine(
    load: str, many: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_files, "_PROCESSES", tmp_path)
    (tmp_path / "loadavg").write_text(f"9.00 9.00 9.00 {load}\n")
    for thread in range(1, 11):
        stat = tmp_path / "1" / "task" / str(thread) / "stat"
        stat.parent.mkdir(parents=True)
        stat.write_text(f"{thread} (python) R{' 0' * 49}\n")
    monkeypatch.setattr(busy_threads, "thread_count", lambda pid: 10)
    busy = BusyThreads()
    busy.look(lambda: [1], 1)
    assert busy.seem_many is many
