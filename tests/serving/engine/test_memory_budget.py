"""What is received, decoded, waiting and being answered has one budget in bytes: large requests are refused at once,
small ones are served meanwhile, and the memory comes back."""

from __future__ import annotations

import contextlib
import gzip
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tests.support import rest
from tests.support.control import push_and_wait
from tests.support.engine_process import EngineProcess
from tests.support.eventually import eventually
from tests.support.gate import Gate
from tests.support.http2 import grpc_message
from tests.support.http2_streams import Streams
from tests.support.versions import Draft, adding, publish

from tidegate_serving.contract.messages import message
from tidegate_serving.contract.signature import Signature, TensorSpec

MEGABYTE = 1 << 20
BUDGET = 64 * MEGABYTE
BLOCKS = 666
PREDICT = "/tensorflow.serving.PredictionService/Predict"
CLASSIFY = "/tensorflow.serving.PredictionService/Classify"
WIDE = Signature((TensorSpec("x", "float32", (-1, MEGABYTE)),), (TensorSpec("y", "float32", (-1, 1)),))
WIDE_MODEL = """
class Model:
    def predict(self, inputs):
        if inputs["x"][0][0] == 666:
            open({entered!r}, "w").close()
            open({pipe!r}, "rb").read()
        return {{"y": inputs["x"][:, :1]}}
"""
COUNT = """
import numpy as np

class Model:
    def predict(self, inputs):
        return {"scores": np.array([[len(one)] for one in inputs["inputs"]], "f4")}
"""
EXAMPLES = Signature(
    (TensorSpec("inputs", "string"),), (TensorSpec("scores", "float32", (-1, 1)),), "tensorflow/serving/classify"
)


class Bench:
    """An engine with a small budget: `wide` has rows of 4 MB and waits at its gate, `examples` takes Examples."""

    def __init__(self, folder: Path) -> None:
        self.gate = Gate.make(folder / "gate")
        drafts = {
            "m": adding(1),
            "wide": Draft(
                files={"model.py": self.gate.source(WIDE_MODEL, 0)}, signature=WIDE, example={"x": [0.0] * MEGABYTE}
            ),
            "examples": Draft(files={"model.py": COUNT}, signature=EXAMPLES, example={"inputs": "x"}),
        }
        self.directories = [publish(folder / "r", name, 1, draft) for name, draft in drafts.items()]
        config = {"roots": [folder / "r"], "allow_unverified": True, "request_memory_bytes": BUDGET}
        self.engine = EngineProcess(folder / "engine", **config)

    @property
    def address(self) -> str:
        return str(self.engine.addresses["rest"])

    def sample(self, name: str) -> float:
        """A metric without labels."""
        lines = rest.call(self.address, "GET", "/metrics").body.decode().splitlines()
        return next(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name + " "))

    @property
    def resident(self) -> int:
        status = Path(f"/proc/{self.engine.addresses['pid']}/status").read_text()
        return int(status.partition("VmRSS:")[2].split()[0]) * 1024

    def small_ones_are_served(self) -> None:
        assert rest.predict(self.address, "m", [1.0]).json() == {"predictions": [2.0]}
        with self.engine.client() as client:
            assert client.predict("m", {"x": [1.0]}).outputs["y"].tolist() == [2.0]

    def comes_back(self) -> None:
        eventually(lambda: self.sample("tidegate_memory_used_bytes") < MEGABYTE)
        self.small_ones_are_served()


@pytest.fixture(scope="module")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Bench]:
    made = Bench(tmp_path_factory.mktemp("budget"))
    with made.engine, made.engine.control() as control:
        for directory in made.directories:
            push_and_wait(control, directory)
        yield made


def codes(engine: EngineProcess, method: str, data: bytes, count: int) -> list[grpc.StatusCode]:
    """What becomes of so many equal calls at once."""
    with grpc.insecure_channel(engine.addresses["grpc"], [("grpc.max_send_message_length", -1)]) as channel:
        call: Any = channel.unary_unary(method, request_serializer=None, response_deserializer=None)
        waiting = [call.future(data, timeout=30) for _ in range(count)]
        for one in waiting:
            one.exception(40)
        return [one.code() for one in waiting]


def wide_request(rows: int, content: bytes = b"") -> bytes:
    """A tensor of so many rows of 4 MB; without content its values are missing."""
    request = message("tensorflow.serving.PredictRequest")()
    request.model_spec.name = "wide"
    request.inputs["x"].dtype = 1
    for size in (rows, MEGABYTE):
        request.inputs["x"].tensor_shape.dim.add(size=size)
    request.inputs["x"].tensor_content = content
    return bytes(request.SerializeToString())


def test_the_budget_is_shown(bench: Bench) -> None:
    assert bench.sample("tidegate_memory_budget_bytes") == BUDGET
    with bench.engine.control() as control:
        values = {value.key: value.value for value in control.config()}
    assert values["request_memory_bytes"] == BUDGET


