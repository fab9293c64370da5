"""A watch that is killed before any of its steps in its folder: what was counted stays, and comes to the same when run
again."""

from __future__ import annotations

import signal
import subprocess
import sys
from datetime import UTC, datetime, timedelta
from pathlib import Path

from tests.validation import world
from tests.validation.world import Served

from tidegate_validation.skew.over_time import FILE_NAME
from tidegate_validation.statistics import build_profile

FIRST = world.FIRST_DAY + 60
DAYS = 2

# Takes windows into the evidence, and kills itself before its n-th step in the folder of the watch, 0 for never.
WATCH = """
import os, signal, sys
from datetime import datetime
from pathlib import Path
from tidegate_validation.skew import report_on_log

profile, log, watch, model, step, *ends = sys.argv[1:]
done = 0

def kill_at_step(event, arguments):
    global done
    if event in ("open", "os.rename", "os.remove", "os.mkdir") and str(arguments[0]).startswith(watch):
        done += 1
        if done == int(step):
            os.kill(os.getpid(), signal.SIGKILL)

sys.addaudithook(kill_at_step)
moments = [datetime.fromisoformat(one) for one in ends]
for since, until in zip(moments, moments[1:]):
    report_on_log(Path(profile), Path(log), model=model, version=1, since=since, until=until, watch=Path(watch))
"""


def run(profile: Path, log: Path, watch: Path, step: int) -> int:
    """The exit status of a watch over all days."""
    start = datetime.fromtimestamp(FIRST * world.DAY, UTC)
    ends = [(start + timedelta(days=day)).isoformat() for day in range(DAYS + 1)]
    command = [sys.executable, "-c", WATCH, str(profile), str(log), str(watch), world.NAME, str(step), *ends]
    return subprocess.run(command, check=False, timeout=120).returncode


def test_a_watch_killed_before_any_step_loses_and_doubles_nothing(tmp_path: Path) -> None:
    profile = tmp_path / "profile"
    training = world.parcels(6_000, seed=1, days=60)
    build_profile(training, features=("weight", "size", "depot"), label=None, event_time=world.TIME, directory=profile)
    log = world.write_log(tmp_path / "log", Served(world.parcels(300 * DAYS, seed=2, days=DAYS, first_day=FIRST)))
    assert run(profile, log, tmp_path / "whole", 0) == 0
    whole = (tmp_path / "whole" / FILE_NAME).read_bytes()
    step = 1
    while (status := run(profile, log, tmp_path / f"killed-{step}", step)) == -signal.SIGKILL:
        again = tmp_path / f"killed-{step}"
        assert run(profile, log, again, 0) == 0
        assert (again / FILE_NAME).read_bytes() == whole, f"killed before step {step}"
        step += 1
    assert status == 0
    assert step > 2 * DAYS, "no step of it was seen"
