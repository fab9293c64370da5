"""What begins also ends: a stop beside a call that never returns, and such a call is seen while others go on."""

from __future__ import annotations

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tests.support import rest
from tests.support.engine_process import EngineProcess
from tests.support.eventually import eventually
from tests.support.raw_calls import predict_later
from tests.support.versions import Draft, adding, publish

BLOCKS = 666
SOURCE = """
import ctypes, threading

class Model:
    def predict(self, inputs):
        if inputs["x"][0] == {blocks}:
            open({entered!r}, "w").close()
            {hang}
        return {{"y": inputs["x"] * 2}}
"""
HANGS = {
    "waits": "threading.Event().wait()",
    "computes": "while True: pass",
    "keeps Python's lock": "ctypes.PyDLL(None).sleep(1_000_000)",
}


@dataclass
class Hung:
    """An engine of which model `m` has a call that nobody lets return, beside a model `other`."""

    engine: EngineProcess
    call: Any

    @property
    def metrics(self) -> str:
        return rest.call(self.engine.addresses["rest"], "GET", "/metrics").body.decode()


@pytest.fixture
def drain_seconds() -> float:
    return 1.0


@pytest.fixture
def how() -> str:
    return "waits"


@pytest.fixture
def more() -> dict[str, float]:
    """Further keys of the engine's config."""
    return {}


@pytest.fixture
def hung(tmp_path: Path, drain_seconds: float, how: str, more: dict[str, float]) -> Iterator[Hung]:
    entered = tmp_path / "entered"
    source = SOURCE.format(blocks=BLOCKS, entered=str(entered), hang=HANGS[how])
    publish(tmp_path / "models", "m", 1, Draft(files={"model.py": source}))
    publish(tmp_path / "models", "other", 1, adding(1))
    config = {"repository": tmp_path / "models", "allow_unverified": True, "drain_seconds": drain_seconds}

    engine = EngineProcess(tmp_path / "engine", **config, **more).start()
    assert engine.process is not None
    try:
        with grpc.insecure_channel(engine.addresses["grpc"]) as channel:
            call = predict_later(channel, BLOCKS)
            eventually(entered.exists)
            yield Hung(engine, call)
    finally:
        engine.process.kill()
        engine.process.wait()


@pytest.mark.parametrize("gone", [False, True], ids=["its client waits", "its client has gone"])
@pytest.mark.parametrize("how", HANGS)
def test_a_call_that_never_returns_does_not_keep_the_process(hung: Hung, drain_seconds: float, gone: bool) -> None:
    if gone:
        hung.call.cancel()
    began = time.monotonic()
    hung.engine.terminate()
    assert hung.engine.wait(drain_seconds + 10) == 1, "something was left undone"
    assert time.monotonic() - began < drain_seconds + 2
    assert "m:1 hangs" in hung.engine.said(), "it says which model"
    if not gone:
        assert hung.call.exception(10) is not None
        assert hung.call.code() is grpc.StatusCode.UNAVAILABLE


@pytest.mark.parametrize("drain_seconds", [60.0])
@pytest.mark.parametrize("how", HANGS)
@pytest.mark.parametrize("second", [signal.SIGTERM, signal.SIGINT])
def test_a_second_signal_ends_it_at_once(hung: Hung, second: signal.Signals) -> None:
    process = hung.engine.process
    assert process is not None
    hung.engine.terminate()

    def ended() -> bool:
        process.send_signal(second)  # until it was a second one, as two that come together are one
        return process.poll() is not None

    eventually(ended, 10)
    assert process.returncode == 1


@pytest.mark.parametrize("more", [{"stuck_seconds": 0.5}])
@pytest.mark.parametrize("how", HANGS)
def test_a_stuck_call_is_seen(hung: Hung) -> None:
    eventually(lambda: 'tidegate_stuck_calls{model="m",version="1"} 1' in hung.metrics)
    assert 'tidegate_stuck_calls{model="other",version="1"} 0' in hung.metrics
    ready = rest.call(hung.engine.addresses["rest"], "GET", "/v2/health/ready").body.decode()
    assert "m:1" in ready
    assert "stuck since" in ready


@pytest.mark.parametrize("how", ["waits", "computes"])
def test_other_models_go_on_beside_it(hung: Hung, how: str) -> None:
    assert how in HANGS
    with hung.engine.client() as client:
        assert client.predict("other", {"x": np.ones(1, np.float32)}).outputs["y"].tolist() == [2.0]
