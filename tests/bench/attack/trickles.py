"""HTTP/1.1 that never ends, or never listens, and names that nobody has: each request is cheap to send."""

from __future__ import annotations

import contextlib
import itertools
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence

from tests.bench.attack import wire
from tests.bench.attack.wire import MEGABYTE, PREDICT, Target
from tests.bench.rows import Row
from tests.support.clients.http2 import (
    END_HEADERS,
    HEADERS,
    HELLO,
    PREFACE,
    call_frames,
    call_headers,
    frame,
    grpc_message,
    settings,
)
from tests.support.clients.http2_streams import Streams

from tidegate_serving.contract.messages import message

Rows = Sequence[Row]
SENDERS = 4
SLOW = 1500
POST = b"POST /v1/models/small:predict HTTP/1.1\r\nHost: x\r\n"
CHUNKED = POST + b"Transfer-Encoding: chunked\r\n\r\n"
HEALTH = b"GET /v2/health/live HTTP/1.1\r\nHost: x\r\n\r\n"
INFER = "/inference.GRPCInferenceService/ModelStreamInfer"


def slow_bodies(target: Target) -> Rows:
    """1,500 REST and 1,500 gRPC bodies of which a byte comes each second."""
    head = frame(HEADERS, END_HEADERS, 1, call_headers(PREDICT))
    with (
        wire.held(target.rest, SLOW, POST + b"Content-Length: 1000000\r\n\r\n") as rest,
        wire.held(target.grpc, SLOW, HELLO + head + frame(0, 0, 1, b"\0" + MEGABYTE.to_bytes(4, "big"))) as grpc,
    ):
        while time.monotonic() < target.until:
            for one in rest:
                wire.send(one, b" ")
            for one in grpc:
                wire.send(one, frame(0, 0, 1, b"\0"))
            time.sleep(1)
        left = wire.still_open(rest) + wire.still_open(grpc)
    return [Row(f"slow-bodies: connections left open at the end, of {2 * SLOW:,}", left, "", "-", None)]


def unread_pipeline(target: Target) -> Rows:
    """REST requests one after the other on connections that never read an answer."""
    return _flood(target, lambda: itertools.repeat(HEALTH * 500))


def unread_metrics(target: Target) -> Rows:
    """The same for /metrics."""
    return _flood(target, lambda: itertools.repeat(HEALTH.replace(b"/v2/health/live", b"/metrics") * 100))


def endless_extension(target: Target) -> Rows:
    """A chunk whose extension never ends."""
    return _flood(target, lambda: itertools.chain([CHUNKED + b"1;"], itertools.repeat(b"a" * 65536)))


def chunks_by_the_byte(target: Target) -> Rows:
    """A body in chunks of one byte."""
    return _flood(target, lambda: itertools.chain([CHUNKED], itertools.repeat(b"1\r\n1\r\n" * 10_000)))


def endless_trailers(target: Target) -> Rows:
    """Trailers that never end."""
    return _flood(target, lambda: itertools.chain([CHUNKED + b"0\r\n"], itertools.repeat(b"a: b\r\n" * 10_000)))


def endless_path(target: Target) -> Rows:
    """A path that never ends."""
    return _flood(target, lambda: itertools.chain([b"GET /"], itertools.repeat(b"%41" * 20_000)))


def many_names(target: Target) -> Rows:
    """Models, signatures and labels that nobody has, another one with each request."""

    def requests() -> Iterator[bytes]:
        for number in itertools.count():
            name = f"{threading.get_ident()}-{time.monotonic_ns()}-{number}"
            paths = (f"{name}:predict", f"small/labels/{name}:predict", f"small/versions/{number}:predict")
            body = b'{"signature_name": "%s", "instances": [1.0]}' % name.encode()
            pieces = []
            for path in (*paths, "small:predict"):
                head = f"POST /v1/models/{path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len(body)}\r\n"
                trace = f"X-Request-Id: {name}\r\ntraceparent: 00-{number + 1:032x}-{number + 1:016x}-01\r\n\r\n"
                pieces += [head.encode(), trace.encode(), body]
            yield b"".join(pieces) * 20

    return _flood(target, requests, read=True)


