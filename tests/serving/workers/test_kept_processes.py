"""What a model starts, in whatever session, ends with its worker's process, however that or the engine ends."""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path

import pytest
from tests.support.eventually import eventually
from tests.support.models.versions import Draft
from tests.support.models.versions_in_workers import asked, versions_in_workers

from tidegate_serving.contract.errors import ModelFailed
from tidegate_serving.workers.host import started
from tidegate_serving.workers.kept import KeptProcess
from tidegate_serving.workers.place import WorkerPlace
from tidegate_serving.workers.standstill import Standstill
from tidegate_serving.workers.version_workers import Staff, VersionWorkers

MEGABYTE = 1 << 20
MODEL = """
import os, signal, sys
from pathlib import Path

class Model:
    def __init__(self, directory):
        self.here = Path(directory).parent

    def daemon(self, task):
        there, told = os.pipe()
        if not os.fork():
            os.setsid()
            if not os.fork():
                (self.here / "child").write_text(str(os.getpid()))
                os.write(told, b"!")
                kept = b"x" * (300 << 20) if task == "eats" else b""
                signal.pause()
            os._exit(0)
        os.wait()
        os.read(there, 1)

    def predict(self, inputs):
        x = inputs["x"]
        if (x == -1).any():
            self.daemon("waits")
        if (x == -2).any():
            self.daemon("waits")
            os._exit(3)
        if (x == -3).any():
            self.daemon("eats")
        return {"y": x * 2}
"""
ENGINE = """
import sys
from pathlib import Path
from tests.serving.workers.test_kept_processes import MODEL, STAFF
from tests.support.models.versions import Draft
from tests.support.models.versions_in_workers import asked, versions_in_workers

with versions_in_workers(Path(sys.argv[1])) as load:
    asked(load("a", Draft(files={"model.py": MODEL}), STAFF), -1)
    print("asked", flush=True)
    sys.stdin.read()
"""
FAMILY = """
import os, select, sys

seen, told = os.open(sys.argv[1], os.O_WRONLY | os.O_APPEND), int(sys.argv[2])
lives, end = os.pipe()

def child(is_orphan, is_daemon):
    if os.fork():
        return
    if is_orphan and os.fork():
        os._exit(0)
    if is_daemon:
        os.setsid()
    os.close(end)
    os.write(told, f"{os.getpid()}\\n".encode())
    select.select([] if is_daemon else [lives], [], [], 60)
    if not is_daemon:
        os.write(seen, b"!")
    os._exit(0)

for number in range(30):
    child(number % 3 > 0, number % 3 > 1)
select.select([lives], [], [], 60)
"""
STAFF = Staff(1, WorkerPlace(memory_bytes=250 * MEGABYTE), None)


@pytest.fixture
def workers(tmp_path: Path) -> Iterator[VersionWorkers]:
    with versions_in_workers(tmp_path) as load:
        yield load("a", Draft(files={"model.py": MODEL}), STAFF)


@pytest.fixture
def child(tmp_path: Path) -> Callable[[], int]:
    """The number of the daemon that a model has started."""
    told = tmp_path / "a" / "child"

    def number() -> int:
        return int(eventually(lambda: told.read_text() if told.exists() else ""))

    return number


def lives(pid: int) -> bool:
    return Path(f"/proc/{pid}").exists()


def parent(pid: int) -> int:
    return int(Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[1])


def test_a_daemon_ends_when_its_version_is_unloaded(workers: VersionWorkers, child: Callable[[], int]) -> None:
    assert asked(workers, -1) == -2
    daemon = child()
    assert lives(daemon)
    assert os.getsid(daemon) != workers.pids[0]
    workers.close()
    assert not lives(daemon)


def test_a_daemon_ends_when_its_process_does(workers: VersionWorkers, child: Callable[[], int]) -> None:
    with pytest.raises(ModelFailed, match="it ended with status 3"):
        asked(workers, -2)
    assert not lives(child())


def test_a_daemon_ends_with_an_engine_that_is_killed(tmp_path: Path, child: Callable[[], int]) -> None:
    command = [sys.executable, "-c", ENGINE, str(tmp_path)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as engine:
        assert engine.stdout is not None
        assert engine.stdout.readline() == b"asked\n"
        daemon = child()
        assert lives(daemon)
        engine.kill()
    eventually(lambda: not lives(daemon))


def test_what_a_daemon_holds_counts(workers: VersionWorkers, child: Callable[[], int]) -> None:
    (before,) = workers.pids
    with contextlib.suppress(ModelFailed):  # a busy machine ends it before it answers
        assert asked(workers, -3) == -6
    eventually(lambda: workers.pids not in ([], [before]))
    eventually(lambda: not lives(child()))


def test_a_process_ends_with_its_keeper(workers: VersionWorkers) -> None:
    (before,) = workers.pids
    os.kill(parent(before), signal.SIGKILL)
    eventually(lambda: not lives(before))
    assert asked(workers, 3) == 6


def test_a_keeper_that_somebody_stops_is_replaced_with_its_process(workers: VersionWorkers) -> None:
    (before,) = workers.pids
    os.kill(parent(before), signal.SIGSTOP)
    eventually(lambda: not lives(before))
    assert asked(workers, 3) == 6


def test_a_program_and_its_group_are_ended_before_any_of_them_sees_it_and_orphans_with_them(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    seen.touch()
    children, told = os.pipe()
    with os.fdopen(children) as lines:
        command = [sys.executable, "-I", "-S", "-c", FAMILY, str(seen), str(told)]
        kept = KeptProcess(command, told)
        os.close(told)
        family = [int(lines.readline()) for _ in range(30)]
        assert all(map(lives, family))
        kept.end()
        assert kept.wait() == -signal.SIGKILL
    assert not any(map(lives, family))
    assert not seen.read_bytes(), "some of its group outlived it"


def test_a_program_that_cannot_be_started_is_named() -> None:
    with pytest.raises(FileNotFoundError, match="no_python"):
        started(WorkerPlace(interpreter="/no_python"))


def test_a_keeper_that_does_not_keep_is_told() -> None:
    with pytest.raises(OSError, match="a worker's keeper ended with status 1"):
        started(WorkerPlace(interpreter="/bin/false"))


def test_who_stands_still_for_a_second_and_goes_on_is_told_apart() -> None:
    moments = iter([0.0, 0.5, 0.9, 10.0, 11.0])
    standstill = Standstill(lambda: next(moments))
    with subprocess.Popen(["sleep", "1000"]) as sleeps:

        def state() -> str:
            return Path(f"/proc/{sleeps.pid}/stat").read_text().rpartition(")")[2].split()[0]

        def send(number: int) -> None:
            os.kill(sleeps.pid, number)
            eventually(partial(lambda stopped: (state() == "T") is stopped, number == signal.SIGSTOP))

        try:
            send(signal.SIGSTOP)
            assert [standstill.lasts([os.getpid(), sleeps.pid]) for _ in range(3)] == [False] * 3
            send(signal.SIGCONT)
            assert not standstill.lasts([sleeps.pid])
            send(signal.SIGSTOP)
            assert [standstill.lasts([sleeps.pid]) for _ in range(2)] == [False, True]
        finally:
            sleeps.kill()
