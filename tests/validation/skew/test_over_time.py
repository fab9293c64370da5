"""Drift over windows: as few false alarms as the knob says, and a memory that counts each window once."""

from __future__ import annotations

import json
import os
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pyarrow as pa
import pytest
from tests.validation import world
from tests.validation.world import Served

from tidegate_serving.admission import Outcome
from tidegate_serving.contract.errors import InvalidInput, Tampered, Unsupported
from tidegate_validation.report.gauges import gauges
from tidegate_validation.skew import SkewReport, report_on_log
from tidegate_validation.skew.measures.e_detector import advance, e_values
from tidegate_validation.skew.over_time import FILE_NAME
from tidegate_validation.statistics import build_profile

FEATURES = ("weight", "size", "depot")
FIRST = world.FIRST_DAY + 60
DAYS = 12
N = 365


def first_alarms(deviates: np.ndarray[tuple[int, int, int], np.dtype[np.float64]]) -> list[int]:
    """Windows until the first alarm of each stream; `deviates` have shape [streams, windows, features]."""
    from scipy import stats

    e = e_values(2 * stats.norm.sf(np.abs(deviates)))
    found = []
    for stream in e:
        evidence, alarm = np.zeros(stream.shape[1]), np.zeros(stream.shape[1], dtype=np.bool_)
        count = 0
        while count < len(stream) and not alarm.any():
            evidence, alarm = advance(evidence, alarm, stream[count], N)
            count += 1
        found.append(count)
    return found


@pytest.mark.parametrize("features", [1, 20])
def test_false_alarms_come_no_more_often_than_the_knob_says(features: int) -> None:
    random = np.random.default_rng(features)
    assert np.mean(first_alarms(random.normal(0, 1, (60, 1500, features)))) >= N


def test_a_drift_of_three_deviations_is_found_within_three_windows() -> None:
    deviates = np.random.default_rng(1).normal(0, 1, (200, 20, 20))
    deviates[:, :, 0] += 3
    assert np.median(first_alarms(deviates)) <= 3


def test_an_alarm_lasts_until_a_window_looks_as_was_to_be_expected() -> None:
    evidence, alarm = advance(np.zeros(2), np.zeros(2, dtype=np.bool_), np.array([5000.0, 1.0]), N)
    assert alarm.tolist() == [True, False]
    held, alarm = advance(evidence, alarm, np.array([3.0, 1.0]), N)
    assert alarm.tolist() == [True, False]
    assert held[0] == evidence[0]
    begun, alarm = advance(held, alarm, np.array([0.5, 1.0]), N)
    assert not alarm.any()
    assert begun[0] == 0.5


