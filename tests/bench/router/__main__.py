"""Measures what a router costs: an engine behind one beside the same engine alone; writes `build/router.json`.

Run by `make bench GROUP=router`. Engine and router have core 0 together, and the load has core 1; how much of the core
the router takes of that gives the requests that it would forward on one of its own. The null model, no log; the loads
take turns in ROUNDS rounds of SECONDS, and a row is the median of the rounds.
"""

from __future__ import annotations

import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from tests.bench.load import Load, Measured
from tests.bench.rows import Row, run_group
from tests.bench.servers import LOAD_CORE, ROOT, SERVER_CORE, Running, pinned, tidegate
from tests.bench.serving.workloads import NULL, PREDICT, publish

ROUNDS = int(os.environ.get("ROUNDS", "5"))
SECONDS = float(os.environ.get("SECONDS", "3"))
CLIENTS = 64


@contextlib.contextmanager
def router(node: Running) -> Iterator[Running]:
    """A router in front of one node, on the servers' core."""
    command = [sys.executable, "-m", "tests.bench.router.process", NULL.name, node.grpc, node.rest]
    with pinned(SERVER_CORE):
        process = subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    try:
        yield Running(**json.loads(process.stdout.readline()))
    finally:
        process.stdin.close()
        process.wait(timeout=30)


def ask(server: Running, protocol: str, clients: int) -> Measured:
    """One load; the busy share is that of this server's process."""
    load = Load(clients, SECONDS, LOAD_CORE, server.pid)
    if protocol == "rest":
        return load.rest(server.rest, NULL.rest_path, NULL.rest_body())
    return load.grpc(server.grpc, PREDICT, NULL.predict_bytes())


def by_turns(alone: Running, routed: Running, protocol: str, clients: int) -> list[tuple[Measured, Measured]]:
    """Engine alone and engine behind a router, once a round each; which goes first takes turns too."""
    found = []
    for turn in range(ROUNDS):
        first, second = (alone, routed) if turn % 2 == 0 else (routed, alone)
        pair = [ask(server, protocol, clients) for server in (first, second)]
        found.append((pair[0], pair[1]) if turn % 2 == 0 else (pair[1], pair[0]))
    return found


def added() -> Sequence[Row]:
    """Throughput at 64 clients, and what one client waits longer."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        place = Path(name)
        publish(NULL, place / "models")
        with (
            tidegate(place, place / "models", SERVER_CORE, logging=False, isolation="engine") as alone,
            router(alone) as routed,
        ):
            NULL.check_predict(routed.grpc)
            NULL.check_rest(routed.rest, NULL.rest_path)
            for protocol in ("grpc", "rest"):
                many = by_turns(alone, routed, protocol, CLIENTS)
                one = by_turns(alone, routed, protocol, 1)
                median = statistics.median
                rates = [
                    (f"{protocol}, {CLIENTS} clients: engine alone", median(a.rps for a, _ in many), "requests/s"),
                    (f"{protocol}, {CLIENTS} clients: behind a router", median(r.rps for _, r in many), "requests/s"),
                    (
                        "the same for a core of the router",
                        median(r.rps / r.server_core_busy for _, r in many),
                        "requests/s",
                    ),
                    (f"{protocol}, 1 client: added p50", median(r.p50_us - a.p50_us for a, r in one), "us"),
                ]
                rows += [Row(what, value, unit, "reported", None) for what, value, unit in rates]
    return rows


if __name__ == "__main__":
    raise SystemExit(run_group("router", [("added", added)], sys.argv[1:]))
