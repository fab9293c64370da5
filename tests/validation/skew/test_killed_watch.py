"""A watch that is killed before any of its steps in its folder: what was counted stays, and comes to the same when run
again."""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.validation import world
from tests.validation.world import Served

from tidegate_validation.skew.over_time import FILE_NAME
from tidegate_validation.statistics import build_profile

FIRST = world.FIRST_DAY + 60
DAYS = 2

# Reads a folder and a number a line: a child takes windows into the evidence, and kills itself before its so many-th
# step in that folder, 0 for never. Its exit status is the answer.
WATCH = """
import os, signal, sys, traceback
from datetime import datetime
from pathlib import Path

import duckdb, pyarrow.compute, pyarrow.parquet, scipy.special
from tidegate_validation.skew import report_on_log

profile, log, model, *ends = sys.argv[1:]
moments = [datetime.fromisoformat(one) for one in ends]

def watched(watch, last):
    done = 0

    def kill_at_step(event, arguments):
        nonlocal done
        if event in ("open", "os.rename", "os.remove", "os.mkdir") and str(arguments[0]).startswith(watch):
            done += 1
            if done == last:
                os.kill(os.getpid(), signal.SIGKILL)

    sys.addaudithook(kill_at_step)
    for since, until in zip(moments, moments[1:]):
        report_on_log(Path(profile), Path(log), model=model, version=1, since=since, until=until, watch=Path(watch))
    assert "scipy.stats" not in sys.modules, "to import it takes as long as a report"

for line in sys.stdin:
    watch, step = line.split()
    child = os.fork()
    if not child:
        try:
            watched(watch, int(step))
        except BaseException:
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), flush=True)
"""
Run = Callable[[Path, int], int]


@contextmanager
def watches(profile: Path, log: Path) -> Iterator[Run]:
    """Runs a watch over all days in a folder; its exit status."""
    start = datetime.fromtimestamp(FIRST * world.DAY, UTC)
    ends = [(start + timedelta(days=day)).isoformat() for day in range(DAYS + 1)]
    command = [sys.executable, "-c", WATCH, str(profile), str(log), world.NAME, *ends]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        asked, answers = process.stdin, process.stdout
        assert answers is not None

        def run(watch: Path, step: int) -> int:
            asked.write(f"{watch} {step}\n")
            asked.flush()
            return int(answers.readline())

        yield run


def test_a_watch_killed_before_any_step_loses_and_doubles_nothing(tmp_path: Path) -> None:
    profile = tmp_path / "profile"
    training = world.parcels(6_000, seed=1, days=60)
    build_profile(training, features=("weight", "size", "depot"), label=None, event_time=world.TIME, directory=profile)
    log = world.write_log(tmp_path / "log", Served(world.parcels(300 * DAYS, seed=2, days=DAYS, first_day=FIRST)))
    step = 1
    with watches(profile, log) as run:
        assert run(tmp_path / "whole", 0) == 0
        whole = (tmp_path / "whole" / FILE_NAME).read_bytes()
        while (status := run(tmp_path / f"killed-{step}", step)) == -signal.SIGKILL:
            again = tmp_path / f"killed-{step}"
            assert run(again, 0) == 0
            assert (again / FILE_NAME).read_bytes() == whole, f"killed before step {step}"
            step += 1
    assert status == 0
    assert step > 2 * DAYS, "no step of it was seen"
