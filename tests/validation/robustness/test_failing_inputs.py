"""Inputs that a version failed on: kept in a file, read back, and tried again by the command of the verdict."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.support.command import Command
from tests.validation import world
from tests.validation.robustness.fault_cases import KNOWN, fault
from tests.validation.robustness.fault_run import examined
from tests.validation.world import HONEST, Draft

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.errors import InvalidInput, NotFound, Tampered, TidegateError
from tidegate_validation.robustness.failing_inputs import (
    FailingInput,
    Origin,
    Way,
    read_failing_input,
    write_failing_input,
)
from tidegate_validation.robustness.judgement import Unit
from tidegate_validation.robustness.limits import RobustnessLimits
from tidegate_validation.robustness.replay import replay


def test_a_failing_input_survives_its_file(tmp_path: Path) -> None:
    tensors = {"x": np.array([[1.5, np.nan]], dtype=np.float32), "s": np.array([b"\xff"], dtype=object)}
    then, units = {"x": np.array([2], dtype=np.int64)}, {"y": Unit(0.25, -1.0, 0.5, single=False)}
    failed = FailingInput("after", "x", Way.THEN, tensors, then=then, calls=((0, 1),), units=units)
    origin = Origin(tmp_path, "parcels:2", "ab" * 32, "serving_default", RobustnessLimits(call_seconds=3.5))
    write_failing_input(tmp_path / "one", failed, origin)
    again, back = read_failing_input(tmp_path / "one")
    assert back == origin
    assert (again.check, again.way, again.calls, again.units) == ("after", Way.THEN, ((0, 1),), units)
    np.testing.assert_array_equal(again.tensors["x"], tensors["x"])
    assert again.tensors["s"].tolist() == [b"\xff"]
    assert again.then is not None
    assert again.then["x"].tolist() == [2]
    (tmp_path / "other").write_bytes(b"\x00\x00\x00\x05hello")
    with pytest.raises(InvalidInput, match="holds no failing input"):
        read_failing_input(tmp_path / "other")
    with pytest.raises(NotFound):
        read_failing_input(tmp_path / "nowhere")


def test_a_refused_version_is_tried_again_by_the_command_of_its_verdict(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    line = f"if set(inputs['depot'].tolist()) - {KNOWN}: __import__('os')._exit(7)"
    earlier = tmp_path / "report" / "failing-inputs" / "01-threads-calls.input"
    earlier.parent.mkdir(parents=True)
    earlier.touch()
    run = examined(tmp_path, fault(line, "boundary", words="exit status 7"))
    assert not run.wrong
    (finding,) = (one for one in run.findings if one.outcome is Outcome.FAIL)
    assert finding.example is not None
    assert not earlier.exists(), "it is of another examination"
    command = str(finding.example["replay"]).split()
    assert command[:2] == ["tidegate", "replay"]
    tidegate = Command(monkeypatch, capsys)
    again = tidegate(*command[1:])
    assert again.returncode == 1
    assert "ended with exit status 7" in again.stdout
    mended = world.publish(tmp_path / "mended", 2, Draft(source=HONEST))
    passes = tidegate(*command[1:], "--directory", mended)
    assert passes.returncode == 0
    assert "finite numbers" in passes.stdout
    manifest = Path(str(finding.example["file"])).parents[2] / "parcels" / "2" / "manifest.json"
    manifest.write_bytes(manifest.read_bytes() + b" ")
    with pytest.raises(Tampered, match="no longer"):
        replay(Path(command[2]))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.data())
def test_a_file_that_was_cut_or_changed_is_refused_or_read_and_no_crash(tmp_path: Path, data: st.DataObject) -> None:
    tensors = {"x": np.array([[1.5, np.nan]], dtype=np.float32), "s": np.array([b"a", b"bc"], dtype=object)}
    origin = Origin(tmp_path, "parcels:2", "ab" * 32, "serving_default", RobustnessLimits())
    path = tmp_path / "one"
    write_failing_input(path, FailingInput("boundary", "x", Way.ANSWER, tensors), origin)
    whole = path.read_bytes()
    place = data.draw(st.integers(0, len(whole) - 1))
    path.write_bytes(whole[:place])
    with pytest.raises(InvalidInput):
        read_failing_input(path)
    path.write_bytes(whole[:place] + bytes([data.draw(st.integers(0, 255))]) + whole[place + 1 :])
    try:
        failed, _ = read_failing_input(path)
    except TidegateError:
        return
    assert all(isinstance(array, np.ndarray) for array in failed.tensors.values())
