"""Memory goes back to the system once clients have gone: seen in the resident size of a router in its own process."""

from __future__ import annotations

import contextlib
import json
import socket
import subprocess
import sys

from tests.bench.lifecycle.engines import resident
from tests.support.eventually import eventually

MEGABYTE = 1 << 20
SECONDS = 30
BODY = 300 << 10
ROUTER = """
import json, sys
from tidegate_native import Router, Settings

router = Router.start(Settings(grpc_address=None, rest_address="127.0.0.1:0"), wanted=lambda name: None)
router.apply({"node": ("127.0.0.1:1", "127.0.0.1:1")}, {"m": ["node"]})
print(json.dumps(router.rest_address), flush=True)
sys.stdin.read()
"""


def test_many_small_bodies_leave_nothing_behind() -> None:
    pipe = subprocess.PIPE
    with subprocess.Popen([sys.executable, "-c", ROUTER], stdin=pipe, stdout=pipe) as router:
        assert router.stdout is not None
        host, _, port = json.loads(router.stdout.readline()).rpartition(":")
        head = b"POST /v1/models/m:predict HTTP/1.1\r\nHost: x\r\nContent-Length: %d\r\n\r\n" % BODY
        at_rest = resident(router.pid)
        with contextlib.ExitStack() as held:
            for _ in range(300):
                one = held.enter_context(socket.create_connection((host, int(port)), timeout=SECONDS))
                one.sendall(head + bytes(BODY - 1))
            eventually(lambda: resident(router.pid) - at_rest > 60 * MEGABYTE, SECONDS)
        eventually(lambda: resident(router.pid) <= 1.1 * at_rest + 8 * MEGABYTE, SECONDS)
        router.communicate()
