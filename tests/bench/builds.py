"""Compares two builds of the engine: throughput of a model, in interleaved pairs on the same pinned core.

    python -m tests.bench.builds OLD_PYTHON NEW_PYTHON [--starts 5] [--pairs 2] [--clients 64] [--streams 1]
        [--model null]

Each argument is the Python of an environment in which one build is installed; `PYTHON@CHECKOUT` takes the Python code
from a checkout instead. Both engines are started `--starts` times, since two starts of the same build differ by more
than two runs of one process do. Between, both are up, and loads take turns (old, new, new, old, ...), so that the
machine's changing speed meets both. Printed are each start's ratio new/old, which is the geometric mean of its pairs',
their geometric mean and its 95 % interval over starts (t, on logarithms); those of processor time suffer less from
whatever else the machine does.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import statistics
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from pathlib import Path

from scipy import stats
from tests.bench.load import Load
from tests.bench.servers import LOAD_CORE, SERVER_CORE, Running, pinned
from tests.bench.serving.workloads import PREDICT, WORKLOADS, Workload, publish
from tests.support.engine.process import ANY, to_toml
from tests.support.eventually import eventually

MODELS = {workload.name: workload for workload in WORKLOADS}
PACKAGES = ("operators", "pipelines", "serving", "validation")


@contextlib.contextmanager
def serving(build: str, folder: Path, workload: Workload, isolation: str) -> Iterator[Running]:
    """One build's engine with a full inference log; it ends with the context."""
    python, _, checkout = build.partition("@")
    env = dict(os.environ)
    env.pop("PYTHONPATH", None)
    if checkout:
        env["PYTHONPATH"] = os.pathsep.join(str(Path(checkout, name).absolute()) for name in PACKAGES)
    publish(workload, folder / "models")
    ready, config = folder / "ready.json", folder / "engine.toml"
    values = {"repository": str(folder / "models"), "allow_unverified": True, "log_path": str(folder / "log")}
    values |= {"grpc_address": ANY, "rest_address": ANY, "control_address": ANY, "isolation": isolation}
    config.write_text(to_toml(values))
    command = [str(Path.cwd() / python), "-m", "tidegate_serving.server"]
    command += ["--config", str(config), "--ready-file", str(ready)]
    with pinned(SERVER_CORE):
        process = subprocess.Popen(command, env=env, cwd=folder)
    try:
        eventually(ready.exists, 60)
        addresses = json.loads(ready.read_text())
        yield Running(addresses["grpc"], addresses["rest"], process.pid)
    finally:
        process.terminate()
        process.wait(timeout=60)


def throughput(server: Running, endpoint: str, arguments: argparse.Namespace) -> tuple[float, float]:
    """Requests per second of one run, and per second of the engine's own processor time."""
    workload = MODELS[arguments.model]
    load = Load(arguments.clients, arguments.seconds, LOAD_CORE, server.pid, arguments.streams)
    if endpoint == "grpc":
        measured = load.grpc(server.grpc, PREDICT, workload.predict_bytes())
    else:
        measured = load.rest(server.rest, workload.rest_path, workload.rest_body())
    return measured.rps, measured.rps / measured.server_core_busy


def ratios(old: Running, new: Running, endpoint: str, arguments: argparse.Namespace) -> tuple[float, float]:
    """new/old of both rates, each the geometric mean of the pairs of one start; which goes first takes turns."""
    found = []
    for pair in range(arguments.pairs):
        order = (old, new) if pair % 2 == 0 else (new, old)
        rates = {server.pid: throughput(server, endpoint, arguments) for server in order}
        before, after = rates[old.pid], rates[new.pid]
        found.append((after[0] / before[0], after[1] / before[1]))
    a_second, a_busy_second = zip(*found, strict=True)
    return statistics.geometric_mean(a_second), statistics.geometric_mean(a_busy_second)


def start(arguments: argparse.Namespace, turn: int, endpoints: Sequence[str]) -> dict[str, tuple[float, float]]:
    """Starts both engines and compares them at each endpoint; which one starts first takes turns."""
    workload = MODELS[arguments.model]
    builds = {"old": arguments.old, "new": arguments.new}
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name, contextlib.ExitStack() as stack:
        servers = {}
        for side in builds if turn % 2 == 0 else reversed(builds):
            folder = Path(name, side)
            folder.mkdir()
            servers[side] = server = stack.enter_context(serving(builds[side], folder, workload, arguments.isolation))
            workload.check_predict(server.grpc)
            workload.check_rest(server.rest, workload.rest_path)
        return {endpoint: ratios(servers["old"], servers["new"], endpoint, arguments) for endpoint in endpoints}


def interval(found: Sequence[float]) -> tuple[float, float, float]:
    """Geometric mean and its 95 % interval; of one value there is no interval, and it is endless."""
    logs = [math.log(ratio) for ratio in found]
    mean = statistics.fmean(logs)
    if len(logs) == 1:
        return math.exp(mean), 0.0, math.inf
    error = statistics.stdev(logs) / math.sqrt(len(logs))
    half = float(stats.t.ppf(0.975, len(logs) - 1)) * error
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def main() -> None:
    """Compares the endpoints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="PYTHON or PYTHON@CHECKOUT")
    parser.add_argument("new", help="PYTHON or PYTHON@CHECKOUT")
    parser.add_argument("--starts", type=int, default=5, help="how often both engines are started")
    parser.add_argument("--pairs", type=int, default=2, help="pairs of loads for each start and endpoint")
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--streams", type=int, default=1, help="how many clients share a connection over gRPC")
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--model", choices=MODELS, default="null")
    parser.add_argument("--isolation", choices=("engine", "own"), default="engine", help="where the model runs")
    parser.add_argument("--endpoint", choices=("grpc", "rest"), action="append", help="both if not given")
    arguments = parser.parse_args()
    endpoints = arguments.endpoint or ("grpc", "rest")
    found = [start(arguments, turn, endpoints) for turn in range(arguments.starts)]
    for endpoint in endpoints:
        both = zip(*(one[endpoint] for one in found), strict=True)
        for what, some in zip(("a second", "a second of processor time"), both, strict=True):
            mean, low, high = interval(some)
            shown = " ".join(f"{ratio:.3f}" for ratio in some)
            words = f"new/old {mean:.3f}, 95 % interval {low:.3f} to {high:.3f}"
            print(f"{endpoint}, requests {what}: {words} ({shown})", flush=True)


if __name__ == "__main__":
    main()
