"""Compiles the programs that are set beside the engine as the wheel is compiled: guided by a profile.

    python -m tests.bench.programs TARGET FOLDER

They are built with counters, run under load, and built again with what was counted. TARGET is what cargo may keep,
FOLDER gets the programs; cargo, rustc and an llvm-profdata that reads its profiles are commands.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

from tests.bench.load import Load
from tests.bench.servers import LOAD_CORE, NATIVE, SERVER_CORE, echo
from tests.bench.serving.alone import rate
from tests.bench.serving.workloads import NULL, PREDICT

ECHO, ALONE = PROGRAMS = ("tidegate-echo", "tidegate-alone")
SECONDS = 1.0


def build(target: Path, flag: str) -> Path:
    """The folder with the programs, in which everything is compiled with this flag."""
    host = subprocess.run(["rustc", "--print", "host-tuple"], capture_output=True, text=True, check=True).stdout.strip()
    # Where cargo is told a target, what it runs itself meanwhile is compiled without the flag.
    command = ["cargo", "build", "--release", "--locked", "-q", "--target", host, "--target-dir", str(target)]
    command += ["-p", "tidegate-plane", *(word for name in PROGRAMS for word in ("--bin", name))]
    subprocess.run(command, cwd=NATIVE, env={**os.environ, "RUSTFLAGS": flag}, check=True)
    return target / host / "release"


def load_echo(binary: Path) -> None:
    """The loads that it is measured with."""
    with echo(SERVER_CORE, binary) as server:
        for clients, streams in ((1, 1), (64, 1), (64, 16)):
            Load(clients, SECONDS, LOAD_CORE, server.pid, streams).grpc(server.grpc, PREDICT, NULL.predict_bytes())
        for clients in (1, 64):
            Load(clients, SECONDS, LOAD_CORE, server.pid).rest(server.rest, NULL.rest_path, NULL.rest_body())


def load_alone(binary: Path) -> None:
    """One core and all of them, one model and a model each."""
    cores = sorted(os.sched_getaffinity(0))
    for some, models in ((cores[:1], 1), (cores, 1), (cores, len(cores))):
        rate(binary, some, models, SECONDS)


def main(target: Path, folder: Path) -> None:
    """Leaves the programs in the folder."""
    counts, merged = target / "counts", target / "merged.profdata"
    shutil.rmtree(counts, ignore_errors=True)
    counted = build(target, f"-Cprofile-generate={counts}")
    load_echo(counted / ECHO)
    load_alone(counted / ALONE)
    subprocess.run(["llvm-profdata", "merge", "-o", merged, counts], check=True)
    compiled = build(target, f"-Cprofile-use={merged}")
    folder.mkdir(parents=True, exist_ok=True)
    for name in PROGRAMS:
        shutil.copy2(compiled / name, folder)


if __name__ == "__main__":
    main(*(Path(word).absolute() for word in sys.argv[1:]))
