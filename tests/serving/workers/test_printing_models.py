"""Models that print: what they print comes through, in whole lines, as long as it is not too much."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, publish
from tests.support.models.versions_in_workers import asked, versions_in_workers

from tidegate_serving.workers.place import WorkerPlace
from tidegate_serving.workers.version_workers import Staff, VersionWorkers

MODEL = """
import os, sys

class Model:
    def predict(self, inputs):
        x = int(inputs["x"][0])
        if x == 5:
            print("a line of the model")
            print("a line of errors", file=sys.stderr)
        if x == 2:
            for number in range(20_000):
                print(f"line {number}")
                print(f"error {number}", file=sys.stderr)
        if x == 3:
            os.write(1, b"begun ")
            os.write(1, b"x" * 200_000)
            os.write(1, b"ended\\n")
        if x == 4 and not os.fork():
            while True:
                os.write(1, b"from a child\\n" * 5_000)
        return {"y": inputs["x"] * 2}
"""
ENGINE = """
import sys
from pathlib import Path
from tests.serving.workers.test_printing_models import MODEL, staff
from tests.support.models.versions import Draft
from tests.support.models.versions_in_workers import asked, versions_in_workers

with versions_in_workers(Path(sys.argv[1])) as load:
    workers = load("a", Draft(files={"model.py": MODEL}), staff(1 << 20))
    asked(workers, 4)
    print("asked", file=sys.stderr, flush=True)
    sys.stdin.read()
"""
A_SECOND = 1000
LEFT_OUT = re.compile(r"allows: (\d+) lines of its (\w+) \((\d+) bytes\) are left out")
Load = Callable[[int], VersionWorkers]


def staff(output_bytes: int) -> Staff:
    return Staff(1, WorkerPlace(output_bytes=output_bytes), None)


def left_out(text: str, stream: str) -> tuple[int, int]:
    """Lines and bytes that the log says were left out of a stream."""
    found = [(int(lines), int(size)) for lines, name, size in LEFT_OUT.findall(text) if name == stream]
    return sum(lines for lines, _ in found), sum(size for _, size in found)


@pytest.fixture
def load(tmp_path: Path) -> Iterator[Load]:
    with versions_in_workers(tmp_path) as load:
        yield lambda output_bytes: load("a", Draft(files={"model.py": MODEL}), staff(output_bytes))


@pytest.mark.parametrize("output_bytes", [0, A_SECOND])
def test_a_few_lines_come_through_at_once(load: Load, output_bytes: int, capfd: pytest.CaptureFixture[str]) -> None:
    asked(load(output_bytes), 5)
    said = ["", ""]

    def both() -> bool:
        for stream, more in enumerate(capfd.readouterr()):
            said[stream] += more
        return "a line of the model\n" in said[0] and "a line of errors\n" in said[1]

    assert eventually(both)


def test_all_comes_through_where_nothing_bounds_it(load: Load, capfd: pytest.CaptureFixture[str]) -> None:
    workers = load(0)
    asked(workers, 2)
    workers.close()
    assert capfd.readouterr().out.count("line ") == 20_000


def test_what_is_too_much_is_left_out_and_counted(
    load: Load, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    workers = load(A_SECOND)
    asked(workers, 2)
    workers.close()
    printed = capfd.readouterr()
    for said, stream, word in ((printed.out, "output", "line"), (printed.err, "errors", "error")):
        told = [one for one in said.splitlines() if one.startswith(f"{word} ")]
        numbers = [int(one.removeprefix(f"{word} ")) for one in told]
        lines, size = left_out(caplog.text, stream)
        assert numbers[:100] == list(range(100))
        assert numbers == sorted(set(numbers))
        assert len(numbers) + lines == 20_000
        assert size > 100_000


def test_a_line_that_is_too_long_is_left_out_where_it_is(
    load: Load, capfd: pytest.CaptureFixture[str], caplog: pytest.LogCaptureFixture
) -> None:
    workers = load(A_SECOND)
    asked(workers, 3)
    asked(workers, 5)
    workers.close()
    printed = capfd.readouterr().out
    assert re.fullmatch(r"(begun x*)?(\n)?(a line of the model\n)?", printed)
    lines, size = left_out(caplog.text, "output")
    assert lines >= 1
    assert size > 150_000


def test_a_process_ends_though_nobody_reads_what_it_prints(tmp_path: Path) -> None:
    command = [sys.executable, "-c", ENGINE, str(tmp_path)]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, stderr=pipe) as engine:
        assert engine.stdin is not None
        assert engine.stderr is not None
        assert engine.stderr.readline() == b"asked\n"
        engine.stdin.close()
        try:
            assert engine.wait(60) == 0
        finally:
            engine.kill()


def test_an_engine_bounds_what_its_models_print(tmp_path: Path) -> None:
    publish(tmp_path / "models", "m", 1, Draft(files={"model.py": MODEL}))
    values = {"repository": tmp_path / "models", "allow_unverified": True, "isolation": "own"}
    with EngineProcess(tmp_path / "engine", worker_output_bytes=A_SECOND, **values) as engine:
        with engine.client() as client:
            assert client.predict("m", {"x": np.array([2], np.float32)})["y"].tolist() == [4.0]
        assert engine.stop() == 0
        said = engine.said()
    lines, _ = left_out(said, "errors")
    assert said.count("\nerror ") + lines >= 19_999
    assert lines > 10_000
