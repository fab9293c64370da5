"""A version of several stages in worker processes: each stage has its own, and they work side by side."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tests.support.eventually import at_best, eventually
from tests.support.models.versions import Draft, publish

from tidegate_serving.contract.errors import InvalidInput, ModelFailed, Tampered
from tidegate_serving.contract.manifest import Manifest, read_manifest
from tidegate_serving.contract.servable import ServableId
from tidegate_serving.contract.signature import SERVING_DEFAULT, Signature, TensorSpec
from tidegate_serving.platforms.loader import Answer, LoadedVersion
from tidegate_serving.platforms.platform import PlatformOptions
from tidegate_serving.platforms.stages.description import Stage
from tidegate_serving.workers.gauges import WorkerGauges
from tidegate_serving.workers.load import load_in_workers
from tidegate_serving.workers.place import WorkerPlace
from tidegate_serving.workers.task import WorkerTask
from tidegate_serving.workers.version_workers import Staff

SECONDS = 0.1
PART = f"""
import os, time
import numpy as np

class Model:
    def predict(self, inputs):
        if (inputs["x"] == -1).any():
            os.kill(os.getpid(), 9)
        time.sleep({SECONDS})
        return {{"y": inputs["x"] + 1, "pid": np.full(len(inputs["x"]), os.getpid(), np.int64)}}
"""
CALLED = Signature((TensorSpec("x", "float32"),), (TensorSpec("y", "float32"), TensorSpec("pid", "int64")))


class Counts:
    """Where gauges are shown: workers by stage."""

    def __init__(self) -> None:
        self.workers: dict[str, float] = {}

    def set_gauges(self, name: str, help: str, samples: Sequence[tuple[list[tuple[str, str]], float]]) -> None:
        if name == "tidegate_worker_processes":
            self.workers = {dict(labels)["stage"]: number for labels, number in samples}


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    first = {"name": "first", "platform": "python", "signature": CALLED.to_dict(), "gives": {"pid": "early"}}
    second = {
        "name": "second",
        "platform": "python",
        "signature": CALLED.to_dict(),
        "takes": {"x": "y"},
        "gives": {"y": "z", "pid": "late"},
        "workers": 2,
    }
    described = json.dumps({"stages": [first, second], "outputs": ["z", "early", "late"]})
    files = {"first/model.py": PART, "second/model.py": PART, "stages.json": described}
    outputs = (TensorSpec("z", "float32"), TensorSpec("early", "int64"), TensorSpec("late", "int64"))
    return publish(tmp_path, "m", 1, Draft("stages", files, Signature(CALLED.inputs, outputs)))


def load(directory: Path, gauges: WorkerGauges) -> LoadedVersion:
    manifest, _ = read_manifest(directory)
    task = WorkerTask(directory, manifest.to_bytes().decode(), PlatformOptions())
    return load_in_workers(ServableId("m", 1), task, Staff(1, WorkerPlace()), gauges)


@pytest.fixture
def version(directory: Path) -> Iterator[LoadedVersion]:
    version = load(directory, WorkerGauges())
    yield version
    version.servable.close()


def ask(version: LoadedVersion, x: float) -> Answer:
    answer = version.servable.predict(SERVING_DEFAULT, {"x": np.array([x], np.float32)})
    assert isinstance(answer, Answer)
    return answer


def test_each_stage_has_workers_of_its_own(directory: Path) -> None:
    counts, gauges = Counts(), WorkerGauges()
    gauges.show_in(counts)
    version = load(directory, gauges)
    assert counts.workers == {"first": 1, "second": 2}
    answer = ask(version, 5)
    assert answer.outputs["z"].tolist() == [7]
    assert len({int(answer.outputs["early"][0]), int(answer.outputs["late"][0]), os.getpid()}) == 3
    assert version.measured is not None
    assert version.measured["ram"] > 0
    version.servable.close()
    assert counts.workers == {}


def test_stages_work_side_by_side_on_different_batches(version: LoadedVersion) -> None:
    def are_side_by_side() -> bool:
        start = time.monotonic()
        with ThreadPoolExecutor(2) as threads:
            answers = list(threads.map(lambda x: ask(version, x), range(10)))
        assert [answer.outputs["z"][0] for answer in answers] == list(range(2, 12))
        one_by_one = 10 * 2 * SECONDS
        return time.monotonic() - start < 0.8 * one_by_one

    assert at_best(10, are_side_by_side)


def test_a_stages_worker_that_dies_is_replaced(version: LoadedVersion) -> None:
    before = int(ask(version, 1).outputs["early"][0])
    os.kill(before, signal.SIGKILL)
    assert ask(version, 2).outputs["z"].tolist() == [4]
    with pytest.raises(ModelFailed, match="stage 'second': m:1 ended its worker process on this batch"):
        ask(version, -2)
    eventually(lambda: ask(version, 3).outputs["z"].tolist() == [5], 60)


def test_files_of_no_stage_are_verified_too(directory: Path) -> None:
    (directory / "stages.json").write_text((directory / "stages.json").read_text() + " ")
    with pytest.raises(Tampered, match=r"stages\.json differs from the manifest"):
        load(directory, WorkerGauges())


def test_a_stage_that_says_another_signature_than_the_default_leaves_no_worker(
    directory: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    counts, gauges = Counts(), WorkerGauges()
    gauges.show_in(counts)

    def refused(stage: Stage, manifest: Manifest) -> Signature:
        raise InvalidInput(f"stage {stage.name!r} of {manifest.id} has no signature")

    monkeypatch.setattr("tidegate_serving.workers.load.only_signature", refused)
    with pytest.raises(InvalidInput, match="stage 'first' of m:1 has no signature"):
        load(directory, gauges)
    assert counts.workers == {}
