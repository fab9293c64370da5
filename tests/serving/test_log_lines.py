"""Words of a client or a model pass for no record of the log, and steer no terminal that shows it; and whoever reads
the log and stops keeps nobody waiting."""

from __future__ import annotations

import contextlib
import logging
import os
import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support.clients import rest
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.file_limit import no_file_beyond
from tests.support.models.versions import Draft, publish

from tidegate_serving.log_lines import LineFormatter, StreamHandler

FORGED = "2026-01-01 00:00:00,000 ERROR tidegate_serving.admission all is lost"
SOURCE = f"""
import ctypes

class Model:
    def predict(self, inputs):
        if (inputs["x"] == 7).any():
            ctypes.PyDLL(None).sleep(1_000_000)  # nobody else gets Python's lock
        if (inputs["x"] == 8).any():
            for number in range(4000):
                print(number, "y" * 100)
        if (inputs["x"] == 666).any():
            raise ValueError("red \\x1b[31m\\r\\n{FORGED}")
        return {{"y": inputs["x"]}}
"""


def test_further_lines_are_set_in_and_what_steers_is_shown() -> None:
    record = logging.LogRecord("a", logging.INFO, "", 0, "by %s", (f"me\x1b[2J\n{FORGED}\x85\u2028é",), None)
    first, second = LineFormatter().format(record).splitlines()
    assert first.endswith(" INFO a by me\\x1b[2J")
    assert second == f"    {FORGED}\\x85\\u2028é"


@pytest.mark.parametrize("isolation", ["engine", "pool"])
def test_what_a_model_raises_is_no_record_of_its_own(tmp_path: Path, isolation: str) -> None:
    publish(tmp_path / "r", "m", 1, Draft(files={"model.py": SOURCE}))
    config = {"repository": tmp_path / "r", "allow_unverified": True, "isolation": isolation}
    with EngineProcess(tmp_path / "engine", **config) as engine:
        assert rest.predict(engine.addresses["rest"], "m", [666.0]).status == 500
        eventually(lambda: "all is lost" in engine.said())
        said = engine.said()
    assert not re.search(r"^2026-01-01", said, re.MULTILINE)
    assert "\x1b" not in said
    assert "red \\x1b[31m\\r" in said


@contextlib.contextmanager
def pipe() -> Iterator[tuple[int, int]]:
    """Both ends of one: to read from, without waiting, and to write to."""
    read, write = os.pipe()
    os.set_blocking(read, False)
    try:
        yield read, write
    finally:
        os.close(read)
        os.close(write)


def fill(write: int) -> None:
    """Leaves no room in it for another byte."""
    os.set_blocking(write, False)
    with contextlib.suppress(BlockingIOError):
        while os.write(write, b"x" * 4096):
            continue
    with contextlib.suppress(BlockingIOError):
        while os.write(write, b"x"):
            continue


def record(text: str) -> logging.LogRecord:
    return logging.LogRecord("a", logging.WARNING, "", 0, text, (), None)


def test_lines_that_nobody_takes_are_left_out_and_counted() -> None:
    told = bytearray()

    def all_told() -> bool:
        with contextlib.suppress(BlockingIOError):
            while data := os.read(read, 1 << 20):
                told.extend(data)
        return b" lines are left out here: " in told

    with pipe() as (read, write):
        handler = StreamHandler(write)
        began = time.monotonic()
        for number in range(10_000):
            handler.emit(record(f"{number} {'y' * 300}"))
        assert time.monotonic() - began < 20, "each waits for whoever reads"
        assert eventually(all_told)
        numbers = [int(number) for number in re.findall(r"WARNING a (\d+) y+\n", told.decode())]
        assert numbers == list(range(len(numbers)))
        left_out = re.search(r"(\d+) lines are left out here", told.decode())
        assert left_out is not None
        assert len(numbers) + int(left_out[1]) == 10_000
        handler.emit(record("and on it goes"))
        assert os.read(read, 1 << 10).endswith(b"and on it goes\n"), "it is written when the call returns"


def test_what_a_full_disk_leaves_of_a_line_stays_a_line_of_its_own(tmp_path: Path) -> None:
    with (tmp_path / "log").open("wb", buffering=0) as file:
        handler = StreamHandler(file.fileno())
        handler.emit(record("one"))
        with no_file_beyond(file.tell() + 5):
            handler.emit(record("lost"))
        handler.emit(record("two"))
    first, cut, last = (tmp_path / "log").read_text().splitlines()
    assert (first.split()[-1], len(cut), last.split()[-1]) == ("one", 5, "two")


def test_a_forked_process_writes_its_lines_itself() -> None:
    with pipe() as (read, write):
        handler = StreamHandler(write)
        handler.emit(record("of the parent"))
        child = os.fork()
        if child == 0:
            handler.emit(record("of the child"))
            os._exit(0)
        assert os.waitpid(child, 0)[1] == 0
        assert re.findall(rb"of the \w+", os.read(read, 1 << 10)) == [b"of the parent", b"of the child"]


@contextlib.contextmanager
def with_unread_output(tmp_path: Path, **values: Any) -> Iterator[EngineProcess]:
    """An engine that serves m, whose output is a pipe that is full and that nobody reads; killed at the end."""
    publish(tmp_path / "r", "m", 1, Draft(files={"model.py": SOURCE}))
    engine = EngineProcess(tmp_path / "engine", repository=tmp_path / "r", allow_unverified=True, **values)
    engine.output = tmp_path / "output"
    os.mkfifo(engine.output)
    read = os.open(engine.output, os.O_RDONLY | os.O_NONBLOCK)
    try:
        engine.start()
        with engine.output.open("wb", buffering=0) as write:
            fill(write.fileno())
        yield engine
    finally:
        if engine.process is not None:
            engine.kill()
        os.close(read)


def test_an_engine_whose_output_nobody_reads_serves_loads_and_stops(tmp_path: Path) -> None:
    with with_unread_output(tmp_path, isolation="engine", drain_seconds=5) as engine:
        address = engine.addresses["rest"]
        assert rest.predict(address, "m", [666.0]).status == 500
        assert rest.predict(address, "m", [1.0]).status == 200
        publish(tmp_path / "r", "late", 1, Draft(files={"model.py": SOURCE}))
        assert eventually(lambda: rest.predict(address, "late", [1.0]).status == 200)
        engine.terminate()
        assert engine.process is not None
        assert engine.process.wait(30) == 0


def test_a_model_in_a_worker_prints_although_nobody_reads_it(tmp_path: Path) -> None:
    with with_unread_output(tmp_path, isolation="pool", request_timeout_seconds=20) as engine:
        address = engine.addresses["rest"]
        assert [rest.predict(address, "m", [8.0]).status for _ in range(2)] == [200, 200]


def test_an_engine_whose_output_nobody_reads_ends_although_a_call_keeps_python(tmp_path: Path) -> None:
    with with_unread_output(tmp_path, isolation="engine", drain_seconds=0.5, request_timeout_seconds=1) as engine:
        assert rest.predict(engine.addresses["rest"], "m", [7.0]).status == 504
        engine.terminate()
        assert engine.process is not None
        assert engine.process.wait(30) == 1
