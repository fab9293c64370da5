"""Measures Predict through both endpoints beside the echo server, interleaved, and writes `build/bench.json`.

Run by `make bench`; the servers share core 0, the load has core 1. Only the ratios mean anything: absolute figures
differ threefold between machines.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
import urllib.request
from dataclasses import asdict, dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table
from tests.bench.load import Load, Measured
from tests.bench.servers import MODEL, ROOT, Running, echo, tidegate

from tidegate_serving.contract.messages import message

SERVER_CORE, LOAD_CORE = 0, 1
CLIENTS = (1, 16, 64, 256)
BUSY_NEEDED = 0.95
BUSY_FROM = 64
TARGETS = {"grpc": 0.5, "rest": 0.7}
PREDICT = "/tensorflow.serving.PredictionService/Predict"
REST_BODY = b'{"instances":[[1.0,2.0,5.0,0.25]]}'
REST_PATH = f"/v1/models/{MODEL}:predict"


@dataclass(frozen=True, slots=True)
class Row:
    """One line of the table: one endpoint, mode and number of clients, beside the echo of the same run."""

    endpoint: str
    mode: str
    clients: int
    rps: float
    echo_rps: float
    ratio: float
    p50_us: float
    p99_us: float
    server_core_busy: float


def grpc_body() -> bytes:
    """A PredictRequest of one row of 4 floats."""
    request = message("tensorflow.serving.PredictRequest")()
    request.model_spec.name = MODEL
    tensor = request.inputs["x"]
    tensor.dtype = 1
    for size in (1, 4):
        tensor.tensor_shape.dim.add(size=size)
    tensor.tensor_content = np.array([1.0, 2.0, 5.0, 0.25], "<f4").tobytes()
    return bytes(request.SerializeToString())


def check_answers(server: Running) -> None:
    """Raises unless the server computes y = 0.5 x + 2; a fast wrong answer is no measurement."""
    with urllib.request.urlopen(f"http://{server.rest}{REST_PATH}", data=REST_BODY, timeout=10) as answer:
        predictions = json.load(answer)["predictions"]
    if predictions != [[2.5, 3.0, 4.5, 2.125]]:
        raise RuntimeError(f"{server.rest} answered {predictions}")


def measure(server: Running, endpoint: str, clients: int, seconds: float) -> Measured:
    """One run against one server."""
    load = Load(clients, seconds, LOAD_CORE, server.pid)
    if endpoint == "grpc":
        return load.grpc(server.grpc, PREDICT, grpc_body())
    return load.rest(server.rest, REST_PATH, REST_BODY)


def compare(engine: Running, bare: Running, endpoint: str, mode: str, clients: int) -> Row:
    """Engine and echo by turns, twice each; the better run of each counts."""
    seconds = float(os.environ.get("BENCH_SECONDS", "4"))
    runs = [(measure(engine, endpoint, clients, seconds), measure(bare, endpoint, clients, seconds)) for _ in range(2)]
    mine = max((run[0] for run in runs), key=lambda run: run.rps)
    limit = max(run[1].rps for run in runs)
    return Row(
        endpoint=endpoint,
        mode=mode,
        clients=clients,
        rps=round(mine.rps),
        echo_rps=round(limit),
        ratio=round(mine.rps / limit, 3),
        p50_us=round(mine.p50_us),
        p99_us=round(mine.p99_us),
        server_core_busy=round(mine.server_core_busy, 3),
    )


def counts(row: Row) -> bool:
    """Whether the server, not the load generator, was the bottleneck."""
    return row.clients < BUSY_FROM or row.server_core_busy >= BUSY_NEEDED


def show(rows: list[Row]) -> None:
    """Prints the table."""
    table = Table(
        "endpoint", "mode", "clients", "req/s", "echo req/s", "ratio", "p50 us", "p99 us", "core busy", "counts"
    )
    for row in rows:
        cells = [
            row.endpoint,
            row.mode,
            str(row.clients),
            f"{row.rps:,.0f}",
            f"{row.echo_rps:,.0f}",
            f"{row.ratio:.2f}",
        ]
        cells += [f"{row.p50_us:,.0f}", f"{row.p99_us:,.0f}", f"{row.server_core_busy:.0%}"]
        table.add_row(*cells, "yes" if counts(row) else "no")
    Console(width=120).print(table)


def main() -> int:
    """Measures everything; exit status 1 where a target at 64 clients is missed."""
    rows: list[Row] = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        with echo(SERVER_CORE) as bare:
            check_answers(bare)
            for mode, logging, clients in (("logged", True, CLIENTS), ("no log", False, (64,))):
                with tidegate(folder / mode.replace(" ", "-"), SERVER_CORE, logging=logging) as engine:
                    check_answers(engine)
                    rows += [compare(engine, bare, endpoint, mode, n) for endpoint in TARGETS for n in clients]
    build = ROOT / "build"
    build.mkdir(exist_ok=True)
    (build / "bench.json").write_text(json.dumps([asdict(row) for row in rows], indent=1) + "\n")
    show(rows)
    judged = [row for row in rows if row.clients == 64 and row.mode == "logged"]
    missed = [row for row in judged if row.ratio < TARGETS[row.endpoint] or not counts(row)]
    for row in missed:
        print(
            f"missed: {row.endpoint} at 64 clients reached {row.ratio:.2f} of the echo: "
            f"the target is {TARGETS[row.endpoint]:.2f}"
        )
    return int(bool(missed))


if __name__ == "__main__":
    sys.exit(main())
