"""A model call that never returns: it keeps neither the process nor other models, and somebody is told."""

from __future__ import annotations

import gc
import signal
import subprocess
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import grpc
import numpy as np
import pytest
from tests.support.clients.raw_calls import predict_later, wait_until_read
from tests.support.clients.rest import call
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.gate import AT_PREDICT, Gate
from tests.support.models.versions import Draft, adding, publish

from tidegate_serving.contract.errors import Unavailable
from tidegate_serving.engine import Engine
from tidegate_serving.tensor_proto import to_array

DRAIN_SECONDS = 1.0
LONG_SECONDS = 300.0
LATEST = 60.0
"""Nothing of this module ends by itself within so many seconds: what does was ended."""


def hung_engine(
    folder: Path, drain_seconds: float = DRAIN_SECONDS, stuck_seconds: float = 30.0
) -> tuple[EngineProcess, Path, Path, Gate]:
    """An engine that is not started yet, a version that hangs at the value 666, and one that returns."""
    gate = Gate.make(folder / "gate")
    hangs = publish(folder / "r", "hangs", 3, Draft(files={"model.py": gate.source(AT_PREDICT, 1)}))
    returns = publish(folder / "r", "returns", 1, adding(1))
    engine = EngineProcess(
        folder / "engine",
        roots=[folder / "r"],
        allow_unverified=True,
        drain_seconds=drain_seconds,
        stuck_seconds=stuck_seconds,
    )
    return engine, hangs, returns, gate


def test_sigterm_ends_the_process_in_time_and_says_what_hangs(tmp_path: Path) -> None:
    engine, hangs, returns, gate = hung_engine(tmp_path)
    with engine, grpc.insecure_channel(engine.addresses["grpc"]) as channel:
        with engine.control() as control:
            push_and_wait(control, hangs)
            push_and_wait(control, returns)
        hung = predict_later(channel, 666, "hangs")
        eventually(gate.entered.exists)
        queued = predict_later(channel, 1, "hangs")
        wait_until_read(channel)
        answered = predict_later(channel, 1, "returns")
        assert to_array(answered.result(30).outputs["y"]).tolist() == [2.0]
        engine.terminate()
        for one in (hung, queued):
            with pytest.raises(grpc.RpcError) as raised:
                one.result(30)
            assert raised.value.code() is grpc.StatusCode.UNAVAILABLE
        assert engine.wait(LATEST) == 1, engine.said()
        assert "hangs version 3" in engine.said(), "the log names the model and the version"


def test_a_hung_call_is_named_although_its_client_has_gone(tmp_path: Path) -> None:
    engine, hangs, _, gate = hung_engine(tmp_path)
    with engine:
        with engine.control() as control:
            push_and_wait(control, hangs)
        with grpc.insecure_channel(engine.addresses["grpc"]) as channel:
            hung = predict_later(channel, 666, "hangs")
            eventually(gate.entered.exists)
            hung.cancel()
        engine.terminate()
        assert engine.wait(LATEST) == 1, engine.said()
        assert "hangs version 3" in engine.said(), "the log names the model and the version"


def test_a_call_that_returns_in_time_is_waited_for_although_its_client_has_gone(tmp_path: Path) -> None:
    engine, hangs, _, gate = hung_engine(tmp_path, drain_seconds=LONG_SECONDS)
    with engine:
        with engine.control() as control:
            push_and_wait(control, hangs)
        with grpc.insecure_channel(engine.addresses["grpc"]) as channel:
            hung = predict_later(channel, 666, "hangs")
            eventually(gate.entered.exists)
            hung.cancel()
        engine.terminate()
        eventually(lambda: "draining" in engine.said())
        assert engine.process is not None
        with pytest.raises(subprocess.TimeoutExpired):
            engine.process.wait(3)
        assert "UNLOADING" not in engine.said()
        gate.open()
        assert engine.wait() == 0, engine.said()


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_the_process_at_once(tmp_path: Path, number: signal.Signals) -> None:
    engine, hangs, _, gate = hung_engine(tmp_path, drain_seconds=LONG_SECONDS)
    with engine, grpc.insecure_channel(engine.addresses["grpc"]) as channel:
        with engine.control() as control:
            push_and_wait(control, hangs)
        hung = predict_later(channel, 666, "hangs")
        eventually(gate.entered.exists)
        assert not hung.done()
        engine.terminate()
        eventually(lambda: "draining" in engine.said())
        assert engine.process is not None
        engine.process.send_signal(number)
        assert engine.wait(LATEST) == 1, engine.said()


