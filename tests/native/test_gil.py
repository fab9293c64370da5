"""A model that holds the GIL delays nobody who does not need it: health, refusals, deadlines, metrics."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent import futures
from pathlib import Path

import pytest
from tests.support.clients.rest import call
from tests.support.eventually import eventually

TRIES = 10
SERVER = """
import ctypes, sys
import tidegate_native as native

libc = ctypes.PyDLL(None)  # calls without giving up the GIL

def model(batch):
    if batch.inputs["x"][0] > 0:
        print("holding", flush=True)
        libc.close(libc.open(sys.argv[1].encode(), 0))  # a pipe, opened once somebody opens its other end
    return {"y": batch.inputs["x"]}

def spec(name):
    return native.TensorSpec(name=name, dtype="float32", shape=[-1])

signature = native.Signature(name="serving_default", method_name="", inputs=[spec("x")], outputs=[spec("y")])
settings = native.Settings(grpc_address="127.0.0.1:0", rest_address="127.0.0.1:0", request_timeout_ms=1000)
plane = native.DataPlane.start(
    settings, released=lambda *_: None, control=lambda *_: b"", log_told=lambda _: None
)
batching = native.Batching(max_queued_rows=1)
plane.apply([native.Publish(model="m", version=1, signatures=[signature], executor=model, batching=batching)])
plane.set_ready(True, "yes")
print(plane.rest_address, flush=True)
sys.stdin.read()
"""


@pytest.fixture
def held(tmp_path: Path) -> Iterator[str]:
    """The REST address of a server whose GIL is held as long as the test runs."""
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    command = [sys.executable, "-c", SERVER, str(pipe)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        address = process.stdout.readline().strip()
        with futures.ThreadPoolExecutor(1) as pool:
            holding = pool.submit(call, address, "POST", "/v1/models/m:predict", {"instances": [1.0]})
            try:
                assert process.stdout.readline() == "holding\n"
                yield address
                assert holding.result(60).status == 504
                pipe.write_bytes(b"")
            finally:
                process.kill()


def test_health_refusals_deadlines_and_metrics_do_not_wait_for_the_gil(held: str) -> None:
    assert call(held, "GET", "/v2/health/live").status == 200
    assert call(held, "GET", "/v2/health/ready").status == 200
    assert call(held, "GET", "/metrics").status == 200
    assert call(held, "GET", "/v1/models/m/metadata").status == 200
    assert call(held, "POST", "/v1/models/n:predict", {"instances": [1.0]}).status == 404
    assert call(held, "POST", "/v1/models/m:predict", {"instances": ["a"]}).status == 400
    with futures.ThreadPoolExecutor(1) as pool:
        queued = b'tidegate_queued_rows{model="m",version="1"} 1'
        for _ in range(TRIES):
            waiting = pool.submit(call, held, "POST", "/v1/models/m:predict", {"instances": [0.0]})
            eventually(lambda waiting=waiting: waiting.done() or queued in call(held, "GET", "/metrics").body)  # type: ignore[misc]
            too_many = call(held, "POST", "/v1/models/m:predict", {"instances": [1.0]})
            assert waiting.result(60).status == 504
            if too_many.status == 429:
                break
        # Its place may be free again before it is asked for, where the machine is busy.
        assert (too_many.status, b"would pass its limit of 1 rows" in too_many.body) == (429, True)
