"""Versions come and go in a running engine while clients ask: labels, handles, loads, shadows, failures."""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest
from tests.support.engine.control import push, push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.gate import AT_LOAD, AT_PREDICT, Gate
from tests.support.models.versions import Draft, adding, digest_of, publish

from tidegate_serving.contract.desired_state import DesiredState, VersionReference
from tidegate_serving.contract.errors import DeadlinePassed, ModelFailed, NotFound, TidegateError
from tidegate_serving.contract.servable import State, StateChange
from tidegate_serving.control_client import ControlClient

X = np.array([1.0], dtype=np.float32)


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[EngineProcess]:
    config = {"roots": [tmp_path], "allow_unverified": True, "drain_seconds": 10, "retry_first_seconds": 0.05}
    with EngineProcess(tmp_path / "engine", **config) as running:
        yield running


@pytest.fixture
def control(engine: EngineProcess) -> Iterator[ControlClient]:
    with engine.control() as control:
        yield control


def model(tmp_path: Path, version: int, draft: Draft | None = None) -> Path:
    return publish(tmp_path, "m", version, draft or adding(version * 100))


def waiting(tmp_path: Path, version: int, template: str) -> tuple[Path, Gate]:
    gate = Gate.make(tmp_path / f"gate{version}")
    draft = Draft(files={"model.py": gate.source(template, version * 100)})
    return publish(tmp_path, "m", version, draft), gate


def test_a_label_moves_with_the_load_and_requests_never_wait_for_it(
    tmp_path: Path, engine: EngineProcess, control: ControlClient
) -> None:
    one = model(tmp_path, 1)
    two, gate = waiting(tmp_path, 2, AT_LOAD)
    push_and_wait(control, one, labels={"stable": 1})
    push(control, two, labels={"stable": 2})
    eventually(gate.entered.exists)
    with engine.client() as client:
        for label in (None, "stable"):
            assert client.predict("m", {"x": X}, label=label, timeout=60).version == 1, "while the new one loads"
        with pytest.raises(NotFound):
            client.predict("m", {"x": X}, version=2)
        gate.open()
        control.wait_until("m", 2, State.AVAILABLE, 30)
        assert client.predict("m", {"x": X}, label="stable").version == 2, "AVAILABLE means the label has moved"
        control.wait_until("m", 1, State.END, 30)
        with pytest.raises(NotFound):
            client.predict("m", {"x": X}, version=1)


def test_no_request_fails_while_versions_follow_each_other(
    tmp_path: Path, engine: EngineProcess, control: ControlClient
) -> None:
    versions = [model(tmp_path, number) for number in range(1, 6)]
    push_and_wait(control, versions[0], labels={"stable": 1})
    stop = threading.Event()
    counts: dict[int, int] = {}

    def ask() -> int:
        asked = 0
        with engine.client() as client:
            while not stop.is_set():
                prediction = client.predict("m", {"x": X}, label="stable" if asked % 2 else None)
                assert prediction.outputs["y"].tolist() == [1.0 + prediction.version * 100]
                counts[prediction.version] = counts.get(prediction.version, 0) + 1
                asked += 1
        return asked

    def answered(version: int) -> bool:
        return counts.get(version, 0) > 20

    with ThreadPoolExecutor(4) as pool:
        askers = [pool.submit(ask) for _ in range(4)]
        eventually(functools.partial(answered, 1))
        for directory in versions[1:]:
            push_and_wait(control, directory, labels={"stable": int(directory.name)})
            eventually(functools.partial(answered, int(directory.name)))
        stop.set()
        assert sum(asker.result(30) for asker in askers) > 100
    assert set(counts) == {1, 2, 3, 4, 5}


def test_a_version_stays_until_its_last_request_is_answered(
    tmp_path: Path, engine: EngineProcess, control: ControlClient
) -> None:
    one, gate = waiting(tmp_path, 1, AT_PREDICT)
    two = model(tmp_path, 2)
    push_and_wait(control, one)
    with ThreadPoolExecutor(1) as pool, engine.client() as client:
        slow = pool.submit(client.predict, "m", {"x": np.array([666.0], dtype=np.float32)}, timeout=60)
        eventually(gate.entered.exists)
        push_and_wait(control, two)
        control.wait_until("m", 1, State.UNLOADING, 30)
        assert client.predict("m", {"x": X}).version == 2
        with pytest.raises(DeadlinePassed, match="m:1 is not END"):
            control.wait_until("m", 1, State.END, 0.3)
        gate.open()
        assert slow.result(30).outputs["y"].tolist() == [766.0]
    control.wait_until("m", 1, State.END, 30)


def test_a_model_that_waits_holds_up_no_other(tmp_path: Path, engine: EngineProcess, control: ControlClient) -> None:
    slow, gate = waiting(tmp_path, 1, AT_PREDICT)
    other = publish(tmp_path, "other", 1, adding(5))
    push_and_wait(control, slow)
    push_and_wait(control, other)
    with ThreadPoolExecutor(1) as pool, engine.client() as client:
        waits = pool.submit(client.predict, "m", {"x": np.array([666.0], dtype=np.float32)}, timeout=60)
        eventually(gate.entered.exists)
        assert client.predict("other", {"x": X}, timeout=60).outputs["y"].tolist() == [6.0]
        gate.open()
        waits.result(30)


