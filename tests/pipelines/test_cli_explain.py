"""`tidegate explain` against an engine whose batches closed for reasons that the test made."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from tests.support.command import Command
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.models.versions import publish

PATIENT = {"max_batch_rows": 8, "timeout_us": 1000}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    folder: Path = tmp_path_factory.mktemp("explain")
    version = publish(folder / "r", "walk", 4)
    with EngineProcess(folder / "engine", roots=[folder / "r"], allow_unverified=True, batching=PATIENT) as running:
        with running.control() as control:
            push_and_wait(control, version)
        yield running


@pytest.fixture
def tidegate(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], engine: EngineProcess) -> Command:
    monkeypatch.setenv("TIDEGATE_CONTROL", str(engine.addresses["control"]))
    return Command(monkeypatch, capsys)


def test_why_batches_closed_and_what_to_change(tidegate: Command, engine: EngineProcess) -> None:
    assert tidegate("explain").stdout == "no batch has run: send requests first\n"
    with engine.client() as client:
        for _ in range(30):
            client.predict("walk", {"x": np.zeros(1, np.float32)})
        for _ in range(10):
            client.predict("walk", {"x": np.zeros(8, np.float32)})
    done = tidegate("explain", "walk", "--json")
    found = json.loads(done.stdout)
    assert found["format"] == "tidegate.batches/1"
    (walk,) = found["signatures"]
    assert (walk["model"], walk["version"], walk["max_rows"], walk["timeout"]) == ("walk", 4, 8, 0.001)
    assert walk["closed"] == {
        "full": {"batches": 10, "requests": 10, "rows": 80},
        "timeout": {"batches": 30, "requests": 30, "rows": 30},
    }
    (sentence,) = walk["advice"]
    assert sentence.startswith("75 % of batches closed by time-out at 1.0 rows of 8, after 1 ms")
    table = tidegate("explain").stdout
    assert f"walk:4 serving_default: {sentence}" in table
    (row,) = [line.split() for line in table.splitlines() if " timeout " in line]
    assert row == ["walk:4", "serving_default", "timeout", "30", "75", "%", "1.0", "1.0", "of", "8"]


def test_a_span_shows_only_what_ran_in_it(tidegate: Command) -> None:
    assert tidegate("explain", "--during", "1s").stdout == "no batch has run in 1s: send requests first\n"


def test_a_model_that_nobody_knows_is_told_so(tidegate: Command) -> None:
    done = tidegate("explain", "nobody")
    assert done.returncode == 2
    assert "knows no model 'nobody'" in done.stderr
