"""Priorities over real connections: Triton's parameter, and a header or metadata of any other request."""

from __future__ import annotations

import queue
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import tritonclient.grpc as over_grpc
import tritonclient.http as over_http
from tests.support.clients import rest
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.versions import Draft, publish

from tidegate_serving.config import BatchingConfig
from tidegate_serving.contract.errors import InvalidInput

HELD = """
import pathlib, time
import numpy as np

class Model:
    def __init__(self, directory):
        self.folder = directory.parent

    def predict(self, inputs):
        gate = self.folder / "closed"
        (self.folder / "entered").touch()
        while gate.exists():
            time.sleep(0.002)
        with (self.folder / "asked.txt").open("a") as file:
            file.write(",".join(f"{value:g}" for value in sorted(inputs["x"])) + "\\n")
        return {"y": inputs["x"]}
"""


class Bench:
    """An engine with one model that is held while requests come, and notes in which order it is asked."""

    def __init__(self, folder: Path) -> None:
        self.model = publish(folder / "r", "m", 1, Draft(files={"model.py": HELD})).parent
        levels = {"priority_levels": 3, "default_priority_level": 2, "max_batch_rows": 8}
        values = {"roots": [folder / "r"], "allow_unverified": True, "batching": levels}
        self.engine = EngineProcess(folder / "engine", **values)

    @property
    def rest(self) -> str:
        return str(self.engine.addresses["rest"])

    def queued(self) -> float:
        page = rest.call(self.rest, "GET", "/metrics").body.decode()
        (line,) = [line for line in page.splitlines() if line.startswith("tidegate_queued_rows{")]
        return float(line.rpartition(" ")[2])

    def order(self, ask: Any, *asked: tuple[float, int]) -> list[str]:
        """What the model is asked after one request has held it, while these came: value and priority."""
        (self.model / "asked.txt").unlink(missing_ok=True)
        (self.model / "entered").unlink(missing_ok=True)
        (self.model / "closed").touch()
        threads = [threading.Thread(target=ask, args=one) for one in [(0.0, 0), *asked]]
        threads[0].start()
        eventually((self.model / "entered").exists)
        for count, thread in enumerate(threads[1:], start=1):
            thread.start()
            eventually(lambda count=count: self.queued() == count)  # type: ignore[misc]
        (self.model / "closed").unlink()
        for thread in threads:
            thread.join(30)
        return (self.model / "asked.txt").read_text().split()[1:]


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("priorities"))
    with made.engine:
        with made.engine.control() as control:
            push_and_wait(control, made.model / "1")
        yield made


def test_tritons_clients_ask_for_a_priority(bench: Bench) -> None:
    failed: queue.Queue[Exception] = queue.Queue()

    def ask(module: Any, address: str, value: float, priority: int) -> None:
        sent = module.InferInput("x", [1], "FP32")
        sent.set_data_from_numpy(np.array([value], np.float32))
        try:
            with module.InferenceServerClient(address) as client:
                assert client.infer("m", [sent], priority=priority).as_numpy("y").tolist() == [value]
        except Exception as error:
            failed.put(error)

    for module, address in ((over_grpc, bench.engine.addresses["grpc"]), (over_http, bench.rest)):
        asked = [(3.0, 3), (2.0, 0), (1.0, 1), (3.5, 3), (2.5, 9), (1.5, 1)]
        order = bench.order(lambda value, priority, m=module, a=address: ask(m, a, value, priority), *asked)
        assert order == ["1,1.5", "2,2.5", "3,3.5"]
    assert failed.empty(), failed.get()


def test_any_request_may_say_it_in_a_header(bench: Bench) -> None:
    def ask(value: float, priority: int) -> None:
        headers = {"x_tidegate_priority": str(priority)} if priority else {}
        reply = rest.call(bench.rest, "POST", "/v1/models/m:predict", {"instances": [value]}, **headers)
        assert reply.json() == {"predictions": [value]}

    assert bench.order(ask, (3.0, 3), (2.0, 0), (1.0, 1)) == ["1", "2", "3"]


def test_what_is_no_priority_is_told(bench: Bench) -> None:
    body = {"instances": [1.0]}
    path = "/v1/models/m:predict"
    reply = rest.call(bench.rest, "POST", path, body, x_tidegate_priority="soon")
    assert reply.status == 400
    assert 'x-tidegate-priority is \\"soon\\": send a whole number' in reply.body.decode()
    infer = {"inputs": [{"name": "x", "datatype": "FP32", "shape": [1], "data": [1]}]}
    for wrong in ("high", -1, 1.5):
        reply = rest.call(bench.rest, "POST", "/v2/models/m/infer", {**infer, "parameters": {"priority": wrong}})
        assert reply.status == 400
        assert "parameter 'priority' must be a whole number" in reply.body.decode()


def test_a_default_is_one_of_the_levels() -> None:
    with pytest.raises(InvalidInput, match="default_priority_level is 3, but priority_levels is 2"):
        BatchingConfig(priority_levels=2, default_priority_level=3)
