"""A queue takes what can be answered in time and refuses the rest at once; what is dead takes nobody's place."""

from __future__ import annotations

import collections
import time
from pathlib import Path

import grpc
import numpy as np
import pytest
from tests.support.engine_process import EngineProcess
from tests.support.eventually import eventually
from tests.support.gate import AT_PREDICT, Gate
from tests.support.raw_calls import predict_later, wait_until_read
from tests.support.versions import Draft, adding, publish

from tidegate_serving.contract.errors import DeadlinePassed

SLOW = """
import time

class Model:
    def predict(self, inputs):
        time.sleep(0.1 * len(inputs["x"]))
        return {"y": inputs["x"] + 1}
"""
REQUESTS, SECONDS = 200, 2.0


def test_what_cannot_be_answered_in_time_is_refused_at_once(tmp_path: Path) -> None:
    publish(tmp_path / "models", "m", 1, Draft(files={"model.py": SLOW}))
    config = {"repository": tmp_path / "models", "allow_unverified": True}
    with EngineProcess(tmp_path / "engine", **config) as engine:
        with engine.client() as client:
            for _ in range(5):  # so that its time is known
                client.predict("m", {"x": np.ones(1, np.float32)})
        with grpc.insecure_channel(engine.addresses["grpc"]) as channel:
            began = time.monotonic()
            waiting = [predict_later(channel, 1, timeout=SECONDS) for _ in range(REQUESTS)]
            ended: dict[str, list[float]] = collections.defaultdict(list)
            for one in waiting:
                one.add_done_callback(lambda done: ended[done.code().name].append(time.monotonic() - began))
            eventually(lambda: sum(map(len, ended.values())) == REQUESTS)
    counts = {code: len(times) for code, times in ended.items()}
    assert counts.get("DEADLINE_EXCEEDED", 0) <= REQUESTS // 20, counts
    assert counts["OK"] >= 10, "and what can be answered is"
    assert sorted(ended["RESOURCE_EXHAUSTED"])[REQUESTS // 2] < SECONDS / 2, "they need not wait to be refused"


def test_requests_that_are_dead_take_no_place(tmp_path: Path) -> None:
    gate = Gate.make(tmp_path / "gate")
    publish(tmp_path / "models", "m", 1, Draft(files={"model.py": gate.source(AT_PREDICT, 1)}))
    batching = {"max_queued_rows": 4, "max_batch_rows": 1}
    config = {"repository": tmp_path / "models", "allow_unverified": True, "batching": batching}
    with EngineProcess(tmp_path / "engine", **config, drain_seconds=1) as engine:
        client = engine.client()
        with grpc.insecure_channel(engine.addresses["grpc"]) as channel, client:
            first = predict_later(channel, 666)
            eventually(gate.entered.exists)
            gone = [predict_later(channel, number) for number in range(2)]
            wait_until_read(channel)
            for one in gone:
                one.cancel()
            for _ in range(4):
                with pytest.raises(DeadlinePassed):
                    client.predict("m", {"x": np.ones(1, np.float32)}, timeout=0.3)
            alive = [predict_later(channel, number) for number in range(4)]
            wait_until_read(channel)
            gate.open()
            assert [one.result(30).model_spec.version.value for one in (first, *alive)] == [1] * 5


def test_a_request_with_more_rows_than_the_queue_holds_is_split(tmp_path: Path) -> None:
    publish(tmp_path / "models", "m", 1, adding(1))
    batching = {"max_queued_rows": 16, "max_batch_rows": 8}
    config = {"repository": tmp_path / "models", "allow_unverified": True, "batching": batching}
    with EngineProcess(tmp_path / "engine", **config) as engine, engine.client() as client:
        x = np.arange(100, dtype=np.float32)
        assert client.predict("m", {"x": x}).outputs["y"].tolist() == (x + 1).tolist()
