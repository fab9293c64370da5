"""A client in a process of its own whose 16,000 requests to a model that hangs all have the same deadline.

It speaks HTTP/2 by hand, so that it costs little: requests go out in small portions, each followed by a PING, whose
answer says that the engine has read them, and what comes back is only stamped with the time and read afterwards. A
deadline is meant to the microsecond, and is later than meant by what it took until the engine had read its portion: at
most until the PING came back. Where that took more than a millisecond, as where another client had the processor, it is
not known when the deadline is, and how late the answer comes is not counted.

Beside it stands what engine and client need at least: as many requests at once to a model that is not there, which are
refused as they are read.
"""

from __future__ import annotations

import json
import os
import select
import sys
import time
from collections import Counter

import numpy as np
from tests.bench.attack.wire import PREDICT, predict_request
from tests.support.clients.http2 import HEADERS, PING, FrameReader, Http2, call_frames, frame, read_headers

CONNECTIONS, EACH, PORTION = 16, 1000, 10
PAUSE_SECONDS = 0.0005
KNOWN_SECONDS = 0.001
AHEAD_SECONDS, AFTER_SECONDS = 4.0, 15.0


def send_all(connections: list[Http2], deadline: float) -> set[tuple[int, int]]:
    """Sends all requests; connection's number and stream of those whose deadline is known."""
    request = predict_request("hangs", (1,), bytes(4))
    known: set[tuple[int, int]] = set()
    for first in range(0, EACH, PORTION):
        for number, connection in enumerate(connections):
            began = time.perf_counter()
            timeout = {"grpc-timeout": f"{int((deadline - began) * 1e6)}u"}
            streams = range(1 + 2 * first, 1 + 2 * (first + PORTION), 2)
            connection.send(*(call_frames(stream, PREDICT, request, timeout) for stream in streams))
            connection.send(frame(PING, 0, 0, bytes(8)))
            if connection.until(PING) is None:
                raise RuntimeError("the engine closed the connection")
            if time.perf_counter() - began <= KNOWN_SECONDS:
                known.update((number, stream) for stream in streams)
            time.sleep(PAUSE_SECONDS)
    return known


def refuse_all(connections: list[Http2]) -> float:
    """Seconds from the first of as many requests, which are refused as they come, to the last answer."""
    request = predict_request("missing", (1,), bytes(4))
    streams = range(1 + 2 * EACH, 1 + 4 * EACH, 2)
    calls = b"".join(call_frames(stream, PREDICT, request) for stream in streams)
    began = time.perf_counter()
    for connection in connections:
        connection.send(calls)
    return receive_all(connections, began + AFTER_SECONDS)[-1][0] - began


def receive_all(connections: list[Http2], until: float) -> list[tuple[float, int, bytes]]:
    """What came, with its time and the number of its connection."""
    poll, came = select.epoll(), []
    numbers = {connection.socket.fileno(): number for number, connection in enumerate(connections)}
    for descriptor in numbers:
        poll.register(descriptor, select.EPOLLIN)
    ended = 0
    while ended < CONNECTIONS * EACH and time.perf_counter() < until:
        for descriptor, _ in poll.poll(0.1):
            data = connections[numbers[descriptor]].socket.recv(1 << 20)
            came.append((time.perf_counter(), numbers[descriptor], data))
            ended += data.count(b"\x01\x05\x00\x00")  # HEADERS that end their stream; nearly: it is only to stop early
            if not data:
                poll.unregister(descriptor)
    return came


def main(address: str) -> None:
    """Prints codes and their number, seconds after the deadline of those that came late, and what is told beside it:
    of how many that is known, seconds until all were sent, and the floor."""
    hanging = Http2(address)
    hanging.send(call_frames(1, PREDICT, predict_request("hangs", (1,), b"\0\0\x80\xbf"), {"grpc-timeout": "60S"}))
    connections = [Http2(address) for _ in range(CONNECTIONS)]
    print("begun", flush=True)
    deadline = time.perf_counter() + AHEAD_SECONDS
    known = send_all(connections, deadline)
    sent_after = time.perf_counter() - (deadline - AHEAD_SECONDS)
    came = receive_all(connections, deadline + AFTER_SECONDS)
    refused = refuse_all(connections)
    os.sched_setscheduler(0, os.SCHED_OTHER, os.sched_param(0))  # reading it is no hurry, and others are measured
    readers = [FrameReader() for _ in connections]
    codes: Counter[str] = Counter()
    late: list[float] = []
    for moment, number, data in came:
        for found in readers[number].feed(data):
            if found.kind == HEADERS and found.ends_stream:
                code = read_headers(found.payload).get("grpc-status", "none")
                codes[code] += 1
                if code == "4" and (number, found.stream) in known:
                    late.append(moment - deadline)
    codes["silence"] = CONNECTIONS * EACH - codes.total()
    quantiles = np.quantile(late, [0, 0.5, 0.99, 1]).tolist() if late else []
    result = {"codes": codes, "late": quantiles, "known": len(known), "sent_after": sent_after, "refused": refused}
    print(json.dumps(result), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
