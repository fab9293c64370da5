"""Memory goes back to the system once large requests, or many small ones, are over, and zeros that nobody looks at take
none: seen in the resident size of an engine in a process of its own."""

from __future__ import annotations

import contextlib
import socket
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from tests.bench.lifecycle.engines import resident
from tests.support.clients import rest
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.models.gate import Gate
from tests.support.models.versions import Draft, adding, publish

from tidegate_serving.client import Client
from tidegate_serving.contract.messages import message
from tidegate_serving.contract.signature import Signature, TensorSpec

MEGABYTE = 1 << 20
PREDICT = "/tensorflow.serving.PredictionService/Predict"
WIDE = Signature((TensorSpec("x", "float32", (-1, MEGABYTE)),), (TensorSpec("y", "float32", (-1, 1)),))
MODEL = """
class Model:
    def predict(self, inputs):
        if inputs["x"][0][0] == 666:
            open({entered!r}, "w").close()
            open({pipe!r}, "rb").read()
        return {{"y": inputs["x"][:, :1]}}
"""
LONG = Signature((TensorSpec("x", "float32"),), (TensorSpec("y", "float32", (-1, 100_000)),))
LONG_ANSWERS = """
import numpy as np

class Model:
    def predict(self, inputs):
        return {"y": np.repeat(inputs["x"][:, None], 100_000, axis=1)}
"""
SECONDS = 30


class Place:
    """An engine with a model `wide` of 4 MB a row, which waits at its gate, and a small model `m`; its size at rest."""

    def __init__(self, engine: EngineProcess, gate: Gate) -> None:
        self.engine, self.gate = engine, gate
        for _ in range(200):
            assert rest.predict(self.rest, "m", [1.0]).status == 200
        self.at_rest = self.resident

    @property
    def rest(self) -> str:
        return str(self.engine.addresses["rest"])

    @property
    def resident(self) -> int:
        return resident(int(self.engine.addresses["pid"]))

    @property
    def counted(self) -> float:
        """What requests hold, as the engine counts it."""
        lines = rest.call(self.rest, "GET", "/metrics").body.decode().splitlines()
        name = "tidegate_request_memory_bytes "
        return next(float(line.rsplit(" ", 1)[1]) for line in lines if line.startswith(name))

    def is_as_at_rest(self) -> bool:
        """But for what any engine keeps that has been asked for something."""
        return self.resident <= 1.1 * self.at_rest + 8 * MEGABYTE

    @contextlib.contextmanager
    def asking(self) -> Iterator[Any]:
        options = [("grpc.max_send_message_length", -1)]
        with grpc.insecure_channel(self.engine.addresses["grpc"], options) as channel:
            call: Any = channel.unary_unary(PREDICT, request_serializer=None, response_deserializer=None)
            yield lambda request: call.future(request, timeout=2 * SECONDS)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Place]:
    folder = tmp_path_factory.mktemp("memory")
    gate = Gate.make(folder / "gate")
    wide = Draft(files={"model.py": gate.source(MODEL, 0)}, signature=WIDE, example={"x": [0.0] * MEGABYTE})
    directories = [publish(folder / "r", "wide", 1, wide), publish(folder / "r", "m", 1, adding(1))]
    config = {"roots": [folder / "r"], "allow_unverified": True, "isolation": "engine"}
    config["request_memory_bytes"] = 4096 * MEGABYTE
    with EngineProcess(folder / "engine", **config) as engine, engine.control() as control:
        for directory in directories:
            push_and_wait(control, directory)
        yield Place(engine, gate)


def wide_request(rows: int, content: bytes = b"") -> bytes:
    """A tensor of so many rows of 4 MB; without content its values are missing, so that they are zeros."""
    request = message("tensorflow.serving.PredictRequest")()
    request.model_spec.name = "wide"
    request.inputs["x"].dtype = 1
    for size in (rows, MEGABYTE):
        request.inputs["x"].tensor_shape.dim.add(size=size)
    request.inputs["x"].tensor_content = content
    return bytes(request.SerializeToString())


def test_large_requests_leave_nothing_behind(place: Place) -> None:
    with place.asking() as ask:
        request = wide_request(8, np.ones(8 * MEGABYTE, "<f4").tobytes())
        answers = [ask(request) for _ in range(8)]
        assert all(one.exception(SECONDS) is None for one in answers)
    eventually(place.is_as_at_rest, SECONDS)


def test_zeros_that_wait_take_no_memory_although_others_were_there_before(place: Place) -> None:
    blocks = np.full(MEGABYTE, 666, "<f4").tobytes()
    with place.asking() as ask:
        assert all(ask(wide_request(12, 12 * blocks[::-1])).exception(SECONDS) is None for _ in range(2))
        first = ask(wide_request(1, blocks))
        eventually(place.gate.entered.exists)
        waiting = [ask(wide_request(12)) for _ in range(20)]
        eventually(lambda: place.counted >= 20 * 48 * MEGABYTE, SECONDS)
        assert place.resident - place.at_rest < 200 * MEGABYTE
        place.gate.open()
        assert all(one.exception(SECONDS) is None for one in [first, *waiting])
    eventually(place.is_as_at_rest, SECONDS)


def test_however_many_large_blocks_came_and_went_none_leaves_anything_behind(place: Place) -> None:
    def ask_often(times: int) -> None:
        for _ in range(times):
            assert ask(wide_request(2)).exception(SECONDS) is None

    with place.asking() as ask:
        ask_often(200)
        eventually(place.is_as_at_rest, SECONDS)
        before = place.resident
        ask_often(2000)
        eventually(lambda: place.resident < before + 2 * MEGABYTE, SECONDS)


def test_many_small_bodies_leave_nothing_behind(place: Place) -> None:
    host, _, port = place.rest.rpartition(":")
    head = b"POST /v1/models/m:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (300 << 10)
    with contextlib.ExitStack() as held:
        for _ in range(300):
            one = held.enter_context(socket.create_connection((host, int(port)), timeout=SECONDS))
            one.sendall(head + bytes((300 << 10) - 1))
        assert eventually(lambda: place.resident - place.at_rest > 60 * MEGABYTE, SECONDS)
    assert eventually(place.is_as_at_rest, SECONDS)


def test_arrays_that_a_model_gave_leave_nothing_behind_in_the_heap_of_its_thread(tmp_path: Path) -> None:
    publish(tmp_path / "r", "long", 1, Draft(files={"model.py": LONG_ANSWERS}, signature=LONG))
    config = {"repository": tmp_path / "r", "allow_unverified": True, "isolation": "engine"}
    with EngineProcess(tmp_path / "engine", **config) as engine, Client(engine.addresses["grpc"]) as client:
        pid = int(engine.addresses["pid"])
        client.predict("long", {"x": np.ones(1, np.float32)}, timeout=SECONDS)
        # The thread rests after a second without a request, which nothing tells.
        time.sleep(2)
        before = resident(pid)

        def is_kept() -> bool:
            """Once a block of one size was freed, the heap keeps those of less, while the thread does not rest."""
            for rows in (20, 38, 38, 38, 38):
                client.predict("long", {"x": np.ones(rows, np.float32)}, timeout=SECONDS)
            return resident(pid) > before + 8 * MEGABYTE

        assert eventually(is_kept, SECONDS)
        assert eventually(lambda: resident(pid) < before + 4 * MEGABYTE, SECONDS)
