"""A model's queue is bounded, keeps deadlines, and never works for a client that has gone."""

from __future__ import annotations

import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import grpc
import numpy as np
import pytest
from tests.support.clients import rest
from tests.support.clients.raw_calls import predict_later, wait_until_read
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.gate import AT_PREDICT, Gate
from tests.support.models.versions import Draft, publish

from tidegate_serving.contract.errors import DeadlinePassed, ResourceExhausted

BLOCKS = 666
BATCHING = {"max_queued_rows": 4, "max_batch_rows": 1}


@dataclass
class Busy:
    """An engine whose only model waits at its gate, with a request that it has taken."""

    engine: EngineProcess
    gate: Gate
    channel: grpc.Channel

    def sample(self, name: str, label: str = 'model="m"') -> float:
        """A counter of the model, summed over the samples with a label."""
        lines = rest.call(self.engine.addresses["rest"], "GET", "/metrics").body.decode().splitlines()
        return sum(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + "{") and label in line)


@pytest.fixture
def busy(tmp_path: Path) -> Iterator[Busy]:
    gate = Gate.make(tmp_path / "gate")
    directory = publish(tmp_path / "r", "m", 1, Draft(files={"model.py": gate.source(AT_PREDICT, 1)}))
    config = {"roots": [tmp_path / "r"], "allow_unverified": True, "batching": BATCHING, "drain_seconds": 5}
    with EngineProcess(tmp_path / "engine", **config) as engine:
        with engine.control() as control:
            push_and_wait(control, directory)
        with grpc.insecure_channel(engine.addresses["grpc"]) as channel:
            first = predict_later(channel, BLOCKS)
            eventually(gate.entered.exists)
            yield Busy(engine, gate, channel)
            first.cancel()


def test_a_full_queue_says_so_at_once_on_both_endpoints(busy: Busy) -> None:
    queued = [predict_later(busy.channel, number) for number in range(4)]
    wait_until_read(busy.channel)
    # The model is at its gate all the time.
    with busy.engine.client() as client, pytest.raises(ResourceExhausted, match="4"):
        client.predict("m", {"x": np.ones(1, np.float32)}, timeout=30)
    reply = rest.predict(busy.engine.addresses["rest"], "m", [1])
    assert (reply.status, "4" in reply.json()["error"]) == (429, True)
    eventually(lambda: busy.sample("tidegate_queue_rejections_total") == 2)
    busy.gate.open()
    assert [request.result(30).model_spec.version.value for request in queued] == [1] * 4


def test_a_deadline_that_passes_in_the_queue_is_kept_and_its_work_is_not_run(busy: Busy) -> None:
    with busy.engine.client() as client:
        begun = time.monotonic()
        with pytest.raises(DeadlinePassed):
            client.predict("m", {"x": np.ones(1, np.float32)}, timeout=0.3)
        assert time.monotonic() - begun > 0.2
        before = busy.sample("tidegate_rows_total")
        busy.gate.open()
        assert client.predict("m", {"x": np.ones(1, np.float32)}, timeout=30).version == 1
    after = busy.sample("tidegate_rows_total")
    assert after - before <= 2, "the request that blocked and the last one, not the one that was too late"
    eventually(lambda: busy.sample("tidegate_deadline_drops_total") + busy.sample("tidegate_cancelled_total") == 1)


def test_a_client_that_went_away_is_not_computed_for(busy: Busy) -> None:
    gone = [predict_later(busy.channel, number) for number in range(3)]
    wait_until_read(busy.channel)
    for request in gone:
        request.cancel()
    eventually(lambda: busy.sample("tidegate_requests_total", 'status="CANCELLED"') == 3)
    with busy.engine.client() as client:
        kept = ThreadPoolExecutor(1)
        last = kept.submit(client.predict, "m", {"x": np.ones(1, np.float32)}, timeout=30)
        busy.gate.open()
        assert last.result(30).version == 1
        kept.shutdown()
    eventually(lambda: busy.sample("tidegate_cancelled_total") == 3)
    assert busy.sample("tidegate_rows_total") <= 3, "the example, the one that blocked, the last one"
