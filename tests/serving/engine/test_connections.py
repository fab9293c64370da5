"""Connections that say nothing, half a thing, or do not listen end by themselves and keep nobody out."""

from __future__ import annotations

import contextlib
import http.client
import socket
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from tests.support import rest
from tests.support.engine_process import EngineProcess
from tests.support.eventually import eventually
from tests.support.http2 import GOAWAY, PREFACE, SETTINGS, Http2, call_frames, frame, settings
from tests.support.small_print import PREDICT, request
from tests.support.versions import Draft, publish

MANY = """
import numpy as np

class Model:
    def predict(self, inputs):
        return {"y": np.repeat(inputs["x"], 1)}
"""
CONNECTIONS = 16
SILENT = PREFACE + frame(SETTINGS, 0, 0)
LARGE = 200_000
Start = Callable[..., EngineProcess]


@pytest.fixture
def start(tmp_path: Path) -> Iterator[Start]:
    """Starts an engine with a model `m` and these keys in its config."""
    publish(tmp_path / "models", "m", 1, Draft(files={"model.py": MANY}))
    with contextlib.ExitStack() as engines:

        def start(**config: Any) -> EngineProcess:
            base = {"repository": tmp_path / "models", "allow_unverified": True}
            return engines.enter_context(EngineProcess(tmp_path / "engine", **base, **config))

        yield start


def connect(address: str, first: bytes) -> socket.socket:
    host, _, port = address.rpartition(":")
    one = socket.create_connection((host, int(port)), timeout=15)
    one.sendall(first)
    return one


def read_to_end(one: socket.socket) -> bytes:
    """What came until the engine closed; TimeoutError where it does not."""
    data = b""
    with contextlib.suppress(ConnectionResetError):
        while more := one.recv(65536):
            data += more
    return data


def open_connections(engine: EngineProcess, endpoint: str) -> int:
    text = rest.call(engine.addresses["rest"], "GET", "/metrics").body.decode()
    line = next(line for line in text.splitlines() if line.startswith(f'tidegate_connections{{endpoint="{endpoint}"}}'))
    return int(float(line.rsplit(" ", 1)[1]))


@pytest.mark.parametrize("first", [b"", PREFACE[:10], PREFACE, SILENT])
def test_a_grpc_connection_without_a_request_is_closed(start: Start, first: bytes) -> None:
    engine = start(header_timeout_seconds=1.0)
    with connect(engine.addresses["grpc"], first) as one:
        read_to_end(one)


@pytest.mark.parametrize("first", [b"", b"POST /v1/models/m:predict HT", b"POST / HTTP/1.1\r\nHost: x\r\nA:"])
def test_half_a_header_is_closed(start: Start, first: bytes) -> None:
    engine = start(header_timeout_seconds=1.0)
    with connect(engine.addresses["rest"], first) as one:
        assert read_to_end(one)[:12] in (b"", b"HTTP/1.1 408")


def test_an_idle_connection_is_closed_with_a_word(start: Start) -> None:
    engine = start(idle_timeout_seconds=1.0)
    with Http2(engine.addresses["grpc"], seconds=15) as connection:
        connection.send(call_frames(1, PREDICT, request()))
        assert connection.answer(1)["grpc-status"] == "0"
        assert connection.until(GOAWAY) is not None
    kept = http.client.HTTPConnection(engine.addresses["rest"], timeout=15)
    kept.request("GET", "/v2/health/live")
    assert kept.getresponse().read() is not None
    assert kept.sock is not None
    assert read_to_end(kept.sock) == b""
    kept.close()


def test_a_peer_that_answers_no_ping_is_gone(start: Start) -> None:
    engine = start(keep_alive_seconds=1.0, keep_alive_timeout_seconds=1.0)
    polite = Http2(engine.addresses["grpc"], seconds=15)
    with polite, Http2(engine.addresses["grpc"], seconds=15, polite=False) as silent:
        assert open_connections(engine, "grpc") == 2
        while silent.next_frame() is not None:
            continue
        polite.send(call_frames(1, PREDICT, request()))
        assert polite.answer(1)["grpc-status"] == "0", "who answers pings stays"


def test_answers_do_not_wait_for_a_client_that_does_not_read(start: Start) -> None:
    engine = start(write_timeout_seconds=1.0)
    body = b'{"instances": [' + b"1.5," * LARGE + b"1.5]}"
    head = b"POST /v1/models/m:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    unread = [connect(engine.addresses["rest"], (head + body) * 8) for _ in range(2)]
    no_room = [
        connect(engine.addresses["grpc"], PREFACE + settings({4: 0}) + call_frames(1, PREDICT, request()))
        for _ in range(2)
    ]
    eventually(lambda: open_connections(engine, "grpc") == 0, 15)
    eventually(lambda: open_connections(engine, "rest") == 1, 15)  # the one that asks
    for one in (*unread, *no_room):
        one.close()


@pytest.mark.parametrize(("endpoint", "first"), [("grpc", SILENT), ("rest", b"POST / HTTP/1.1\r\nHost:")])
def test_silent_connections_keep_neither_health_nor_those_out_who_are_there(
    start: Start, endpoint: str, first: bytes
) -> None:
    engine = start(max_connections=CONNECTIONS)
    address = engine.addresses["rest"]
    there = http.client.HTTPConnection(address, timeout=15)
    there.request("GET", "/v2/health/live")
    assert there.getresponse().read() is not None
    with contextlib.ExitStack() as silent:
        for _ in range(2 * CONNECTIONS):
            with contextlib.suppress(ConnectionError):
                silent.enter_context(connect(engine.addresses[endpoint], first))
        there.request("POST", "/v1/models/m:predict", '{"instances": [1.0]}')
        assert there.getresponse().status == 200
        assert rest.call(address, "GET", "/v2/health/live").status == 200
        with Http2(engine.addresses["grpc"], seconds=15) as connection:
            connection.send(call_frames(1, "/grpc.health.v1.Health/Check", b""))
            assert connection.answer(1)["grpc-status"] == "0"
    there.close()