@pytest.fixture(scope="module")
def profile(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("profile")
    table = world.parcels(18_000, seed=1, days=60)
    build_profile(table, features=FEATURES, label=world.LABEL, event_time=world.TIME, directory=directory)
    return directory


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Days of 300 parcels, the last six a little heavier."""
    root = tmp_path_factory.mktemp("log")
    table = world.parcels(300 * DAYS, seed=2, days=DAYS, first_day=FIRST)
    late = table[world.TIME].to_numpy() >= (FIRST + 6) * world.DAY
    weight = table["weight"].to_numpy() + np.where(late, 0.4, 0.0).astype(np.float32)
    return world.write_log(root, Served(world.with_column(table, "weight", weight)))


def window(profile: Path, log: Path, watch: Path, day: float, length: float = 1.0) -> SkewReport:
    since = datetime.fromtimestamp((FIRST + day) * world.DAY, UTC)
    until = since + timedelta(days=length)
    return report_on_log(profile, log, model=world.NAME, version=1, since=since, until=until, watch=watch)


def test_drift_that_no_day_shows_is_found_over_days(profile: Path, log: Path, tmp_path: Path) -> None:
    reports = [window(profile, log, tmp_path, day) for day in range(DAYS)]
    about = [any(one.check == "over time" for one in report.findings) for report in reports]
    assert not any(about[:6])
    assert any(about[6:])
    assert all(
        report.feature("weight").outcome is Outcome.FAIL for report, told in zip(reports, about, strict=True) if told
    )
    last = reports[-1].over_time
    assert last is not None
    assert (last.windows, last.counted) == (DAYS, True)
    assert [name for name, one in last.features.items() if one.alarm_since] == ["weight"]
    finding = next(one for report in reports for one in report.findings if one.check == "over time")
    assert finding.outcome is Outcome.FAIL
    assert "has drifted over windows" in finding.sentence
    assert reports[-1].to_dict()["over_time"]["features"]["weight"]["evidence"] > 0


def test_a_window_counts_once_and_may_come_again_with_more_rows(profile: Path, log: Path, tmp_path: Path) -> None:
    once = [window(profile, log, tmp_path / "once", day).over_time for day in range(4)]
    folder = tmp_path / "again"
    for day in range(3):
        window(profile, log, folder, day)
        window(profile, log, folder, day)
        overlapping = window(profile, log, folder, day + 0.5).over_time
        assert overlapping is not None
        assert not overlapping.counted
    assert window(profile, log, folder, 3).over_time == once[3]
    assert (folder / FILE_NAME).read_bytes() == (tmp_path / "once" / FILE_NAME).read_bytes()


def test_windows_that_say_nothing_leave_an_alarm_as_it_is_and_the_effect_is_told(profile: Path, tmp_path: Path) -> None:
    """Too heavy for two days, then a day without the column, then one with too few rows."""
    table = world.scaled(world.parcels(1200, seed=5, days=4, first_day=FIRST), "weight", 1.3)
    day = table[world.TIME].to_numpy() // world.DAY - FIRST
    for block, wanted in (("a", day < 2), ("c", (day == 3) & (np.cumsum(day == 3) < 3))):
        world.write_log(tmp_path, Served(table.filter(pa.array(wanted)), block=block))
    rest = Served(table.filter(pa.array(day == 2)), inputs=("size", "depot"), block="b")
    world.write_log(tmp_path / "without", rest)
    logs = [tmp_path, tmp_path, tmp_path / "without", tmp_path]
    reports = [window(profile, log, tmp_path / "watch", place) for place, log in enumerate(logs)]
    known = [report.over_time.features["weight"] for report in reports if report.over_time is not None]
    assert known[0].alarm_since is not None
    assert [one.alarm_since for one in known] == [known[0].alarm_since] * 4
    assert known[3].evidence == known[1].evidence > N
    shown = 'tidegate_skew_effect{model="parcels",version="1",feature="weight"}'
    assert [shown in gauges(report) for report in reports] == [True, True, False, True]


def test_a_folder_of_another_model_is_refused(profile: Path, log: Path, tmp_path: Path) -> None:
    window(profile, log, tmp_path, 0)
    before = (tmp_path / FILE_NAME).read_bytes()
    day = datetime.fromtimestamp(FIRST * world.DAY, UTC)
    world.write_log(tmp_path / "log", Served(world.parcels(300, seed=2, days=1, first_day=FIRST), model="letters"))
    with pytest.raises(InvalidInput, match=r"remembers windows of parcels: give letters a folder of its own"):
        report_on_log(
            profile,
            tmp_path / "log",
            model="letters",
            version=1,
            since=day,
            until=day + timedelta(days=1),
            watch=tmp_path,
        )
    assert (tmp_path / FILE_NAME).read_bytes() == before


def test_what_a_killed_watch_left_aside_is_swept(profile: Path, log: Path, tmp_path: Path) -> None:
    left = tmp_path / f".{FILE_NAME}.0a1b2c3d.aside"
    left.write_text("{")
    os.utime(left, (1e9, 1e9))
    window(profile, log, tmp_path, 0)
    assert [path.name for path in tmp_path.iterdir()] == [FILE_NAME]


def test_an_empty_window_changes_nothing(profile: Path, log: Path, tmp_path: Path) -> None:
    window(profile, log, tmp_path, 0)
    before = (tmp_path / FILE_NAME).read_bytes()
    assert window(profile, log, tmp_path, 400).rows == 0
    assert (tmp_path / FILE_NAME).read_bytes() == before


def test_another_profile_begins_anew_and_a_broken_memory_is_said(profile: Path, log: Path, tmp_path: Path) -> None:
    window(profile, log, tmp_path, 0)
    path = tmp_path / FILE_NAME
    path.write_text(json.dumps({**json.loads(path.read_text()), "profile": "of another version"}))
    seen = window(profile, log, tmp_path, 0).over_time
    assert seen is not None
    assert seen.windows == 1
    path.write_text(json.dumps({**json.loads(path.read_text()), "windows": "many"}))
    with pytest.raises(Tampered, match="remove it to begin the watch anew"):
        window(profile, log, tmp_path, 1)


def test_a_memory_of_another_build_is_told_as_such(profile: Path, log: Path, tmp_path: Path) -> None:
    window(profile, log, tmp_path, 0)
    path = tmp_path / FILE_NAME
    before = {**json.loads(path.read_text()), "format": "tidegate.skew-over-time/1"}
    del before["model"]
    path.write_text(json.dumps(before))
    with pytest.raises(Unsupported, match=r"skew-over-time/1, this build reads .*/2.*: remove it to begin the watch"):
        window(profile, log, tmp_path, 1)
    assert json.loads(path.read_text()) == before


def test_a_watch_without_bounds_is_refused(profile: Path, log: Path, tmp_path: Path) -> None:
    with pytest.raises(InvalidInput, match="needs since, until"):
        report_on_log(profile, log, model=world.NAME, version=1, watch=tmp_path)
