"""When a directory that nobody marked counts as complete; clocks are moved by hand."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import pytest
from tests.support.models.versions import fill

from tidegate_serving.contract.errors import InvalidInput
from tidegate_serving.sources.file_system import quiet_period
from tidegate_serving.sources.file_system.quiet_period import LONG_AGO_SECONDS, QuietPeriod


class Bench:
    def __init__(self, folder: Path) -> None:
        self.directory = folder / "1"
        self.now = 100.0
        self.ago = 0.0
        self.quiet = QuietPeriod(2.0, clock=lambda: self.now, wall=self.wall)

    def wall(self) -> float:
        return max(path.lstat().st_ctime for path in (self.directory, *self.directory.rglob("*"))) + self.ago

    def write(self, name: str = "saved_model.pb", text: str = "x") -> None:
        fill(self.directory, {name: text})

    def look(self, after: float = 0.0) -> int | None:
        self.now += after
        return self.quiet.settled(self.directory)


@pytest.fixture
def bench(tmp_path: Path) -> Bench:
    return Bench(tmp_path)


def test_two_looks_with_the_same_files_in_between(bench: Bench) -> None:
    bench.write()
    assert bench.look() is None
    assert bench.quiet.wait_left() == 2.0
    assert bench.look(after=1.5) is None
    assert bench.quiet.wait_left() == 0.5
    assert bench.look(after=0.5) is not None
    assert bench.quiet.wait_left() is None


def test_what_is_too_much_for_a_model_is_refused_and_seldom_looked_at(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(quiet_period, "MOST_ENTRIES", 10)
    elsewhere = tmp_path / "elsewhere"
    fill(elsewhere, {f"{number}/file": "x" for number in range(10)})
    bench.write()
    (bench.directory / "link").symlink_to(elsewhere)
    for after in (0.0, 2.0, LONG_AGO_SECONDS - 3.0):
        with pytest.raises(InvalidInput, match="holds more than 10 files and folders, links followed"):
            bench.look(after)
        (bench.directory / "link").unlink(missing_ok=True)
    assert bench.quiet.wait_left() is None
    assert bench.look(after=1.0) is None
    assert bench.look(after=2.0) is not None


@pytest.mark.parametrize("change", ["grows", "another file", "a file goes", "same size"])
def test_any_change_starts_the_wait_again(bench: Bench, change: str) -> None:
    bench.write()
    bench.write("variables/variables.data")
    bench.look()
    if change == "grows":
        bench.write("variables/variables.data", "longer")
    elif change == "another file":
        bench.write("assets/words.txt")
    elif change == "a file goes":
        (bench.directory / "variables" / "variables.data").unlink()
    else:
        os.utime(bench.directory / "saved_model.pb", ns=(1, 1))
    assert bench.look(after=3.0) is None
    assert bench.look(after=1.0) is None
    assert bench.look(after=1.0) is not None


def test_what_has_long_been_quiet_is_taken_at_first_sight(bench: Bench) -> None:
    bench.write()
    bench.ago = LONG_AGO_SECONDS + 2.5
    assert bench.look() is not None


def test_a_copy_with_old_times_is_not_taken_at_first_sight(bench: Bench) -> None:
    bench.write()
    for path in (bench.directory / "saved_model.pb", bench.directory):
        os.utime(path, (1, 1))
    assert bench.look() is None


def test_an_empty_directory_is_never_complete(bench: Bench) -> None:
    (bench.directory / "variables").mkdir(parents=True)
    bench.ago = 1e6
    assert bench.look() is None
    assert bench.look(after=100) is None
    assert bench.quiet.wait_left() is None, "nothing can be waited for"


def test_what_was_complete_stays_so_and_shows_a_change_once_that_is_quiet(bench: Bench) -> None:
    bench.write()
    bench.look()
    first = bench.look(after=2)
    bench.write(text="mended")
    assert bench.look(after=6) == first
    second = bench.look(after=2)
    assert second not in (None, first)


def test_a_directory_that_went_away_is_forgotten(bench: Bench) -> None:
    bench.write()
    bench.look()
    assert bench.look(after=2) is not None
    bench.quiet.keep([])
    shutil.rmtree(bench.directory)
    bench.write()
    assert bench.look() is None


def test_links_that_lead_nowhere_or_back_hold_up_nothing(bench: Bench) -> None:
    bench.write()
    for name in ("back", "again", "nowhere"):
        (bench.directory / name).symlink_to(bench.directory if name != "nowhere" else bench.directory / "gone")
    assert bench.look() is None
    assert bench.look(after=2.0) is not None
    (bench.directory / "nowhere").unlink()
    (bench.directory / "nowhere").symlink_to(bench.directory / "saved_model.pb")
    assert bench.look(after=5.0) != bench.look(after=5.0)
