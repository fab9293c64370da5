"""Requests over HTTP/1.1 whose end two readers may see in two places: a second request is never read out of a first."""

from __future__ import annotations

import re
import socket
from collections.abc import Iterator

import pytest

from tidegate import Engine, TensorSpec
from tidegate_serving.config import EngineConfig

BODY = b'{"instances": [1.0]}'
POST = b"POST /v1/models/m:predict HTTP/1.1\r\n"
HOST = b"Host: x\r\n"
LENGTH = b"Content-Length: 20\r\n"
CHUNKED = b"Transfer-Encoding: chunked\r\n"
CHUNKS = b"14\r\n" + BODY + b"\r\n0\r\n\r\n"
NEXT = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n"


def post(*headers: bytes, body: bytes = BODY) -> bytes:
    return POST + HOST + b"".join(headers) + b"\r\n" + body


def chunks(body: bytes) -> bytes:
    return post(CHUNKED, body=body)


REFUSED = {
    "two lengths": post(LENGTH, b"Content-Length: 5\r\n"),
    "a length with a sign": post(b"Content-Length: +20\r\n"),
    "a length below zero": post(b"Content-Length: -1\r\n"),
    "a length in hex": post(b"Content-Length: 0x14\r\n"),
    "two lengths in one line": post(b"Content-Length: 20, 20\r\n"),
    "a length of nothing": post(b"Content-Length: \r\n"),
    "a length with a space": post(b"Content-Length: 2 0\r\n"),
    "a length beyond 64 bits": post(b"Content-Length: 18446744073709551636\r\n"),
    "a space before the colon": post(b"Content-Length : 20\r\n"),
    "a header that goes on": post(b"X: a\r\n b\r\n", LENGTH),
    "a header that begins with a space": POST + b" Host: x\r\n" + LENGTH + b"\r\n" + BODY,
    "a carriage return in a header": post(b"X: a\rContent-Length: 5\r\n", LENGTH),
    "a zero byte in a header": post(b"X: a\0b\r\n", LENGTH),
    "a zero byte in a name": post(b"X\0: a\r\n", LENGTH),
    "chunked twice": post(b"Transfer-Encoding: chunked, chunked\r\n", body=CHUNKS),
    "chunked twice in two headers": post(CHUNKED, CHUNKED, body=CHUNKS),
    "chunked in two headers": post(CHUNKED, b"Transfer-Encoding: identity\r\n", body=CHUNKS),
    "chunked behind a tab of another kind": post(b"Transfer-Encoding: \x0bchunked\r\n", body=CHUNKS),
    "not quite chunked": post(b"Transfer-Encoding: xchunked\r\n", LENGTH),
    "chunked with a word": post(b"Transfer-Encoding: chunked;a=b\r\n", body=CHUNKS),
    "chunked over HTTP/1.0": post(CHUNKED, body=CHUNKS).replace(b"1.1", b"1.0"),
    "an HTTP that is none": post(LENGTH).replace(b"1.1", b"7.7"),
    "a chunk in words": chunks(CHUNKS.replace(b"14", b"0x14", 1)),
    "a chunk with a sign": chunks(b"+" + CHUNKS),
    "a chunk below zero": chunks(b"-1\r\n" + CHUNKS),
    "a chunk without a size": chunks(b"\r\n" + CHUNKS),
    "a chunk that ends with one byte": chunks(CHUNKS.replace(b"14\r\n", b"14\n", 1)),
    "a chunk that does not end": chunks(CHUNKS.replace(b"}\r\n", b"}XX", 1)),
    "an extension with a line": chunks(CHUNKS.replace(b"14\r\n", b"14;a\nb\r\n", 1)),
    "no host": POST + LENGTH + b"\r\n" + BODY,
}
ANSWERED = {
    "a good one": (post(LENGTH), 2),
    "a good one in chunks": (chunks(CHUNKS), 2),
    "the same length twice": (post(LENGTH, LENGTH), 2),
    "a trailer": (chunks(CHUNKS[:-2] + b"Content-Length: 5\r\n\r\n"), 2),
    "an extension": (chunks(CHUNKS.replace(b"14\r\n", b'14;a="b"\r\n', 1)), 2),
    # RFC 9112, 6.3: the chunks count, and the connection ends.
    "length and chunks": (post(b"Content-Length: 5\r\n", CHUNKED, body=CHUNKS), 1),
    "chunks and length": (post(CHUNKED, b"Content-Length: 5\r\n", body=CHUNKS), 1),
}


@pytest.fixture(scope="module")
def rest() -> Iterator[str]:
    with Engine(EngineConfig(grpc_address="", rest_address="127.0.0.1:0", control_address="")) as engine:
        engine.serve("m", lambda x: {"y": x}, inputs={"x": TensorSpec("x", "float32")})
        yield engine.addresses.rest


def statuses(rest: str, data: bytes) -> list[int]:
    """Of all answers until the engine closes the connection."""
    host, _, port = rest.rpartition(":")
    said = b""
    with socket.create_connection((host, int(port)), timeout=10) as one:
        one.sendall(data)
        while more := one.recv(65536):
            said += more
    return [int(status) for status in re.findall(rb"HTTP/1\.\d (\d\d\d) ", said)]


@pytest.mark.parametrize("data", REFUSED.values(), ids=REFUSED)
def test_what_may_be_read_in_two_ways_is_refused_and_nothing_is_read_behind_it(rest: str, data: bytes) -> None:
    found = statuses(rest, data + NEXT)
    assert found in ([400], [411], [413], [501], [505]), found


@pytest.mark.parametrize(("data", "count"), ANSWERED.values(), ids=ANSWERED)
def test_what_can_be_read_in_one_way_is_answered(rest: str, data: bytes, count: int) -> None:
    assert statuses(rest, data + NEXT) == [200] * count


def test_the_body_of_a_get_is_no_request(rest: str) -> None:
    head = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(NEXT)
    assert statuses(rest, head + NEXT + NEXT) == [200, 200]
