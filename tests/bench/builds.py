"""Compares two builds of the engine: throughput of a model, in interleaved pairs on the same pinned core.

    python -m tests.bench.builds OLD_PYTHON NEW_PYTHON [--pairs 9] [--clients 64] [--model null]

Each argument is the Python of an environment in which one build is installed; `PYTHON@CHECKOUT` takes the Python code
from a checkout instead. Both engines are up all the time, and loads take turns (old, new, new, old, ...), so that the
machine's changing speed meets both. Printed are the ratios new/old, their geometric mean and its 95 % interval (t, on
logarithms); those of processor time suffer less from whatever else the machine does.
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
from tests.support.engine_process import ANY, to_toml
from tests.support.eventually import eventually

MODELS = {workload.name: workload for workload in WORKLOADS}
PACKAGES = ("operators", "pipelines", "serving", "validation")


@contextlib.contextmanager
def serving(build: str, folder: Path, workload: Workload) -> Iterator[Running]:
    """One build's engine with the model in its process and a full inference log; it ends with the context."""
    python, _, checkout = build.partition("@")
    env = dict(os.environ)
    env.pop("PYTHONPATH", None)
    if checkout:
        env["PYTHONPATH"] = os.pathsep.join(str(Path(checkout, name)) for name in PACKAGES)
    publish(workload, folder / "models")
    ready, config = folder / "ready.json", folder / "engine.toml"
    values = {"repository": str(folder / "models"), "allow_unverified": True, "log_path": str(folder / "log")}
    values |= {"grpc_address": ANY, "rest_address": ANY, "control_address": ANY, "isolation": "engine"}
    config.write_text(to_toml(values))
    command = [python, "-m", "tidegate_serving.server", "--config", str(config), "--ready-file", str(ready)]
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
    load = Load(arguments.clients, arguments.seconds, LOAD_CORE, server.pid)
    if endpoint == "grpc":
        measured = load.grpc(server.grpc, PREDICT, workload.predict_bytes())
    else:
        measured = load.rest(server.rest, workload.rest_path, workload.rest_body())
    return measured.rps, measured.rps / measured.server_core_busy


def ratios(old: Running, new: Running, endpoint: str, arguments: argparse.Namespace) -> list[tuple[float, float]]:
    """new/old of both rates pair by pair; which of them goes first takes turns."""
    found = []
    for pair in range(arguments.pairs):
        order = (old, new) if pair % 2 == 0 else (new, old)
        rates = {server.pid: throughput(server, endpoint, arguments) for server in order}
        before, after = rates[old.pid], rates[new.pid]
        found.append((after[0] / before[0], after[1] / before[1]))
    return found


def interval(found: Sequence[float]) -> tuple[float, float, float]:
    """Geometric mean and its 95 % interval."""
    logs = [math.log(ratio) for ratio in found]
    mean, error = statistics.fmean(logs), statistics.stdev(logs) / math.sqrt(len(logs))
    half = float(stats.t.ppf(0.975, len(logs) - 1)) * error
    return math.exp(mean), math.exp(mean - half), math.exp(mean + half)


def main() -> None:
    """Compares the endpoints."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("old", help="PYTHON or PYTHON@CHECKOUT")
    parser.add_argument("new", help="PYTHON or PYTHON@CHECKOUT")
    parser.add_argument("--pairs", type=int, default=9)
    parser.add_argument("--clients", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=3.0)
    parser.add_argument("--model", choices=MODELS, default="null")
    parser.add_argument("--endpoint", choices=("grpc", "rest"), action="append", help="both if not given")
    arguments = parser.parse_args()
    workload = MODELS[arguments.model]
    with tempfile.TemporaryDirectory(dir="/dev/shm") as name:
        folders = [Path(name, build) for build in ("old", "new")]
        for folder in folders:
            folder.mkdir()
        with serving(arguments.old, folders[0], workload) as old, serving(arguments.new, folders[1], workload) as new:
            for server in (old, new):
                workload.check_predict(server.grpc)
                workload.check_rest(server.rest, workload.rest_path)
            for endpoint in arguments.endpoint or ("grpc", "rest"):
                found = ratios(old, new, endpoint, arguments)
                for what, some in zip(
                    ("a second", "a second of processor time"), zip(*found, strict=True), strict=True
                ):
                    mean, low, high = interval(some)
                    shown = " ".join(f"{ratio:.3f}" for ratio in some)
                    words = f"new/old {mean:.3f}, 95 % interval {low:.3f} to {high:.3f}"
                    print(f"{endpoint}, requests {what}: {words} ({shown})", flush=True)


if __name__ == "__main__":
    main()
