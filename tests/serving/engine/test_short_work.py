"""Whatever a request costs to read, to unpack, to refuse or to answer, others are answered meanwhile."""

from __future__ import annotations

import gzip
import socket
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from tests.support import rest
from tests.support.engine_process import EngineProcess
from tests.support.versions import Draft, adding, publish

from tidegate_serving.contract.signature import Signature, TensorSpec

MEGABYTE = 1 << 20
TRIES = 5
MOST_SECONDS = 0.1  # what is sent below keeps an I/O thread for half a second and more
WIDE = Signature((TensorSpec("x", "float32", (-1, 1000)),), (TensorSpec("y", "float32", (-1, 1000)),))
BODIES = {
    "unpacked": ("m", gzip.compress(b'{"instances": [' + b"1.25," * (12 * MEGABYTE) + b"1.25]}"), "gzip"),
    "of the wrong length": ("wide", b'{"instances": [[' + b"1," * (30 * MEGABYTE) + b"1]]}", "identity"),
    "of escapes": ("m", b'{"signature_name": "' + b"\\u0041" * (10 * MEGABYTE) + b'", "instances": [1]}', "identity"),
    "nested": (
        "m",
        b'{"instances": [' + b"[" * 253 + b"1.0," * (MEGABYTE // 4) + b"1.0" + b"]" * 253 + b"]}",
        "identity",
    ),
    "good": ("m", b'{"instances": [' + b"1.25," * (12 * MEGABYTE) + b"1.25]}", "identity"),
}


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[EngineProcess]:
    folder = tmp_path_factory.mktemp("short_work")
    publish(folder / "models", "m", 1, adding(1))
    publish(folder / "models", "wide", 1, Draft(signature=WIDE, example={"x": [0.0] * 1000}))
    batching = {"max_queued_rows": 2**24}
    config = {"repository": folder / "models", "allow_unverified": True, "batching": batching}
    with EngineProcess(folder / "engine", **config) as running:
        yield running


@pytest.mark.parametrize("name", BODIES)
def test_others_are_answered_while_a_costly_body_is_read(engine: EngineProcess, name: str) -> None:
    model, body, encoding = BODIES[name]
    host, _, port = engine.addresses["rest"].rpartition(":")
    head = f"POST /v1/models/{model}:predict HTTP/1.1\r\nHost: x\r\nContent-Encoding: {encoding}\r\n"
    data = f"{head}Content-Length: {len(body)}\r\n\r\n".encode() + body
    shortest = float("inf")
    with ThreadPoolExecutor(1) as pool:
        for _ in range(TRIES):
            with socket.create_connection((host, int(port)), timeout=60) as costly:
                costly.sendall(data[:-1])
                rest.predict(engine.addresses["rest"], "m", [1])  # all but the last byte has been read
                costly.sendall(data[-1:])
                answered = pool.submit(costly.recv, 12)
                longest = 0.0
                while not answered.done():
                    began = time.monotonic()
                    assert rest.predict(engine.addresses["rest"], "m", [1]).status == 200
                    longest = max(longest, time.monotonic() - began)
            assert answered.result()[:9] == b"HTTP/1.1 "
            shortest = min(shortest, longest)
    assert shortest < MOST_SECONDS


def test_an_explanation_takes_no_longer_than_reading(engine: EngineProcess) -> None:
    """The same body, nested twice as deep, must not take twice as long to refuse."""

    def seconds(depth: int) -> float:
        body = b'{"instances": [' + b"[" * depth + b"1.0," * (MEGABYTE // 4) + b"1.0" + b"]" * depth + b"]}"
        times = []
        for _ in range(TRIES):
            began = time.monotonic()
            assert rest.call(engine.addresses["rest"], "POST", "/v1/models/m:predict", body).status == 400
            times.append(time.monotonic() - began)
        return min(times)

    assert seconds(200) < 3 * seconds(2)
