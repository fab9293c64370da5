"""Whatever a request costs to read, to unpack, to refuse or to answer, clients of other models are not kept by it."""

from __future__ import annotations

import gzip
import socket
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import grpc
import pytest
from tests.support.clients import rest
from tests.support.engine.process import EngineProcess
from tests.support.eventually import at_best
from tests.support.models.versions import Draft, adding, publish

from tidegate_serving.contract.messages import message
from tidegate_serving.contract.signature import Signature, TensorSpec

PREDICT = "/tensorflow.serving.PredictionService/Predict"
MEGABYTE = 1 << 20
TRIES = 5
MOST_TRIES = 15
MOST_SECONDS, MOST_SHARE = 0.1, 0.25  # what is sent below kept an I/O thread for half a second and more
WIDE = Signature((TensorSpec("x", "float32", (-1, 1000)),), (TensorSpec("y", "float32", (-1, 1000)),))
ROWS = Signature((TensorSpec("x", "float32", (-1, -1)),), (TensorSpec("y", "float32", (-1, -1)),))
TEXTS = Signature((TensorSpec("x", "string", (-1,)),), (TensorSpec("y", "string", (-1,)),))
MODEL = """
import numpy as np

class Model:
    def predict(self, inputs):
        return {{"y": {0}}}
"""
FIRST = MODEL.format('inputs["x"][:, :1]')
SAME = MODEL.format('inputs["x"]')
LONG = MODEL.format('np.full((len(inputs["x"]), 4 << 20), 0.1, np.float32)')


def numbers() -> bytes:
    return b'{"instances": [[' + b"1.25," * (12 * MEGABYTE) + b"1.25]]}"


BODIES: dict[str, tuple[str, Callable[[], bytes], str, int]] = {
    "unpacked": ("first", lambda: gzip.compress(numbers()), "gzip", 200),
    "of the wrong length": (
        "wide",
        lambda: b'{"instances": [[' + b"1," * (30 * MEGABYTE) + b"1]]}",
        "identity",
        400,
    ),
    "of escapes": ("texts", lambda: b'{"instances": ["' + b"\\u0041" * (10 * MEGABYTE) + b'"]}', "identity", 200),
    "nested": (
        "m",
        lambda: b'{"instances": [' + b"[" * 253 + b"1.0," * (MEGABYTE // 5) + b"1.0" + b"]" * 253 + b"]}",
        "identity",
        400,
    ),
    "good": ("first", numbers, "identity", 200),
    "with a long answer": ("long", lambda: b'{"instances": [[1]]}', "identity", 200),
}
"""The model that is asked, its body, which is large and made where it is sent, the encoding, and the status to come."""


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    folder = tmp_path_factory.mktemp("short_work")
    drafts = {
        "m": adding(1),
        "other": adding(1),
        "wide": Draft(signature=WIDE, example={"x": [1.0] * 1000}),
        "first": Draft(files={"model.py": FIRST}, signature=ROWS, example={"x": [1.0]}),
        "texts": Draft(files={"model.py": SAME}, signature=TEXTS),
        "long": Draft(files={"model.py": LONG}, signature=ROWS, example={"x": [1.0]}),
    }
    for name, draft in drafts.items():
        publish(folder / "models", name, 1, draft)
    config = {"repository": folder / "models", "allow_unverified": True}
    with EngineProcess(folder / "engine", **config) as running:
        yield running


@pytest.mark.parametrize("name", BODIES)
def test_others_are_answered_while_a_costly_body_is_read_and_answered(engine: EngineProcess, name: str) -> None:
    model, make, encoding, status = BODIES[name]
    body = make()
    address = engine.addresses["rest"]
    host, _, port = address.rpartition(":")
    head = f"POST /v1/models/{model}:predict HTTP/1.1\r\nHost: x\r\nContent-Encoding: {encoding}\r\n"
    data = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body

    def is_kept_by_nobody() -> bool:
        with socket.create_connection((host, int(port)), timeout=60) as costly:
            costly.sendall(data[:-1])
            rest.predict(address, "other", [1])  # all but the last byte has been read
            costly.sendall(data[-1:])
            answered = pool.submit(costly.recv, 12)
            are_quick = _others_are_quick(address, answered)
            assert answered.result() == b"HTTP/1.1 %d" % status
            return are_quick

    with ThreadPoolExecutor(1) as pool:
        assert at_best(MOST_TRIES, is_kept_by_nobody)


def test_others_are_answered_while_a_message_is_unpacked(engine: EngineProcess) -> None:
    request = message("tensorflow.serving.PredictRequest")()
    request.model_spec.name = "m"
    request.inputs["x"].dtype = 1
    request.inputs["x"].tensor_shape.dim.add(size=1)
    request.inputs["x"].tensor_content = bytes(60 * MEGABYTE)
    options = [("grpc.max_send_message_length", -1)]
    with grpc.insecure_channel(engine.addresses["grpc"], options=options) as channel, ThreadPoolExecutor(1) as pool:
        call: Any = channel.unary_unary(PREDICT, request_serializer=None, response_deserializer=None)
        data = request.SerializeToString()

        def is_kept_by_nobody() -> bool:
            answered = pool.submit(lambda: call.future(data, compression=grpc.Compression.Gzip).code())
            are_quick = _others_are_quick(engine.addresses["rest"], answered)
            assert answered.result() is grpc.StatusCode.INVALID_ARGUMENT
            return are_quick

        assert at_best(MOST_TRIES, is_kept_by_nobody)


def test_an_explanation_takes_no_longer_than_reading(engine: EngineProcess) -> None:
    """The same body, nested much deeper, takes about as long to refuse."""

    def seconds(depth: int) -> float:
        body = b'{"instances": [' + b"[" * depth + b"1.0," * (MEGABYTE // 5) + b"1.0" + b"]" * depth + b"]}"
        times = []
        for _ in range(TRIES):
            began = time.monotonic()
            assert rest.call(engine.addresses["rest"], "POST", "/v1/models/m:predict", body).status == 400
            times.append(time.monotonic() - began)
        return min(times)

    assert at_best(5, lambda: seconds(200) < 5 * seconds(2))


def test_a_name_that_nothing_has_is_not_copied(engine: EngineProcess) -> None:
    for name in (b"A" * MEGABYTE, b"\\u0041" * MEGABYTE):
        body = b'{"signature_name": "' + name + b'", "instances": [1]}'
        refused = rest.call(engine.addresses["rest"], "POST", "/v1/models/m:predict", body)
        assert (refused.status, len(refused.body) < 300) == (400, True)
        assert "a name of more than 65536 bytes" in refused.json()["error"]


def _others_are_quick(address: str, until: Any) -> bool:
    """Whether each request for another model is answered in far less time than it takes until something is done."""
    longest, began = 0.0, time.monotonic()
    while not until.done():
        asked = time.monotonic()
        assert rest.predict(address, "other", [1]).json() == {"predictions": [2.0]}
        longest = max(longest, time.monotonic() - asked)
    until.result()
    return longest < max(MOST_SECONDS, MOST_SHARE * (time.monotonic() - began))
