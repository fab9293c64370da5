"""Models that eat memory, or start processes without end, once they are loaded: their process is ended before it takes
the machine, and is replaced."""

from __future__ import annotations

import contextlib
import itertools
import logging
import mmap
import os
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, publish
from tests.support.models.versions_in_workers import asked, versions_in_workers

from tidegate_serving.contract.errors import ModelFailed
from tidegate_serving.probing.state import resident_bytes
from tidegate_serving.workers import host, process_files
from tidegate_serving.workers.family import Family, descendants
from tidegate_serving.workers.memory import held_bytes, open_bytes
from tidegate_serving.workers.place import WorkerPlace
from tidegate_serving.workers.shared_hosts import SharedHosts
from tidegate_serving.workers.version_workers import Staff, VersionWorkers

MEGABYTE = 1 << 20
MOST = 200 * MEGABYTE
WAITS = 60  # seconds
MODEL = """
import os, signal, socket, threading

def await_the_end():
    threading.Event().wait({waits})
    raise RuntimeError("nobody ended this process for {waits} s")

class Model:
    def __init__(self, directory):
        self.kept = []
        if {loads}:
            self.eat()
            await_the_end()

    def eat(self):
        for _ in range(300):
            self.kept.append(b"x" * (1 << 20))

    def fill(self):
        files = [os.memfd_create("a"), os.open("/dev/shm", os.O_TMPFILE | os.O_RDWR)]
        for _ in range(130):
            for file in files:
                os.write(file, b"x" * (1 << 20))
        threading.Event().wait()

    def predict(self, inputs):
        x = inputs["x"]
        if (x == -1).any():
            self.eat()
            await_the_end()
        if (x == -2).any():
            threading.Thread(target=self.eat, daemon=True).start()
        if (x == -3).any() and not os.fork():
            self.eat()
            threading.Event().wait()
        if (x == -4).any() and not os.fork():
            for _ in range(60):
                if os.fork():
                    break
            signal.pause()
        if (x == -6).any():
            self.kept = [socket.socketpair() for _ in range(4000)]
            for one, _ in self.kept:
                one.setblocking(False)
                one.send(b"x" * 150_000)
            await_the_end()
        if (x == -5).any():
            threading.Thread(target=self.fill, daemon=True).start()
        return {{"y": x * 2}}
"""
PARENT = f"""
import os, sys

kept = b"x" * {100 * MEGABYTE}
if os.fork():
    print("both are there", flush=True)
sys.stdin.read()
"""
Make = Callable[..., VersionWorkers]


@pytest.fixture
def make(tmp_path: Path) -> Iterator[Make]:
    """Makes versions, alone or in one process with others."""
    shared = SharedHosts(lambda: 1, lambda: 60)
    with versions_in_workers(tmp_path) as load:
        yield lambda name, *, alone=True, loads=False: load(
            name,
            Draft(files={"model.py": MODEL.format(loads=loads, waits=WAITS)}),
            Staff(1, WorkerPlace(memory_bytes=MOST), None if alone else shared),
        )


def test_a_batch_for_which_a_model_eats_memory_fails_and_the_next_is_answered(make: Make) -> None:
    workers = make("a")
    with pytest.raises(
        ModelFailed, match=r"on this batch: it held \d+ MB of memory, and worker_memory_bytes allows 200"
    ):
        asked(workers, -1)
    assert asked(workers, 3) == 6


@pytest.mark.parametrize("x", [-2, -3, -5], ids=["by itself", "in a child", "in files"])
def test_a_model_that_eats_memory_while_nobody_asks_is_replaced(
    make: Make, x: float, caplog: pytest.LogCaptureFixture
) -> None:
    workers = make("a")
    before = workers.pids
    with caplog.at_level(logging.WARNING):
        assert asked(workers, x) == 2 * x
        eventually(lambda: workers.pids and workers.pids != before, 60)
    assert "MB of memory, and worker_memory_bytes allows 200 MB" in caplog.text
    assert asked(workers, 3) == 6


def test_a_model_that_hides_memory_in_sockets_is_ended(make: Make) -> None:
    workers = make("a")
    with pytest.raises(ModelFailed, match=r"it held \d+ MB of memory, and worker_memory_bytes allows 200"):
        asked(workers, -6)


def test_a_file_in_memory_counts_once_however_many_have_it_open_or_mapped() -> None:
    with tempfile.TemporaryFile(dir="/dev/shm") as file, subprocess.Popen(["sleep", "100"], stdin=file) as other:
        try:
            before = held_bytes([os.getpid(), other.pid], 0)
            file.write(b"x" * 50 * MEGABYTE)
            file.flush()
            with mmap.mmap(file.fileno(), 50 * MEGABYTE) as mapped:
                assert mapped[::4096].count(b"x") == 50 * MEGABYTE // 4096
                grown = held_bytes([os.getpid(), other.pid], 0) - before
        finally:
            other.kill()
    assert 45 * MEGABYTE < grown < 75 * MEGABYTE


