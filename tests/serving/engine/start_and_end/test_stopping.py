"""SIGTERM drains: everything accepted is answered, nothing is lost, and the process ends with status 0."""

from __future__ import annotations

import json
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tests.support.clients.raw_calls import predict_later, wait_until_read
from tests.support.engine.control import push, push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.gate import AT_LOAD, AT_PREDICT, AT_UNLOAD, Gate
from tests.support.models.versions import Draft, adding, publish

from tidegate_serving.config import EngineConfig
from tidegate_serving.contract.errors import FailedPrecondition, NotFound, TidegateError, Unavailable
from tidegate_serving.contract.manifest import FILE_NAME
from tidegate_serving.contract.servable import State
from tidegate_serving.engine import Engine
from tidegate_serving.inference_log.reader import connect
from tidegate_serving.requests.running_plane import Target
from tidegate_serving.tensor_proto import to_array

SLOW = np.array([666.0], dtype=np.float32)
LARGE_BYTES = 1 << 40
"""Nobody reads a file of so many bytes while a test runs."""


def test_accepted_requests_are_answered_before_it_stops(tmp_path: Path) -> None:
    gate = Gate.make(tmp_path / "gate")
    directory = publish(tmp_path / "r", "m", 1, Draft(files={"model.py": gate.source(AT_PREDICT, 1)}))
    engine = EngineProcess(tmp_path / "engine", roots=[tmp_path / "r"], allow_unverified=True)
    with engine, grpc.insecure_channel(engine.addresses["grpc"]) as channel:
        with engine.control() as control:
            push_and_wait(control, directory)
        first = predict_later(channel, 666)
        eventually(gate.entered.exists)
        queued = [predict_later(channel, number) for number in (1, 2, 3)]
        wait_until_read(channel)
        engine.terminate()
        eventually(lambda: not engine.ready_file.exists())
        assert engine.process is not None
        assert engine.process.poll() is None, "it waits for what it has accepted"
        gate.open()
        answers = [to_array(request.result(30).outputs["y"]).tolist() for request in (first, *queued)]
        assert answers == [[667.0], [2.0], [3.0], [4.0]]
        assert engine.wait() == 0, engine.said()


def test_no_accepted_request_fails_under_load(tmp_path: Path) -> None:
    directory = publish(tmp_path / "r", "m", 1, adding(1))
    log = tmp_path / "log"
    engine = EngineProcess(tmp_path / "engine", roots=[tmp_path / "r"], allow_unverified=True, log_path=log)
    answered, refused = [0] * 6, [""] * 6
    begun = threading.Barrier(7)

    def ask(number: int) -> None:
        with engine.client() as client:
            client.predict("m", {"x": SLOW})
            answered[number] += 1
            begun.wait(30)
            while True:
                try:
                    prediction = client.predict("m", {"x": SLOW}, request_id=f"{number}-{answered[number]}")
                except TidegateError as error:
                    refused[number] = error.code
                    return
                assert prediction.outputs["y"].tolist() == [667.0]
                answered[number] += 1

    with engine, ThreadPoolExecutor(6) as pool:
        with engine.control() as control:
            push_and_wait(control, directory)
        askers = [pool.submit(ask, number) for number in range(6)]
        begun.wait(30)
        eventually(lambda: sum(answered) > 500)
        assert engine.stop() == 0, engine.said()
        for asker in askers:
            asker.result(30)
    assert set(refused) == {Unavailable.code}, "after it stopped nobody is accepted, and nobody hears anything else"
    rows = connect(log).execute("SELECT count(*), count(*) FILTER (status = 0) FROM log").fetchone()
    assert rows == (sum(answered), sum(answered)), "each answered request is in the log once"


def test_watchers_see_the_end(tmp_path: Path) -> None:
    directory = publish(tmp_path / "r", "m", 1, adding(1))
    engine = EngineProcess(tmp_path / "engine", roots=[tmp_path / "r"], allow_unverified=True)
    seen: list[State] = []
    with ThreadPoolExecutor(1) as pool, engine, engine.control() as control:
        push_and_wait(control, directory)
        watcher = pool.submit(lambda: seen.extend(change.state for change in control.watch()))
        eventually(lambda: len(seen) == 1)
        assert engine.stop() == 0
        with pytest.raises(Unavailable):
            watcher.result(30)
    assert seen == [State.AVAILABLE, State.UNLOADING, State.END]