def test_a_version_that_cannot_load_says_why_and_the_old_one_serves(
    tmp_path: Path, engine: EngineProcess, control: ControlClient
) -> None:
    push_and_wait(control, model(tmp_path, 1))
    broken = model(tmp_path, 2, Draft(files={"model.py": "class Model:\n    def __init__(self):\n        1 / 0\n"}))
    push(control, broken)
    with pytest.raises(ModelFailed, match="ZeroDivisionError"):
        control.wait_until("m", 2, State.AVAILABLE, 30)
    with engine.client() as client:
        assert client.predict("m", {"x": X}).version == 1
    status = control.status("m").servables[0]
    assert [(entry.version, entry.error_code) for entry in status.versions][1:] == [(1, "")]


def test_a_version_that_cannot_answer_its_example_never_serves(
    tmp_path: Path, engine: EngineProcess, control: ControlClient
) -> None:
    source = "class Model:\n    def predict(self, inputs):\n        raise ValueError('boom')\n"
    push(control, model(tmp_path, 1, Draft(files={"model.py": source})))
    with pytest.raises(ModelFailed, match=r"m:1 cannot answer its own example: .*boom"):
        control.wait_until("m", 1, State.AVAILABLE, 30)


def test_a_failed_load_is_tried_again_until_it_works(
    tmp_path: Path, engine: EngineProcess, control: ControlClient
) -> None:
    flag = tmp_path / "store-is-back"
    source = f"import os, numpy as np\nclass Model:\n    def __init__(self):\n        os.stat({str(flag)!r})\n"
    source += "    def predict(self, inputs):\n        return {'y': inputs['x']}\n"
    push(control, model(tmp_path, 1, Draft(files={"model.py": source})))
    with pytest.raises(ModelFailed, match="FileNotFoundError"):
        control.wait_until("m", 1, State.AVAILABLE, 30)
    flag.touch()
    eventually(lambda: control.status("m").servables[0].versions[0].state is State.AVAILABLE)


def test_a_push_again_tries_again_at_once(tmp_path: Path, engine: EngineProcess, control: ControlClient) -> None:
    flag = tmp_path / "flag"
    source = f"import os\nclass Model:\n    def __init__(self):\n        os.stat({str(flag)!r})\n"
    source += "    def predict(self, inputs):\n        return {'y': inputs['x']}\n"
    directory = model(tmp_path, 1, Draft(files={"model.py": source}))
    push(control, directory)
    with pytest.raises(ModelFailed):
        control.wait_until("m", 1, State.AVAILABLE, 30)
    flag.touch()
    push_and_wait(control, directory)


def plain(change: StateChange) -> tuple[int, str]:
    return change.id.version, change.state.name


def test_watching_gives_the_present_first_then_changes(
    tmp_path: Path, engine: EngineProcess, control: ControlClient
) -> None:
    push_and_wait(control, model(tmp_path, 1))
    two = model(tmp_path, 2)
    seen: list[tuple[int, str]] = []
    with ThreadPoolExecutor(1) as pool, engine.control() as watching:
        watcher = pool.submit(lambda: seen.extend(plain(change) for change in watching.watch("m")))
        eventually(lambda: len(seen) == 1)
        assert seen.pop() == (1, "AVAILABLE")
        push(control, two)
        eventually(lambda: (1, "END") in seen)
        watching.close()
        watcher.result(30)
    assert [state for version, state in seen if version == 2] == ["START", "LOADING", "AVAILABLE"]
    assert [state for version, state in seen if version == 1] == ["UNLOADING", "END"]
    assert seen.index((2, "AVAILABLE")) < seen.index((1, "UNLOADING"))


def test_status_says_who_asked_and_what_serves(tmp_path: Path, engine: EngineProcess, control: ControlClient) -> None:
    one, two = model(tmp_path, 1), model(tmp_path, 2)
    push_and_wait(control, one, two, labels={"stable": 1, "canary": 2})
    with engine.client() as client:
        assert client.predict("m", {"x": X}).version == 1
    status = control.status()
    assert (status.grpc_address, status.rest_address) == (engine.addresses["grpc"], engine.addresses["rest"])
    servable = status.servable("m")
    assert servable is not None
    desired = servable.desired
    assert (servable.source, desired.revision, desired.requested_by, desired.reason) == (
        "RPC Source",
        1,
        "test",
        "test",
    )
    assert [(v.version, v.labels, v.path, v.manifest_digest) for v in servable.versions] == [
        (2, ("canary",), str(two), digest_of(two)),
        (1, ("stable",), str(one), digest_of(one)),
    ]
    batches = [status.counters[f'tidegate_batches_total{{model="m",version="{number}"}}'] for number in (1, 2)]
    assert batches == [1, 0]
    assert control.status("nobody").servables == ()


def test_refusals_keep_their_kind_over_the_wire(tmp_path: Path, engine: EngineProcess, control: ControlClient) -> None:
    with pytest.raises(TidegateError) as caught:
        control.set_desired_state(DesiredState("m", (VersionReference(1, Path("/etc"), "0" * 64),)))
    assert caught.value.code == "permission_refused"
    with pytest.raises(TidegateError) as caught:
        control.set_desired_state(DesiredState("not a name"))
    assert caught.value.code == "invalid_input"


def test_watchers_that_have_left_make_room_at_once(tmp_path: Path, control: ControlClient) -> None:
    push_and_wait(control, model(tmp_path, 1))
    for _ in range(150):
        assert control.wait_until("m", 1, State.AVAILABLE, 5).state is State.AVAILABLE