@pytest.mark.parametrize("kind", ["pipes", "sockets"])
def test_what_waits_in_pipes_and_sockets_counts_once(kind: str) -> None:
    with contextlib.ExitStack() as stack:
        ends = [os.pipe() if kind == "pipes" else _socket_pair() for _ in range(200)]
        for end in itertools.chain.from_iterable(ends):
            stack.callback(os.close, end)
        for _, write in ends:
            os.write(write, b"x" * 50_000)
        assert open_bytes([_holder(stack, ends), _holder(stack, ends)]) == (0, 200 * 50_000)


def _holder(stack: contextlib.ExitStack, ends: list[tuple[int, int]]) -> int:
    """A process that has these open and nothing else: through the own process other tests' messages pass."""
    files = list(itertools.chain.from_iterable(ends))
    nothing = subprocess.DEVNULL
    process = subprocess.Popen(["sleep", "100"], pass_fds=files, stdin=nothing, stdout=nothing, stderr=nothing)
    stack.enter_context(process)
    stack.callback(process.kill)
    return process.pid


def _socket_pair() -> tuple[int, int]:
    one, other = socket.socketpair()
    return one.detach(), other.detach()


def test_a_load_that_eats_memory_fails(make: Make) -> None:
    with pytest.raises(ModelFailed, match=r"a:1 cannot be loaded by a worker process: it held \d+ MB"):
        make("a", loads=True)


def test_versions_that_held_too_much_together_are_parted(make: Make) -> None:
    workers, neighbour = make("a", alone=False), make("b", alone=False)
    before = workers.pids
    assert before == neighbour.pids
    assert asked(workers, -2) == -4
    eventually(lambda: workers.pids and workers.pids != before, 60)
    eventually(lambda: neighbour.pids and neighbour.pids != before, 60)
    assert asked(workers, 3) == asked(neighbour, 3) == 6
    assert workers.pids != neighbour.pids


def test_memory_that_a_child_shares_with_its_parent_counts_once() -> None:
    with subprocess.Popen([sys.executable, "-c", PARENT], stdin=subprocess.PIPE, stdout=subprocess.PIPE) as parent:
        assert parent.stdout is not None
        assert parent.stdout.readline() == b"both are there\n"
        own, shared = resident_bytes(parent.pid), 100 * MEGABYTE
        both = [parent.pid, *descendants(parent.pid)]
        assert held_bytes(both, 0) < own + shared / 2
        assert held_bytes(both, 1 << 50) > own + shared / 2, "nobody asks what is shared where all fits"


def test_a_model_that_starts_processes_without_end_is_replaced(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(host, "MOST_CHILDREN", 20)
    workers, neighbour = make("a"), make("b")
    before, others = workers.pids, neighbour.pids
    assert asked(workers, -4) == -8
    eventually(lambda: workers.pids and workers.pids != before, 60)
    assert asked(workers, 3) == asked(neighbour, 3) == 6
    assert neighbour.pids == others


def test_processes_that_started_each_other_in_turn_are_all_found(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_files, "_PROCESSES", tmp_path)
    for pid in range(1, 3000):
        thread = tmp_path / str(pid) / "task" / str(pid)
        thread.mkdir(parents=True)
        (thread / "children").write_text(f"{pid + 1} ")
    assert list(descendants(1)) == list(range(2, 3001))


def test_processes_are_looked_for_again_only_once_another_was_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(process_files, "_PROCESSES", tmp_path)
    children = tmp_path / "1" / "task" / "1" / "children"
    children.parent.mkdir(parents=True)
    family = Family(1, 10)
    looks = []
    for listed, load in [("2", "1/9 2"), ("2 3", "1/9 2"), ("2 3", "1/9 3"), ("2", "0/0 0"), ("", "0/0 0")]:
        children.write_text(listed)
        (tmp_path / "loadavg").write_text(f"0.00 0.00 0.00 {load}\n")
        looks.append(list(family.look()))
    assert looks == [[2], [2], [2, 3], [2], []], "where the system does not tell, each look is a new one"


def test_an_engine_bounds_its_workers(tmp_path: Path) -> None:
    publish(tmp_path / "r", "a", 1, Draft(files={"model.py": MODEL.format(loads=False, waits=WAITS)}))
    config = {"repository": tmp_path / "r", "allow_unverified": True, "worker_memory_bytes": MOST}
    with EngineProcess(tmp_path / "engine", **config) as engine, engine.client() as client:
        with pytest.raises(ModelFailed, match="MB of memory, and worker_memory_bytes allows 200 MB"):
            client.predict("a", {"x": np.array([-1], np.float32)})
        assert client.predict("a", {"x": np.array([3], np.float32)}).outputs["y"].tolist() == [6.0]