HOLDS_THE_GIL = """
import ctypes
import numpy as np

class Model:
    def predict(self, inputs):
        if inputs["x"][0] == 666:
            open({entered!r}, "w").close()
            ctypes.PyDLL(None).sleep(3600)
        return {{"y": inputs["x"] + np.float32({added})}}
"""


def test_sigterm_ends_a_process_whose_model_holds_the_gil(tmp_path: Path) -> None:
    engine, _, _, gate = hung_engine(tmp_path)
    holds = publish(tmp_path / "r", "holds", 2, Draft(files={"model.py": gate.source(HOLDS_THE_GIL, 1)}))
    with engine, grpc.insecure_channel(engine.addresses["grpc"]) as channel:
        with engine.control() as control:
            push_and_wait(control, holds)
        hung = predict_later(channel, 666, "holds")
        eventually(gate.entered.exists)
        assert not hung.done()
        engine.terminate()
        assert engine.wait(LATEST) == 1, engine.said()
        assert "holds version 2" in engine.said(), "the log names the model and the version"


def test_a_stuck_call_is_seen_and_other_models_go_on(tmp_path: Path) -> None:
    engine, hangs, returns, gate = hung_engine(tmp_path, stuck_seconds=0.2)
    with engine, grpc.insecure_channel(engine.addresses["grpc"]) as channel, engine.control() as control:
        push_and_wait(control, hangs)
        push_and_wait(control, returns)
        hung = predict_later(channel, 666, "hangs")
        eventually(gate.entered.exists)

        def problem() -> str:
            status = control.status("hangs").servable("hangs")
            assert status is not None
            return status.source_problem

        eventually(lambda: "hangs version 3 is stuck since 20" in problem())
        ready = call(engine.addresses["rest"], "GET", "/v2/health/ready")
        assert (ready.status, b"hangs version 3 is stuck since" in ready.body) == (200, True), ready.body
        metrics = call(engine.addresses["rest"], "GET", "/metrics").body.decode()
        assert seconds_running(metrics, "hangs", 3) > 0.2
        answered = predict_later(channel, 1, "returns")
        assert to_array(answered.result(30).outputs["y"]).tolist() == [2.0]
        assert seconds_running(metrics, "returns", 1) == 0
        gate.open()
        assert to_array(hung.result(30).outputs["y"]).tolist() == [667.0]
        eventually(lambda: not problem())
        assert call(engine.addresses["rest"], "GET", "/v2/health/ready").body == b'{"ready":true}'


def seconds_running(metrics: str, model: str, version: int) -> float:
    name = f'tidegate_call_seconds_running{{model="{model}",version="{version}"}} '
    return next(float(line.removeprefix(name)) for line in metrics.splitlines() if line.startswith(name))


def test_an_embedded_engine_stops_in_time() -> None:
    entered, release = threading.Event(), threading.Event()

    def hangs(x: np.ndarray) -> dict[str, np.ndarray]:
        entered.set()
        release.wait(LONG_SECONDS)
        return {"y": x}

    engine = Engine()
    engine.start()
    engine.serve("hangs", hangs, inputs={"x": "float32"}, outputs={"y": "float32"})
    with ThreadPoolExecutor(1) as pool:
        asked = pool.submit(engine.predict, "hangs", {"x": [1.0]})
        assert entered.wait(30)
        began = time.monotonic()
        assert engine.stop(0.5) is False
        del engine
        gc.collect()
        assert time.monotonic() - began < LATEST, "neither the stop nor letting go of it waits for the call"
        with pytest.raises(Unavailable):
            asked.result(30)
        release.set()
