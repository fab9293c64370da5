"""The probe as the robustness gate sees it: a process with frames on both sides, whatever the model does."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import numpy as np
import pytest
from tests.support.models.versions import Draft, flip, publish

from tidegate_serving.contract.probe_frames import Frame, read_frame, write_frame

NOISY = """
import ctypes, os, sys
import numpy as np

print("importing")

class Model:
    def predict(self, inputs):
        print("predicting")
        os.write(1, b"raw bytes on descriptor 1")
        ctypes.CDLL(None).puts(b"from C")
        sys.stdout.write("no new line")
        x = inputs["x"]
        assert sys.stdin.read() == ""
        if x[0] == 1:
            raise ValueError("one")
        if x[0] == 2:
            os._exit(0)
        if x[0] == 3:
            os.kill(os.getpid(), 11)
        if x[0] == 4:
            return {"y": x[:0]}
        return {"y": x * np.float32(2)}
"""


class Probe:
    """One probe process."""

    def __init__(self, directory: Path, *arguments: str) -> None:
        command = [sys.executable, "-m", "tidegate_serving.probe", str(directory), *arguments]
        self.process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL
        )

    @property
    def stdin(self) -> IO[bytes]:
        assert self.process.stdin is not None
        return self.process.stdin

    @property
    def stdout(self) -> IO[bytes]:
        assert self.process.stdout is not None
        return self.process.stdout

    def read(self) -> Frame | None:
        return read_frame(self.stdout)  # type: ignore[arg-type]

    def ask(self, x: object, token: str = "t", signature: str = "serving_default") -> Frame | None:
        frame = Frame("predict", token, {"signature": signature}, {"x": np.asarray(x)})
        write_frame(self.stdin, frame)  # type: ignore[arg-type]
        return self.read()

    def close(self) -> int:
        self.stdin.close()
        status = self.process.wait(60)
        self.stdout.close()
        return status


@pytest.fixture
def probe(tmp_path: Path) -> Iterator[Probe]:
    directory = publish(tmp_path, "m", 1, Draft(files={"model.py": NOISY}, example={"x": 7.0}))
    probe = Probe(directory)
    yield probe
    if probe.process.poll() is None:
        probe.process.kill()
    probe.close()


def loaded(probe: Probe) -> None:
    first = probe.read()
    assert first is not None
    assert first.kind == "loaded"
    assert set(first.head["signatures"]) == {"serving_default"}
    assert first.head["resident_bytes"] > 1 << 20
    assert first.head["seconds"] > 0


def f32(*values: float) -> object:
    return np.array(values, dtype=np.float32)


def test_answers_come_through_whatever_the_model_prints(probe: Probe) -> None:
    loaded(probe)
    for number in range(3):
        frame = probe.ask(f32(10 + number, 5), token=f"t{number}")
        assert frame is not None
        assert (frame.kind, frame.token) == ("outputs", f"t{number}")
        assert frame.tensors["y"].tolist() == [20.0 + 2 * number, 10.0]
        assert frame.head["resident_bytes"] > 0
    write_frame(probe.stdin, Frame("stop", "bye"))  # type: ignore[arg-type]
    last = probe.read()
    assert last is not None
    assert (last.kind, last.token) == ("stopped", "bye")
    assert probe.process.wait(60) == 0


@pytest.mark.parametrize(
    ("x", "code", "match"),
    [
        (f32(1), "model_failed", "the model raised ValueError: one"),
        (f32(4), "model_failed", "output 'y' of shape [0] for 1 rows"),
        (np.array([1.0]), "invalid_input", "'x' has dtype float64: send float32"),
        (np.ones((1, 1), "f4"), "invalid_input", "'x' has shape [1, 1]: send [-1]"),
        (np.array(["a"], dtype=object), "invalid_input", "'x' has dtype string"),
    ],
)
def test_refusals_are_typed_and_it_lives_on(probe: Probe, x: object, code: str, match: str) -> None:
    loaded(probe)
    frame = probe.ask(x, token="bad")
    assert frame is not None
    assert (frame.kind, frame.token, frame.head["code"]) == ("error", "bad", code)
    assert match in frame.head["message"]
    again = probe.ask(f32(5))
    assert again is not None
    assert again.kind == "outputs"


def test_an_unknown_signature_and_an_unknown_frame_are_refused(probe: Probe) -> None:
    loaded(probe)
    frame = probe.ask(f32(5), signature="other")
    assert frame is not None
    assert (frame.kind, frame.head["code"]) == ("error", "invalid_input")
    write_frame(probe.stdin, Frame("dance", "t"))  # type: ignore[arg-type]
    frame = probe.read()
    assert frame is not None
    assert (frame.kind, frame.head["code"]) == ("error", "unsupported")


@pytest.mark.parametrize(("x", "status"), [(2, 0), (3, -11)])
def test_a_process_that_ends_in_the_middle_gives_no_answer(probe: Probe, x: float, status: int) -> None:
    loaded(probe)
    assert probe.ask(f32(x)) is None
    assert probe.process.wait(60) == status


def test_the_end_of_requests_is_a_quiet_end(probe: Probe) -> None:
    loaded(probe)
    assert probe.close() == 0


def test_a_version_that_does_not_load_says_why(tmp_path: Path) -> None:
    directory = publish(tmp_path, "m", 1)
    flip(directory / "model.py", 3)
    probe = Probe(directory)
    frame = probe.read()
    assert frame is not None
    assert (frame.kind, frame.head["code"]) == ("failed", "tampered")
    assert "model.py differs" in frame.head["message"]
    assert probe.close() == 1


def test_pickle_needs_the_option(tmp_path: Path) -> None:
    files = {"model.pkl": b"not even a pickle"}
    directory = publish(tmp_path, "m", 1, Draft(platform="sklearn", files=files))
    for arguments, code in (((), "permission_refused"), (("--allow-pickle",), "model_failed")):
        probe = Probe(directory, *arguments)
        frame = probe.read()
        assert frame is not None
        assert (frame.kind, frame.head["code"]) == ("failed", code)
        assert probe.close() == 1
