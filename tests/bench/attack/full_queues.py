"""Many requests for one model at a time, as fast as they are answered, and not a bad byte among them."""

from __future__ import annotations

import contextlib
import subprocess
import tempfile
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.bench.attack.places import CLIENT_CORE, on_core
from tests.bench.attack.wire import PREDICT, Target, predict_request
from tests.bench.rows import Row
from tests.support.clients.http2 import grpc_message


@dataclass(frozen=True, slots=True)
class Load:
    """Which model is asked, by requests of how many rows, and how many are under way: `streams` on each connection."""

    model: str
    rows: int
    connections: int
    streams: int


@contextlib.contextmanager
def loaded(address: str, load: Load, seconds: float) -> Iterator[subprocess.Popen[bytes]]:
    """Asks by gRPC from the clients' core, for at most so long; the process that does."""
    with tempfile.NamedTemporaryFile() as body:
        Path(body.name).write_bytes(grpc_message(predict_request(load.model, (load.rows,), bytes(4 * load.rows))))
        command = ["h2load", "-t1", f"-c{load.connections}", f"-m{load.streams}", f"-D{seconds:.0f}", f"-d{body.name}"]
        headers = ["-H", "content-type: application/grpc", "-H", "te: trailers"]
        with on_core(CLIENT_CORE):
            process = subprocess.Popen([*command, *headers, f"http://{address}{PREDICT}"], stdout=subprocess.DEVNULL)
        try:
            yield process
        finally:
            process.kill()
            process.wait()


def of_few(target: Target) -> Sequence[Row]:
    """256 requests of 1,024 rows at a time over 4 connections, for the model that good clients ask."""
    return _stay(target, Load("small", 1024, 4, 64))


def of_many(target: Target) -> Sequence[Row]:
    """1,024 requests of 64 rows at a time over 64 connections, for the model that good clients ask."""
    return _stay(target, Load("small", 64, 64, 16))


def of_huge(target: Target) -> Sequence[Row]:
    """64 requests of 100,000 rows at a time over 32 connections, for the model that good clients ask."""
    return _stay(target, Load("small", 100_000, 32, 2))


def _stay(target: Target, load: Load) -> Sequence[Row]:
    with loaded(target.grpc, load, target.left() + 1):
        time.sleep(target.left())
    return ()
