"""The small print of HTTP/1.1, HTTP/2 and gRPC: odd requests, and what their specifications want as an answer.

Each rule asks an engine that serves a model `m` of one float `x`, and says in a word what came.
"""

from __future__ import annotations

import contextlib
import socket
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import grpc
from tests.support.clients.http2 import (
    DATA,
    END_HEADERS,
    END_STREAM,
    GOAWAY,
    HEADERS,
    PING,
    PREFACE,
    Http2,
    call_frames,
    call_headers,
    frame,
    grpc_message,
)

from tidegate_serving.contract.messages import message

SECONDS = 5.0
PREDICT = "/tensorflow.serving.PredictionService/Predict"
POST = b"POST /v1/models/m:predict HTTP/1.1\r\n"
BODY = b'{"instances": [1.0]}'
LENGTH = b"Content-Length: 20\r\n"
CHUNKED = POST + b"Host: x\r\nTransfer-Encoding: chunked\r\n\r\n"
CHUNKS = b"14\r\n" + BODY + b"\r\n0\r\n\r\n"
CODES: Mapping[str, str] = {str(code.value[0]): code.name for code in grpc.StatusCode}
NO = frozenset({"INVALID_ARGUMENT", "INTERNAL"})
# What gRPC's table of status codes has for another number of messages than one, and what servers give.
NOT_ONE = (*NO, "UNIMPLEMENTED")
Ask = Callable[[Mapping[str, str]], str]


@dataclass(frozen=True, slots=True)
class Rule:
    """What is sent, and what may come: an HTTP status, a gRPC code, GOAWAY; never `silence`, seldom `closed`."""

    name: str
    ask: Ask
    wanted: frozenset[str]


def http(data: bytes, *, closing: bool = False) -> Ask:
    """The status of what is sent to the REST endpoint as it is; `closing` closes the client's side behind it."""

    def ask(addresses: Mapping[str, str]) -> str:
        host, _, port = addresses["rest"].rpartition(":")
        with socket.create_connection((host, int(port)), timeout=SECONDS) as one, contextlib.suppress(ConnectionError):
            one.sendall(data)
            if closing:
                one.shutdown(socket.SHUT_WR)
            try:
                line = one.makefile("rb").readline()
            except TimeoutError:
                return "silence"
            return line.split()[1].decode() if line else "closed"
        return "closed"

    return ask


def request() -> bytes:
    """A PredictRequest for `m`."""
    made = message("tensorflow.serving.PredictRequest")()
    made.model_spec.name = "m"
    made.inputs["x"].dtype = 1
    made.inputs["x"].tensor_shape.dim.add(size=1)
    made.inputs["x"].tensor_content = bytes(4)
    return bytes(made.SerializeToString())


def grpc_code(*frames: bytes) -> Ask:
    """The gRPC code of a call on stream 1."""

    def ask(addresses: Mapping[str, str]) -> str:
        with Http2(addresses["grpc"], seconds=SECONDS) as connection, contextlib.suppress(ConnectionError):
            connection.send(*frames)
            try:
                answer = connection.answer(1)
            except TimeoutError:
                return "silence"
            return CODES.get(answer.get("grpc-status", ""), "closed")
        return "closed"

    return ask


def with_timeout(value: str) -> Ask:
    """A good call but for its `grpc-timeout`."""
    return grpc_code(call_frames(1, PREDICT, request(), {"grpc-timeout": value}))


def call_with(*data: bytes) -> Ask:
    """A call whose DATA frames are these, the last one ending it."""
    last = len(data) - 1
    frames = [frame(DATA, END_STREAM if at == last else 0, 1, part) for at, part in enumerate(data)]
    return grpc_code(frame(HEADERS, END_HEADERS, 1, call_headers(PREDICT)), *frames)


def first_frame(data: bytes) -> Ask:
    """What comes where the first frame is this one."""

    def ask(addresses: Mapping[str, str]) -> str:
        with Http2(addresses["grpc"], PREFACE + data, SECONDS, polite=False) as connection:
            try:
                return "closed" if connection.until(GOAWAY) is None else "GOAWAY"
            except TimeoutError:
                return "silence"

    return ask


def _rule(name: str, ask: Ask, *wanted: str) -> Rule:
    return Rule(name, ask, frozenset(wanted) or NO)


ONE = grpc_message(request())
RULES = (
    _rule("a good request", http(POST + b"Host: x\r\n" + LENGTH + b"\r\n" + BODY), "200"),
    _rule("a good chunked request", http(CHUNKED + CHUNKS), "200"),
    _rule("a client that closes its side", http(POST + b"Host: x\r\n" + LENGTH + b"\r\n" + BODY, closing=True), "200"),
    _rule("a chunked request behind which it closes", http(CHUNKED + CHUNKS, closing=True), "200"),
    _rule("a body that ends with the connection", http(CHUNKED + CHUNKS[:-5], closing=True), "400"),
    _rule("HTTP/1.0 without Host", http(POST.replace(b"1.1", b"1.0") + LENGTH + b"\r\n" + BODY), "200"),
    _rule("no Host", http(POST + LENGTH + b"\r\n" + BODY), "400"),
    _rule("two Hosts", http(POST + b"Host: x\r\nHost: y\r\n" + LENGTH + b"\r\n" + BODY), "400"),
    _rule("a path without Host", http(b"GET /v2/health/live HTTP/1.1\r\n\r\n"), "400"),
    _rule("gzip and chunked", http(CHUNKED.replace(b"chunked", b"gzip, chunked") + CHUNKS), "501"),
    _rule("an unknown transfer coding", http(CHUNKED.replace(b"chunked", b"tide, chunked") + CHUNKS), "501"),
    _rule("a chunk of 2^63", http(CHUNKED + b"8000000000000000\r\n" + BODY), "413"),
    _rule("a chunk of 2^64 - 1", http(CHUNKED + b"ffffffffffffffff\r\n" + BODY), "413"),
    _rule("a chunk of 1 TB", http(CHUNKED + b"10000000000\r\n" + BODY), "413"),
    _rule("a chunk of no number", http(CHUNKED + b"xyz\r\n" + BODY), "400"),
    _rule("a good call", call_with(ONE), "OK"),
    _rule("a good call in pieces", call_with(ONE[:3], ONE[3:9], ONE[9:], b""), "OK"),
    _rule("a good timeout", with_timeout("5000m"), "OK"),
    *(_rule(f"grpc-timeout {value!r}", with_timeout(value)) for value in ("abc", "5", "S", "-1S", "+1S", "1.5S", "1x")),
    _rule("grpc-timeout of nine digits", with_timeout("123456789S")),
    _rule("two messages in one frame", call_with(ONE + ONE), *NOT_ONE),
    _rule("two messages in two frames", call_with(ONE, ONE), *NOT_ONE),
    _rule("half a message after one", call_with(ONE, ONE[:7]), *NOT_ONE),
    _rule("no message", call_with(b""), *NOT_ONE),
    _rule("half a message", call_with(ONE[:-1]), *NOT_ONE),
    _rule("PING before SETTINGS", first_frame(frame(PING, 0, 0, bytes(8))), "GOAWAY"),
    _rule("HEADERS before SETTINGS", first_frame(call_frames(1, PREDICT, request())), "GOAWAY"),
)