def hung_up_streams(target: Target) -> Rows:
    """Streams of an endless model that are hung up once they have begun."""
    body = b'{"n": 1000000000}'
    head = b"POST /v2/models/endless/generate_stream HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)

    def hang_up() -> None:
        while time.monotonic() < target.until:
            with contextlib.suppress(OSError), wire.connect(target.rest, 2) as one:
                one.sendall(head + body)
                one.recv(100)

    return _side_by_side(hang_up)


def hung_up_calls(target: Target) -> Rows:
    """A thousand open calls over each of 1,000 connections that all close at once, again and again."""
    heads = b"".join(frame(HEADERS, END_HEADERS, stream, call_headers(PREDICT)) for stream in range(1, 2001, 2))
    while time.monotonic() < target.until:
        with wire.held(target.grpc, 1000, HELLO + heads):
            continue
    return ()


def unread_streams(target: Target) -> Rows:
    """200 streams of an endless model that nobody reads."""
    body = b'{"n": 1000000000}'
    head = b"POST /v2/models/endless/generate_stream HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % len(body)
    with wire.held(target.rest, 200, head + body) as sockets:
        time.sleep(target.left())
        left = wire.still_open(sockets)
    return [Row(f"unread-streams: connections left open at the end, of {len(sockets):,}", left, "", "-", None)]


def unread_conversations(target: Target) -> Rows:
    """Four streams of 200,000 messages each, and no room for an answer."""
    request = message("inference.ModelInferRequest")(model_name="small", raw_input_contents=[bytes(4)])
    request.inputs.add(name="x", datatype="FP32", shape=[1])
    body = grpc_message(request.SerializeToString()) * 200_000
    streams = Streams(target.grpc, INFER, body, 4, {}, PREFACE + settings({4: 0}))
    sent = streams.send_all(len(body) - 1, target.until)
    streams.close()
    return [Row("unread-conversations: messages that the engine took", sent * 200_000 / len(body), "", "-", None)]


def held_heads(target: Target) -> Rows:
    """60,000 calls over 60 connections, with a field of 8 kB each, whose messages do not come."""
    streams, more = range(1, 2001, 2), {"a": "v" * 8000}
    heads = b"".join(frame(HEADERS, END_HEADERS, stream, call_headers(PREDICT, more)) for stream in streams)
    with wire.held(target.grpc, 60, HELLO + heads) as sockets:
        time.sleep(target.left())
        left = wire.still_open(sockets)
    return [Row(f"held-heads: connections left open at the end, of {len(sockets):,}", left, "", "-", None)]


def health_watches(target: Target) -> Rows:
    """60,000 health watches over 60 connections."""
    streams = range(1, 2001, 2)
    watches = b"".join(call_frames(stream, "/grpc.health.v1.Health/Watch", b"") for stream in streams)
    with wire.held(target.grpc, 60, HELLO + watches) as sockets:
        time.sleep(target.left())
        left = wire.still_open(sockets)
    return [Row(f"health-watches: connections left open at the end, of {len(sockets):,}", left, "", "-", None)]


def _flood(target: Target, pieces: Callable[[], Iterable[bytes]], *, read: bool = False) -> Rows:
    """Sends them over several connections, each opened again once the engine has given it up."""

    def send() -> None:
        while time.monotonic() < target.until:
            with contextlib.suppress(OSError), wire.connect(target.rest, 2) as one:
                for piece in pieces():
                    one.sendall(piece)
                    if read:
                        one.recv(1 << 20)
                    if time.monotonic() > target.until:
                        return

    return _side_by_side(send)


def _side_by_side(run: Callable[[], None]) -> Rows:
    threads = [threading.Thread(target=run) for _ in range(SENDERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return ()
