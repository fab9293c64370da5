"""A full queue over real connections: refused at once, or waited for until the deadline, as `when_full` has it."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as over_grpc
from tests.support.clients import rest
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.gate import Gate
from tests.support.models.versions import Draft, publish
from tritonclient.utils import InferenceServerException

from tidegate_serving.config import BatchingConfig
from tidegate_serving.contract.errors import InvalidInput

HELD = """
import numpy as np

class Model:
    def predict(self, inputs):
        with open({asked!r}, "a") as file:
            file.write("".join(f"{{value:g}}\\n" for value in inputs["x"]))
        if inputs["x"][0] == 0:
            open({entered!r}, "w").close()
            open({pipe!r}, "rb").read()
        return {{"y": inputs["x"]}}
"""
WAITING, QUEUED = "tidegate_queue_waiting_requests", "tidegate_queued_rows"


class Bench:
    """An engine whose model is held by its first request, while two rows have places in its queue."""

    def __init__(self, folder: Path, when_full: str) -> None:
        self.gate = Gate.make(folder / "gate")
        self.asked = folder / "asked.txt"
        source = HELD.format(asked=str(self.asked), entered=str(self.gate.entered), pipe=str(self.gate.pipe))
        self.model = publish(folder / "r", "m", 1, Draft(files={"model.py": source}))
        batching = {"max_batch_rows": 1, "max_queued_rows": 2, "when_full": when_full}
        values = {"roots": [folder / "r"], "allow_unverified": True, "batching": batching, "isolation": "engine"}
        self.engine = EngineProcess(folder / "engine", **values)
        self._pool = ThreadPoolExecutor(32)
        self._client = over_grpc.InferenceServerClient

    def begin(self) -> Bench:
        self.engine.__enter__()
        with self.engine.control() as control:
            push_and_wait(control, self.model)
        self.asked.unlink()
        self._client = over_grpc.InferenceServerClient(self.engine.addresses["grpc"])
        self.first = self.ask(0)
        eventually(self.gate.entered.exists)
        return self

    def end(self) -> None:
        self._pool.shutdown()
        self._client.close()
        self.engine.__exit__(None, None, None)

    def sample(self, name: str) -> float:
        page = rest.call(self.engine.addresses["rest"], "GET", "/metrics").body.decode()
        (line,) = [line for line in page.splitlines() if line.startswith(f"{name}{{")]
        return float(line.rpartition(" ")[2])

    def ask(self, value: float, **options: Any) -> Future[Any]:
        return self._pool.submit(self._ask, value, **options)

    def _ask(self, value: float, **options: Any) -> Any:
        x = over_grpc.InferInput("x", [1], "FP32")
        x.set_data_from_numpy(np.full(1, value, np.float32))
        return self._client.infer("m", [x], **options).as_numpy("y").tolist()

    def ask_in_turn(self, values: range, **options: Any) -> list[Future[Any]]:
        """One after the other: each is in the queue before the next one is sent."""
        asked = []
        for value in values:
            before = self.sample(QUEUED)
            asked.append(self.ask(value, **options))
            eventually(lambda before=before: self.sample(QUEUED) == before + 1)  # type: ignore[misc]
        return asked

    def order(self) -> list[int]:
        return [int(line) for line in self.asked.read_text().split()]


@pytest.fixture
def bench(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Bench]:
    made = Bench(tmp_path, getattr(request, "param", "wait")).begin()
    yield made
    made.end()


def test_requests_wait_and_are_answered_in_the_order_in_which_they_came(bench: Bench) -> None:
    asked = bench.ask_in_turn(range(1, 9))
    assert (bench.sample(QUEUED), bench.sample(WAITING)) == (8, 6)
    over_http = bench._pool.submit(rest.predict, bench.engine.addresses["rest"], "m", [9.0])
    eventually(lambda: bench.sample(WAITING) == 7)
    bench.gate.open()
    assert [one.result(60) for one in (bench.first, *asked)] == [[float(value)] for value in range(9)]
    assert over_http.result(60).json() == {"predictions": [9.0]}
    assert bench.order() == [*range(9), 9]
    assert (bench.sample(QUEUED), bench.sample(WAITING)) == (0, 0)
    assert bench.sample("tidegate_queue_rejections_total") == 0


def test_deadlines_and_clients_that_leave_count_while_requests_wait(bench: Bench) -> None:
    kept = bench.ask_in_turn(range(1, 4))
    late = bench.ask_in_turn(range(4, 5), timeout=3_000_000)
    for one in late:
        with pytest.raises(
            InferenceServerException, match="the deadline passed while the request waited in the batch queue"
        ):
            one.result(60)
    eventually(lambda: (bench.sample(QUEUED), bench.sample(WAITING)) == (3, 1))
    gone = bench.ask_in_turn(range(6, 7), client_timeout=3.0)
    for one in gone:
        with pytest.raises(InferenceServerException, match=r"Deadline Exceeded|deadline passed"):
            one.result(60)
    eventually(lambda: (bench.sample(QUEUED), bench.sample(WAITING)) == (3, 1))
    hung_up = threading.Event()
    x = over_grpc.InferInput("x", [1], "FP32")
    x.set_data_from_numpy(np.full(1, 9, np.float32))
    call = bench._client.async_infer("m", [x], callback=lambda result, error: hung_up.set())
    eventually(lambda: bench.sample(WAITING) == 2)
    call.cancel()
    assert hung_up.wait(60)
    eventually(lambda: (bench.sample(QUEUED), bench.sample(WAITING)) == (3, 1))
    bench.gate.open()
    assert [one.result(60) for one in kept] == [[1.0], [2.0], [3.0]]
    assert bench.order() == [0, 1, 2, 3], "what nobody waits for does not run"
    eventually(lambda: bench.sample(WAITING) == 0)


@pytest.mark.parametrize("bench", ["refuse"], indirect=True)
def test_a_full_queue_refuses_where_it_is_told_to(bench: Bench) -> None:
    kept = bench.ask_in_turn(range(1, 3))
    refused = bench.ask(3)
    with pytest.raises(
        InferenceServerException, match="the batch queue is full: 1 more rows would pass its limit of 2 rows"
    ):
        refused.result(60)
    assert bench.sample(WAITING) == 0
    bench.gate.open()
    assert [one.result(60) for one in kept] == [[1.0], [2.0]]


def test_another_policy_is_refused_by_name() -> None:
    with pytest.raises(InvalidInput, match="when_full is 'drop': use one of refuse, wait"):
        BatchingConfig(when_full="drop")
