"""Very many who each ask for little: connections that stay, lists of all models, and bodies that nobody would read."""

from __future__ import annotations

import contextlib
import gzip
import json
import socket
import threading
import time
from collections.abc import Sequence
from urllib.request import Request, urlopen

from tests.bench.attack import wire
from tests.bench.attack.wire import MEGABYTE, PREDICT, Target
from tests.bench.rows import Row
from tests.support.clients.http2 import END_HEADERS, HEADERS, HELLO, call_frames, call_headers, frame

Rows = Sequence[Row]
CONNECTIONS = 4200
OPENAPI = b"GET /openapi.json HTTP/1.1\r\nHost: x\r\n\r\n"


def bodies_for_nobody(target: Target) -> Rows:
    """60 clients that send 60 MB each to a path that there is not, and 60 that ask for health with as much."""
    tail = b" HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % (60 * MEGABYTE) + bytes(60 * MEGABYTE - 1)
    wire.all_at_once(target, b"POST /nowhere" + tail, 60)
    wire.all_at_once(target, b"GET /v2/health/live" + tail, 60)
    return ()


def packed_for_nobody(target: Target) -> Rows:
    """8 bodies of 60 MB of gzip, 3 million times nothing, of clients that go as soon as they have sent them."""
    nothing = gzip.compress(b"", mtime=0)
    packed = nothing * (60 * MEGABYTE // len(nothing))
    wire.all_at_once(target, wire.post("small", packed, "Content-Encoding: gzip\r\n"), 8)
    return ()


def held_watches(target: Target) -> Rows:
    """4,200 connections with a health watch each, and new clients."""
    return _newcomers("held-watches", target, target.grpc, HELLO + call_frames(1, "/grpc.health.v1.Health/Watch", b""))


def held_calls(target: Target) -> Rows:
    """4,200 connections with a call each that may take an hour and whose message does not come, and new clients."""
    head = frame(HEADERS, END_HEADERS, 1, call_headers(PREDICT, {"grpc-timeout": "1H"}))
    return _newcomers("held-calls", target, target.grpc, HELLO + head)


def held_bodies(target: Target) -> Rows:
    """4,200 REST connections with half a body each, and new clients."""
    return _newcomers("held-bodies", target, target.rest, wire.post("small", b"{", more=99))


def crowd_of_lists(target: Target) -> Rows:
    """1,500 clients that ask how all models are called and read nothing; large requests of somebody else."""
    return _beside_lists("crowd-of-lists", target, half_closed=False)


def half_closed_lists(target: Target) -> Rows:
    """The same clients, who close their side as soon as they have asked."""
    return _beside_lists("half-closed-lists", target, half_closed=True)


def _newcomers(name: str, target: Target, address: str, first: bytes) -> Rows:
    """Holds very many connections while new clients of both protocols ask; how many were not answered."""
    refused, asked = 0, 0
    body = json.dumps({"instances": [1.0]}).encode()
    with wire.held(address, CONNECTIONS, first):
        until = target.left() + time.monotonic()
        while time.monotonic() < until:
            refused += _predict_took(target, body) is None
            refused += wire.calls(target, PREDICT, [wire.predict_request("small", (1,), bytes(4))], 5) != {"OK": 1}
            asked += 2
            time.sleep(0.2)
    return [Row(f"{name}: newcomers that were not answered, of {asked:,}", refused, "", "-", None)]


def _beside_lists(name: str, target: Target, *, half_closed: bool) -> Rows:
    """How long another's list and another's large request take beside a crowd."""
    took: dict[str, list[float | None]] = {"large request": [], "list": []}
    over = threading.Event()
    body = json.dumps({"instances": [1.0] * 30_000}).encode()

    def ask(kind: str) -> None:
        while not over.is_set():
            found = _predict_took(target, body) if kind == "large request" else _list_took(target)
            took[kind].append(found)
            over.wait(0.1)

    threads = [threading.Thread(target=ask, args=(kind,)) for kind in took]
    with wire.held(target.rest, 1500, OPENAPI) as sockets:
        for one in sockets if half_closed else ():
            with contextlib.suppress(OSError):
                one.shutdown(socket.SHUT_WR)
        for thread in threads:
            thread.start()
        time.sleep(target.left())
        over.set()
        for thread in threads:
            thread.join()
    return [
        Row(
            f"{name}: longest {kind} of {len(found)}",
            max((one or 30.0) for one in found),
            "s",
            "at most 2",
            _soon(found),
        )
        for kind, found in took.items()
    ]


def _soon(found: Sequence[float | None]) -> bool:
    return all(one is not None and one <= 2 for one in found)


def _predict_took(target: Target, body: bytes) -> float | None:
    return _took(Request(f"http://{target.rest}/v1/models/small:predict", data=body))


def _list_took(target: Target) -> float | None:
    return _took(Request(f"http://{target.rest}/v2/models"))


def _took(request: Request) -> float | None:
    """Seconds until it was answered; None where it was not."""
    began = time.monotonic()
    try:
        with urlopen(request, timeout=30) as answer:
            answer.read()
    except OSError:
        return None
    return time.monotonic() - began