def test_the_default_is_a_share_of_the_machine(tmp_path: Path) -> None:
    machine = int(Path("/proc/meminfo").read_text().split()[1]) * 1024
    with EngineProcess(tmp_path / "engine", allow_unverified=True) as engine:
        text = rest.call(engine.addresses["rest"], "GET", "/metrics").body.decode()
    found = next(line for line in text.splitlines() if line.startswith("tidegate_memory_budget_bytes "))
    assert 64 * MEGABYTE <= float(found.split()[1]) <= machine / 2


def test_what_is_filled_in_is_counted_before_it_is_filled(bench: Bench) -> None:
    before = bench.resident
    found = codes(bench.engine, PREDICT, wide_request(15), 40)
    assert set(found) <= {grpc.StatusCode.OK, grpc.StatusCode.RESOURCE_EXHAUSTED}
    assert found.count(grpc.StatusCode.RESOURCE_EXHAUSTED) > 0
    assert bench.resident - before < 1.15 * BUDGET + 16 * MEGABYTE
    bench.comes_back()


def test_rows_that_wait_are_counted(bench: Bench) -> None:
    with grpc.insecure_channel(bench.engine.addresses["grpc"], [("grpc.max_send_message_length", -1)]) as channel:
        call: Any = channel.unary_unary(PREDICT, request_serializer=None, response_deserializer=None)
        first = call.future(wide_request(1, np.array([BLOCKS] * MEGABYTE, "<f4").tobytes()), timeout=60)
        eventually(bench.gate.entered.exists)
        waiting = [call.future(wide_request(2), timeout=60) for _ in range(12)]
        refused = call.future(wide_request(2), timeout=60)
        assert refused.exception(10) is not None
        assert refused.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
        assert str(BUDGET) in refused.details(), "it says the limit"
        bench.small_ones_are_served()
        bench.gate.open()
        assert first.exception(30) is None
        assert sum(one.exception(30) is None for one in waiting) >= 2, "what was accepted is answered"
    bench.comes_back()


def test_bodies_that_are_not_complete_are_counted(bench: Bench) -> None:
    before = bench.resident
    host, _, port = bench.address.rpartition(":")
    head = b"POST /v1/models/m:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (10 * MEGABYTE)
    with contextlib.ExitStack() as held:
        for _ in range(20):
            one = held.enter_context(socket.create_connection((host, int(port)), timeout=5))
            with contextlib.suppress(OSError):
                one.sendall(head + bytes(10 * MEGABYTE - 1))
        assert bench.resident - before < 1.15 * BUDGET + 16 * MEGABYTE
        bench.small_ones_are_served()
    bench.comes_back()


def test_one_connection_has_a_share_and_gives_it_back(bench: Bench) -> None:
    before = bench.resident
    body = grpc_message(bytes(10 * MEGABYTE))
    streams = Streams(bench.engine.addresses["grpc"], PREDICT, body, 20, {})
    sent = streams.send_all(len(body) - 1, time.monotonic() + 10)
    assert sent <= BUDGET, "room is given for what was consumed, and a connection has a share"
    assert bench.resident - before < 1.15 * BUDGET + 16 * MEGABYTE
    bench.small_ones_are_served()
    streams.close()
    bench.comes_back()
    eventually(lambda: bench.resident - before < 32 * MEGABYTE, 15)


def test_a_context_is_counted_once_for_each_example_before_it_is_copied(bench: Bench) -> None:
    before = bench.resident
    request = message("tensorflow.serving.ClassificationRequest")()
    request.model_spec.name = "examples"
    listed = request.input.example_list_with_context
    listed.context.features.feature["blob"].bytes_list.value.append(bytes(MEGABYTE))
    for number in range(1000):
        listed.examples.add().features.feature["x"].float_list.value.append(number)
    found = codes(bench.engine, CLASSIFY, request.SerializeToString(), 1)
    assert found == [grpc.StatusCode.RESOURCE_EXHAUSTED]
    assert bench.resident - before < 1.15 * BUDGET + 16 * MEGABYTE
    bench.comes_back()


def test_what_is_unpacked_is_counted(bench: Bench) -> None:
    before = bench.resident
    packed = gzip.compress(b'{"instances": [' + b" " * (60 * MEGABYTE) + b"1.0]}")
    host, _, port = bench.address.rpartition(":")
    head = b"POST /v1/models/m:predict HTTP/1.1\r\nHost: x\r\nContent-Encoding: gzip\r\nContent-Length: %d\r\n\r\n"
    with contextlib.ExitStack() as held:
        sockets = [held.enter_context(socket.create_connection((host, int(port)), timeout=30)) for _ in range(8)]
        for one in sockets:
            one.sendall(head % len(packed) + packed)
        statuses = {one.makefile("rb").readline().split()[1] for one in sockets}
    assert statuses <= {b"200", b"429"}
    assert bench.resident - before < 1.15 * BUDGET + 16 * MEGABYTE
    bench.comes_back()