def test_a_stop_does_not_wait_for_a_start(tmp_path: Path) -> None:
    gate = Gate.make(tmp_path / "gate")
    publish(tmp_path / "r", "m", 1, Draft(files={"model.py": gate.source(AT_LOAD, 1)}))
    engine = EngineProcess(tmp_path / "engine", repository=tmp_path / "r", allow_unverified=True).launch()
    eventually(gate.entered.exists)
    assert engine.stop() == 0, engine.said()
    assert "stopped before the engine was up" in engine.said()
    assert not engine.ready_file.exists()


def test_a_load_that_never_ends_does_not_keep_the_process(tmp_path: Path) -> None:
    gate = Gate.make(tmp_path / "gate")
    directory = publish(tmp_path / "r", "m", 1, Draft(files={"model.py": gate.source(AT_LOAD, 1)}))
    engine = EngineProcess(
        tmp_path / "engine", roots=[tmp_path / "r"], allow_unverified=True, drain_seconds=0.2, start_seconds=0
    )
    with engine, engine.control() as control:
        push(control, directory)
        eventually(gate.entered.exists)
        assert engine.stop() == 1, "it says that something was left undone"
        assert "not everything was answered or unloaded in time" in engine.said()


def test_versions_unload_side_by_side_once_it_stops(tmp_path: Path) -> None:
    """One after the other, those in processes of their own took more than all the time that there is."""
    gates = [Gate.make(tmp_path / f"gate{number}") for number in range(3)]
    for number, gate in enumerate(gates):
        publish(tmp_path / "r", f"m{number}", 1, Draft(files={"model.py": gate.source(AT_UNLOAD, 1)}))
    engine = EngineProcess(
        tmp_path / "engine", repository=tmp_path / "r", allow_unverified=True, isolation="engine", drain_seconds=60
    )
    with engine:
        engine.terminate()
        eventually(lambda: all(gate.entered.exists() for gate in gates), 30)
        for gate in gates:
            gate.open()
        assert engine.wait() == 0, engine.said()


def test_a_large_file_that_is_read_for_a_push_does_not_keep_the_process(tmp_path: Path) -> None:
    directory = publish(tmp_path / "r", "m", 1, adding(1))
    manifest = json.loads((directory / FILE_NAME).read_text())
    with (directory / "weights.bin").open("wb") as weights:
        weights.truncate(LARGE_BYTES)
    manifest["files"].append({"path": "weights.bin", "size": LARGE_BYTES, "sha256": "0" * 64})
    (directory / FILE_NAME).write_text(json.dumps(manifest))
    engine = EngineProcess(tmp_path / "engine", roots=[tmp_path / "r"], allow_unverified=True, drain_seconds=1.0)
    with engine, ThreadPoolExecutor(1) as pool, engine.control() as control:
        pushed = pool.submit(push, control, directory)
        assert engine.process is not None
        descriptors = Path(f"/proc/{engine.process.pid}/fd")
        eventually(lambda: any(str(one.readlink()).endswith("weights.bin") for one in descriptors.iterdir()))
        engine.terminate()
        assert engine.wait() == 0, engine.said()
        with pytest.raises(Unavailable):
            pushed.result(30)


def test_the_state_directory_is_the_engines_own_until_its_drain_is_over(tmp_path: Path) -> None:
    config = EngineConfig(grpc_address="", rest_address="", control_address="", state_directory=tmp_path)
    began, goes_on = threading.Event(), threading.Event()

    def waits(x: Any) -> dict[str, Any]:
        began.set()
        assert goes_on.wait(30)
        return {"y": x}

    def drains() -> bool:
        """Nobody is found before."""
        with pytest.raises((NotFound, Unavailable)) as refused:
            plane.predict("nobody", {}, Target())
        return refused.type is Unavailable

    engine = Engine(config)
    engine.start()
    plane = engine._live().plane()
    engine.serve("m", waits, inputs={"x": "float32"}, outputs={"y": "float32"})
    with ThreadPoolExecutor(2) as pool:
        asked = pool.submit(engine.predict, "m", {"x": [1.0]})
        assert began.wait(30)
        stopped = pool.submit(engine.stop, 30.0)
        eventually(drains)
        try:
            with pytest.raises(FailedPrecondition, match="used by another engine"), Engine(config):
                pass
        finally:
            goes_on.set()
        assert stopped.result(30)
        assert asked.result(30)["y"].tolist() == [1.0]
    with Engine(config):
        pass
