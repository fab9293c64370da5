"""Runs everything that `make test` promises: the checks, pytest and cargo test, and writes `build/test.json`.

Called by the Makefile with the virtual environment's Python; ends with one plain line and a matching exit status.
A skipped test counts as a failure, because a missing dependency is an error. A few tests that fail beside all the
others are run once more, alone: those that pass then are named as unsteady, so that a busy machine is told from a
broken product.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

ROOT = Path(__file__).parent.parent
BUILD = ROOT / "build"
PROCESSORS = len(os.sched_getaffinity(0))
PROCESSES = min(4, PROCESSORS + 2)
"""Two more than processors: tests wait for half of their time, for deadlines and for what they started."""
IN_PARALLEL = (f"--numprocesses={PROCESSES}", "--dist=loadgroup", "--no-loadscope-reorder")
"""Groups are begun in the order of the folders, which has the longest tests first."""
CARGO_THREADS = 2 * PROCESSORS
"""Tests of the engine wait for most of their time."""
ONE_THREAD = {"OMP_NUM_THREADS": "1"}
"""OpenMP's threads spin while they wait for each other, ten times as long where other processes have the processors."""
REPEATABLE = ("--hypothesis-profile=repeatable",)
CARGO_RESULT = re.compile(r"^test result: \w+\. (\d+) passed; (\d+) failed; (\d+) ignored", re.MULTILINE)
CARGO_FAILED = re.compile(r"^test (.+) \.\.\. FAILED$", re.MULTILINE)
RUN_AGAIN = 3
"""So many failures may come of a busy machine; more have a reason, and stand as they are."""


@dataclass
class Tally:
    """What passed and failed so far, and names of what was skipped and of what passed only when it was run again."""

    passed: int = 0
    failed: int = 0
    skipped: list[str] = field(default_factory=list)
    unsteady: list[str] = field(default_factory=list)

    def add(self, passed: int, failed: int) -> None:
        """Adds counts."""
        self.passed += passed
        self.failed += failed

    def steady(self, failed: list[str], passes: Callable[[str], bool]) -> None:
        """Takes back failures, already counted, of tests that pass when each is run again alone."""
        if len(failed) <= RUN_AGAIN:
            found = [name for name in failed if passes(name)]
            self.unsteady += found
            self.add(len(found), -len(found))


def run_checks(tally: Tally) -> None:
    """`make check` and `make docs` count as one test each."""
    for target in ("check", "docs"):
        status = subprocess.run(["make", "--no-print-directory", target], cwd=ROOT, check=False).returncode
        tally.add(int(status == 0), int(status != 0))


def run_pytest(tally: Tally, folder: Path = ROOT) -> None:
    """Adds pytest's results, read from its JUnit file; a run without one counts as a failure."""
    report = BUILD / "pytest.xml"
    report.unlink(missing_ok=True)
    pytest = [sys.executable, "-m", "pytest", "-q", *REPEATABLE]
    environment = {**os.environ, **ONE_THREAD}
    command = [*pytest, "--durations=10", *IN_PARALLEL, f"--junit-xml={report}"]
    status = subprocess.run(command, cwd=folder, env=environment, check=False).returncode
    if not report.exists():
        tally.add(0, 1)
        return
    failed = []
    for case in ElementTree.parse(report).iter("testcase"):
        name = f"{case.get('classname')}::{case.get('name')}"
        if case.find("skipped") is not None:
            tally.skipped.append(name)
        elif case.find("failure") is not None or case.find("error") is not None:
            failed.append(name)
            tally.add(0, 1)
        else:
            tally.add(1, 0)
    if status != 0 and not failed and not tally.skipped:
        tally.add(0, 1)
    tally.steady(failed, lambda name: _passes([*pytest, _argument(name, folder)], folder, environment))


def run_cargo(tally: Tally, folder: Path = ROOT / "serving/native") -> None:
    """Adds cargo's results; ignored tests count as skipped."""
    cargo = subprocess.run([ROOT / "tools/toolchain.sh", "cargo"], capture_output=True, text=True, check=True)
    command = [cargo.stdout.strip(), "test", "--workspace", "--locked", "--no-fail-fast"]
    environment = {**os.environ, "RUST_TEST_THREADS": str(CARGO_THREADS)}
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout)
    before = tally.failed
    for passed, failed, ignored in CARGO_RESULT.findall(done.stdout):
        tally.add(int(passed), int(failed))
        tally.skipped += ["ignored cargo test"] * int(ignored)
    if done.returncode != 0 and tally.failed == before:
        tally.add(0, 1)
        return
    failed_tests = CARGO_FAILED.findall(done.stdout)
    if len(failed_tests) == tally.failed - before:
        tally.steady(failed_tests, lambda name: _passes([*command, "--", "--exact", name], folder, {**os.environ}))


def _argument(name: str, folder: Path) -> str:
    """What pytest calls the test that its report names as MODULE::TEST or MODULE::TEST@GROUP."""
    module, test = name.split("::", 1)
    file = folder / (module.replace(".", "/") + ".py")
    parameters, bracket, group = test.rpartition("]")
    return f"{file}::{parameters}{bracket}{group.split('@')[0]}"


def _passes(command: list[str], folder: Path, environment: dict[str, str]) -> bool:
    """Whether a command that runs one test does run it, and it passes."""
    done = subprocess.run(command, cwd=folder, env=environment, stdout=subprocess.PIPE, text=True, check=False)
    print(done.stdout)
    return done.returncode == 0 and re.search(r"\b1 passed", done.stdout) is not None


def main() -> int:
    """Runs all three, says how it went and returns the exit status."""
    BUILD.mkdir(exist_ok=True)
    tally = Tally()
    for part in (run_checks, run_cargo, run_pytest):
        part(tally)
    result = {"passed": tally.passed, "failed": tally.failed, "skipped": tally.skipped, "unsteady": tally.unsteady}
    (BUILD / "test.json").write_text(json.dumps(result, indent=1) + "\n")
    for name in tally.skipped:
        print(f"skipped, which counts as a failure: {name}")
    for name in tally.unsteady:
        print(f"unsteady, passed when it was run again alone: {name}")
    print(f"{tally.passed} passed, {tally.failed} failed, {len(tally.skipped)} skipped")
    return int(bool(tally.failed or tally.skipped or not tally.passed))


if __name__ == "__main__":
    sys.exit(main())
