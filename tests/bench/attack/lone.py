"""A client in a process of its own that asks one request after the other, so many for each line that it is sent, and
prints their latencies in seconds as a line of JSON.

It speaks HTTP/2 by hand, so that its own work is a small and steady part of what it measures.
"""

from __future__ import annotations

import itertools
import json
import sys
import time

from tests.bench.attack.wire import PREDICT, predict_request
from tests.support.clients.http2 import Http2, call_frames

PAUSE_SECONDS = 0.0005


def ask(connection: Http2, stream: int, request: bytes) -> float:
    """Seconds that a request took."""
    began = time.perf_counter()
    connection.send(call_frames(stream, PREDICT, request))
    while (found := connection.next_frame()) is not None and not (found.stream == stream and found.ends_stream):
        continue
    if found is None:
        raise RuntimeError("the engine closed the connection")
    return time.perf_counter() - began


def main(address: str, model: str, count: str) -> None:
    """Asks so often, with half a millisecond between an answer and the next request."""
    request = predict_request(model, (1,), bytes(4))
    streams = itertools.count(1, 2)
    with Http2(address) as connection:
        for _ in sys.stdin:
            latencies: list[float] = []
            for stream in itertools.islice(streams, int(count)):
                time.sleep(PAUSE_SECONDS)
                latencies.append(ask(connection, stream, request))
            print(json.dumps(latencies), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
