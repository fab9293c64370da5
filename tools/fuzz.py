"""Looks for bytes that break a decoder, one decoder after the other: libFuzzer for those in Rust, Atheris for Python's.

    python tools/fuzz.py --seconds 60 --uv UV [--keep] [DECODER...]

Begins with `tests/corpora`, works in `build/fuzz`, and writes `build/fuzz.json`. 1 if a decoder broke; what broke it is
in `build/fuzz/found`. With --keep the corpora become the least set of inputs that reaches all that is reached by now.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
CORPORA = ROOT / "tests" / "corpora"
BUILD = ROOT / "build" / "fuzz"
NATIVE = ROOT / "serving" / "native"
ATHERIS = "3.0.0"
ATHERIS_FOLDER = ROOT / ".tools" / "fuzz"
IN_RUST = ("protobuf", "json", "msgpack", "open_inference", "gzip", "http1", "http2", "trace_context", "model_names")
IN_PYTHON = ("manifests", "verdicts", "text_files", "state", "frames")

COVERAGE = ("level=4", "inline-8bit-counters", "pc-table", "trace-compares")
LIMITS = ("-timeout=10", "-rss_limit_mb=2048", "-max_len=16384")
MERGE = ("-set_cover_merge=1", "-use_counters=0")
EXECUTED = re.compile(rb"^stat::number_of_executed_units: (\d+)", re.MULTILINE)
BY_THE_FUZZER = re.compile(r"[0-9a-f]{40}\Z")
"""Names of inputs that it chose itself; others were kept for what they once broke, and stay."""


@dataclass(frozen=True, slots=True)
class Run:
    """What came of one decoder."""

    decoder: str
    executions: int
    seconds: int
    corpus: int
    broke_by: list[str]


def main(arguments: Sequence[str]) -> int:
    """Runs all that are asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=int, default=60, help="for each decoder")
    parser.add_argument("--uv", required=True, help="the program that installs Atheris")
    parser.add_argument("--keep", action="store_true", help="put what was reached into tests/corpora")
    parser.add_argument("decoders", nargs="*", metavar="DECODER", help=", ".join((*IN_RUST, *IN_PYTHON)))
    asked = parser.parse_args(arguments)
    decoders = asked.decoders or [*IN_RUST, *IN_PYTHON]
    if unknown := sorted(set(decoders) - {*IN_RUST, *IN_PYTHON}):
        parser.error(f"no decoder is called {unknown[0]}: there are {', '.join((*IN_RUST, *IN_PYTHON))}")
    runs = []
    for decoder in decoders:
        command, env = in_rust(decoder) if decoder in IN_RUST else in_python(decoder, asked.uv)
        runs.append(fuzz(decoder, command, env, asked.seconds))
        if asked.keep:
            keep(decoder, command, env)
    (ROOT / "build" / "fuzz.json").write_text(json.dumps([asdict(run) for run in runs], indent=1) + "\n")
    for run in runs:
        print(f"{run.decoder}: {run.executions} inputs in {run.seconds} s, {run.corpus} in the corpus", *run.broke_by)
    return int(any(run.broke_by for run in runs))


def in_rust(decoder: str) -> tuple[list[str], dict[str, str]]:
    """The program that fuzzes a decoder in Rust, built where it has to be. A stable compiler has all that it takes."""
    cargo = subprocess.run([ROOT / "tools/toolchain.sh", "cargo"], capture_output=True, text=True, check=True)
    rustc = Path(cargo.stdout.strip()).with_name("rustc")
    told = subprocess.run([rustc, "-vV"], capture_output=True, text=True, check=True).stdout
    host = told.partition("host: ")[2].split()[0]
    flags = ["-Cpasses=sancov-module", *(f"-Cllvm-args=-sanitizer-coverage-{one}" for one in COVERAGE)]
    # A target of its own keeps the flags from build scripts, and a folder of its own from what others build.
    build = ["build", "--locked", "-q", "-p", "tidegate-fuzz", "--features", "libfuzzer", "--profile", "fuzz"]
    where = ["--target", host, "--target-dir", "target/fuzz"]
    env = {**os.environ, "RUSTFLAGS": " ".join(flags)}
    subprocess.run([cargo.stdout.strip(), *build, *where], cwd=NATIVE, env=env, check=True)
    return [str(NATIVE / "target/fuzz" / host / "fuzz/tidegate-fuzz")], {**os.environ, "DECODER": decoder}


def in_python(decoder: str, uv: str) -> tuple[list[str], dict[str, str]]:
    """The program that fuzzes a decoder in Python. Atheris lies apart: nothing else may come to need it."""
    if not (ATHERIS_FOLDER / f"atheris-{ATHERIS}.dist-info").is_dir():
        install = [uv, "pip", "install", "-q", "--python", sys.executable, "--target", str(ATHERIS_FOLDER)]
        subprocess.run([*install, f"atheris=={ATHERIS}"], check=True)
    path = os.pathsep.join(filter(None, (str(ATHERIS_FOLDER), os.environ.get("PYTHONPATH", ""))))
    program = BUILD / "python.sh"
    program.parent.mkdir(parents=True, exist_ok=True)
    program.write_text(f'#!/bin/sh\nexec "{sys.executable}" -m tests.fuzz "$0" "$@"\n')
    program.chmod(0o755)
    return [str(program)], {**os.environ, "PYTHONPATH": path, "DECODER": decoder}


def fuzz(decoder: str, command: Sequence[str], env: Mapping[str, str], seconds: int) -> Run:
    """Fuzzes for so long, or until the decoder breaks."""
    work, found = BUILD / decoder, BUILD / "found" / decoder
    for folder in (work, found, CORPORA / decoder):
        folder.mkdir(parents=True, exist_ok=True)
    options = [*LIMITS, f"-max_total_time={seconds}", f"-artifact_prefix={found}/", "-print_final_stats=1", "-reload=0"]
    log = BUILD / f"{decoder}.log"
    with log.open("wb") as file:
        folders = [str(work), str(CORPORA / decoder)]
        done = subprocess.run(
            [*command, *options, *folders], cwd=ROOT, env=env, stdout=file, stderr=subprocess.STDOUT, check=False
        )
    executed = EXECUTED.search(log.read_bytes())
    broke_by = sorted(str(path.relative_to(ROOT)) for path in found.iterdir())
    if done.returncode != 0 and not broke_by:
        broke_by = [f"ended with status {done.returncode}: see {log.relative_to(ROOT)}"]
    return Run(decoder, int(executed[1]) if executed else 0, seconds, len(list(work.iterdir())), broke_by)


def keep(decoder: str, command: Sequence[str], env: Mapping[str, str]) -> None:
    """Replaces what the fuzzer chose for a corpus by as few inputs as reach the same and what is new."""
    corpus, least = CORPORA / decoder, BUILD / "least" / decoder
    shutil.rmtree(least, ignore_errors=True)
    least.mkdir(parents=True)
    merge = [*LIMITS, *MERGE, f"-artifact_prefix={BUILD}/", str(least), str(corpus), str(BUILD / decoder)]
    with (BUILD / f"{decoder}.merge.log").open("wb") as file:
        subprocess.run([*command, *merge], cwd=ROOT, env=env, stdout=file, stderr=subprocess.STDOUT, check=True)
    for path in corpus.iterdir():
        if BY_THE_FUZZER.match(path.name):
            path.unlink()
    for path in least.iterdir():
        shutil.copy(path, corpus)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
