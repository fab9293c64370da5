"""A client in a process of its own that asks one request after the other; prints their latencies in seconds as JSON.

It speaks HTTP/2 by hand, so that its own work is a small and steady part of what it measures.
"""

from __future__ import annotations

import json
import sys
import time

from tests.bench.attack.wire import PREDICT, predict_request
from tests.support.clients.http2 import Http2, call_frames

PAUSE_SECONDS = 0.0005


def main(address: str, model: str, count: str) -> None:
    """Asks so often, with half a millisecond between an answer and the next request."""
    request = predict_request(model, (1,), bytes(4))
    latencies: list[float] = []
    with Http2(address) as connection:
        for number in range(int(count)):
            time.sleep(PAUSE_SECONDS)
            stream = 1 + 2 * number
            began = time.perf_counter()
            connection.send(call_frames(stream, PREDICT, request))
            while (found := connection.next_frame()) is not None and not (found.stream == stream and found.ends_stream):
                continue
            latencies.append(time.perf_counter() - began)
            if found is None:
                raise RuntimeError("the engine closed the connection")
    print(json.dumps(latencies), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
