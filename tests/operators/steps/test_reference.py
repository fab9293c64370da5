"""A window that somebody accepted is what the next skew report compares with, in the place of training."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.support.release.world import World, make_world
from tests.validation.world import Served, write_log

from tidegate_operators.steps import accept_reference, skew
from tidegate_operators.steps.reference import find_reference
from tidegate_serving.admission import Outcome
from tidegate_serving.contract.errors import FailedPrecondition, NotFound
from tidegate_serving.contract.repository import profile_directory, reference_directory
from tidegate_validation.statistics.profile import read_profile

START = datetime(2026, 4, 1, tzinfo=UTC)


def served(days: int, first: int, scale: float, seed: int) -> pa.Table:
    """500 requests a day from that day on, `x` within 0 and `scale`."""
    random = np.random.default_rng(seed)
    count = 500 * days
    seconds = START.timestamp() + 86400 * (first + np.arange(count) / 500)
    kinds = [("a", "b")[value] for value in random.integers(0, 2, count)]
    return pa.table({"x": (scale * random.random(count)).astype(np.float32), "kind": kinds, "time": seconds})


@pytest.fixture
def world(tmp_path: Path) -> World:
    """Trained on x within 0 and 1, and sent x within 0 and 5 from the first day on."""
    made = make_world(tmp_path)
    made.publish(1)
    for block, (first, seed) in enumerate(((0, 1), (10, 2))):
        table = served(10, first, 5.0, seed)
        write_log(made.log, Served(table, ("x", "kind"), model="tiny", time="time", block=str(block)))
    return made


def report(world: World, first: int, last: int) -> tuple[Outcome, str]:
    directory = world.repository / "tiny" / "1"
    since, until = START + timedelta(days=first), START + timedelta(days=last)
    found = skew(directory=directory, log_root=world.log, since=since, until=until).report
    return found.feature("x").outcome, found.title


def test_what_is_accepted_is_compared_with_from_then_on(world: World) -> None:
    directory = world.repository / "tiny" / "1"
    outcome, title = report(world, 10, 20)
    assert (outcome, "against its training data" in title) == (Outcome.FAIL, True)
    done = accept_reference(directory=directory, log_root=world.log, since=START, until=START + timedelta(days=10))
    assert (str(done.id), done.rows, done.directory) == ("tiny:1", 5000, reference_directory(directory))
    outcome, title = report(world, 10, 20)
    assert (outcome, "sent from 2026-04-01" in title) == (Outcome.PASS, True)
    again = accept_reference(
        directory=directory, log_root=world.log, since=START + timedelta(days=10), until=START + timedelta(days=20)
    )
    assert again.rows == 5000
    assert "sent from 2026-04-11" in report(world, 0, 10)[1]
    assert read_profile(profile_directory(directory)).rows == 4000, "the version itself stays as it was published"
    assert [path.name for path in directory.parent.glob("*reference*")] == ["1.reference"]


def test_everybody_may_read_it_and_at_no_step_there_is_none(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    directory = world.repository / "tiny" / "1"
    place, week = reference_directory(directory), timedelta(days=7)
    accept_reference(directory=directory, log_root=world.log, since=START, until=START + week)
    (world.repository / "ordinary").mkdir()
    assert place.stat().st_mode == (world.repository / "ordinary").stat().st_mode
    rename, there = Path.rename, []

    def seen(self: Path, target: Path) -> Path:
        there.append(find_reference(directory)[0])
        return rename(self, target)

    monkeypatch.setattr(Path, "rename", seen)
    accept_reference(directory=directory, log_root=world.log, since=START + week, until=START + 2 * week)
    assert set(there) == {place}
    assert "2026-04-08" in find_reference(directory)[1]
    assert [path.name for path in directory.parent.glob("*reference*")] == ["1.reference"]


def test_a_window_that_says_too_little_is_refused_and_changes_nothing(world: World) -> None:
    directory = world.repository / "tiny" / "1"
    with pytest.raises(FailedPrecondition, match=r"was sent 250 rows .* at least 500"):
        accept_reference(directory=directory, log_root=world.log, since=START, until=START + timedelta(hours=12))
    for path in profile_directory(directory).iterdir():
        path.unlink()
    with pytest.raises(NotFound, match="publish"):
        accept_reference(directory=directory, log_root=world.log, since=START, until=START + timedelta(days=10))
    assert not reference_directory(directory).exists()
