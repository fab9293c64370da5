"""The skew loop on the log of a real engine: what looks as in training is kept, a wrong unit alerts."""

from __future__ import annotations

import errno
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from tests.support.command import Command
from tests.support.eventually import eventually
from tests.support.release.world import Endpoints, World

from tidegate_operators.steps import Skew, promote, push, serving_directory, skew
from tidegate_pipelines.monitor import Action, Observation, Watch, _version_before, action_for, monitor, observe
from tidegate_serving.admission import Outcome
from tidegate_serving.client import Client
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, TidegateError
from tidegate_serving.contract.manifest import FILE_NAME
from tidegate_serving.inference_log.reader import connect

ROWS = 2000


def logged(world: World, name: str) -> int:
    with connect(world.log) as connection:
        row = connection.execute("SELECT count(*) FROM log WHERE model = ?", [name]).fetchone()
    return int(row[0])


def serve(world: World, endpoints: Endpoints, name: str, factor: float) -> Watch:
    """A version that gets ordinary traffic with `x` in another unit, all of it in the log."""
    push(directory=world.admitted(1, name=name), control=endpoints.control)
    promote(control=endpoints.control, servable=name, version=1)
    random = np.random.default_rng(3)
    with Client(endpoints.grpc) as client:
        for _ in range(ROWS // 50):
            x = (random.random(50) * factor).astype(np.float32)
            client.predict(name, {"x": x, "kind": random.choice([b"a", b"b"], 50).astype(object)})
    eventually(lambda: logged(world, name) == ROWS)
    return Watch(endpoints.control, name, world.root / "skew" / name)


def test_traffic_as_in_training_is_kept_and_a_wrong_unit_alerts(world: World, endpoints: Endpoints) -> None:
    seen: list[Observation] = []
    stop = threading.Event()

    def hear(observation: Observation) -> None:
        seen.append(observation)
        stop.set()

    for watch in (serve(world, endpoints, "right", 1.0), serve(world, endpoints, "wrong", 0.1)):
        stop.clear()
        monitor(watch, hear, stop)
    assert [observation.action for observation in seen] == [Action.KEEP, Action.ALERT]
    assert seen[0].sentences == ()
    (sentence,) = seen[1].sentences
    assert "`x`" in sentence
    assert "times those of training" in sentence
    assert seen[1].skew.page is not None
    assert seen[1].skew.page.is_file()
    for observation, name in zip(seen, ("right", "wrong"), strict=True):
        counted = observation.skew.report.over_time
        assert counted is not None
        assert (counted.windows, counted.windows_per_alarm) == (1, 365)
        gauges = (world.root / "skew" / name / "skew.prom").read_text()
        assert f'tidegate_skew_rows{{model="{name}",version="1"}} {ROWS}' in gauges


def test_a_window_ends_when_it_is_asked_for(world: World, endpoints: Endpoints) -> None:
    watch = serve(world, endpoints, "windows", 1.0)
    yesterday = datetime.now(UTC) - timedelta(days=1)
    empty = observe(watch, yesterday)
    assert (empty.since, empty.until) == (yesterday - watch.window, yesterday)
    assert empty.skew.report.rows == 0
    assert empty.action is Action.WARN


def test_nothing_served_is_an_error_and_no_report(world: World, endpoints: Endpoints) -> None:
    with pytest.raises(FailedPrecondition, match="nothing serves"):
        observe(Watch(endpoints.control, "nobody", world.root / "skew"), datetime.now(UTC))


@pytest.mark.parametrize(
    ("outcome", "action"),
    [
        (Outcome.PASS, Action.KEEP),
        (Outcome.WARN, Action.WARN),
        (Outcome.INCONCLUSIVE, Action.WARN),
        (Outcome.FAIL, Action.ALERT),
        (Outcome.ERROR, Action.ALERT),
    ],
)
def test_what_cannot_be_told_is_never_kept_quiet(outcome: Outcome, action: Action) -> None:
    assert action_for(outcome) is action


class SteppedEvent(threading.Event):
    """An event whose waits are over at once; `waited` is how long each would have been, and a second window sets it."""

    def __init__(self) -> None:
        super().__init__()
        self.waited: list[float | None] = []
        self.seen: list[Observation] = []

    def hear(self, observation: Observation) -> None:
        self.seen.append(observation)
        if len(self.seen) == 2:
            self.set()

    def wait(self, timeout: float | None = None) -> bool:
        self.waited.append(timeout)
        return self.is_set()


def test_an_engine_that_is_away_is_said_and_watched_again_when_it_is_back(
    world: World, endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = serve(world, endpoints, "away", 1.0)
    said: list[str] = []
    stop = SteppedEvent()

    def reached(*, control: str, servable: str) -> Path:
        return serving_directory(control=control if len(said) >= 3 else "127.0.0.1:1", servable=servable)

    monkeypatch.setattr("tidegate_pipelines.monitor.serving_directory", reached)
    monitor(watch, stop.hear, stop, on_away=lambda error: said.append(error.message))
    assert ["127.0.0.1:1" in words for words in said] == [True, True, True]
    assert [observation.action for observation in stop.seen] == [Action.KEEP, Action.KEEP]
    assert stop.waited == [1.0, 2.0, 4.0, watch.every, watch.every]


def test_an_engine_that_serves_nothing_since_it_began_anew_is_watched_again_when_it_does(
    world: World, endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    watch = serve(world, endpoints, "anew", 1.0)
    said: list[str] = []
    stop = SteppedEvent()

    def reached(*, control: str, servable: str) -> Path:
        return serving_directory(control=control, servable="nobody" if len(stop.seen) == 1 and not said else servable)

    monkeypatch.setattr("tidegate_pipelines.monitor.serving_directory", reached)
    monitor(watch, stop.hear, stop, on_away=lambda error: said.append(error.message))
    assert ["nothing serves" in words for words in said] == [True]
    assert [observation.action for observation in stop.seen] == [Action.KEEP, Action.KEEP]


def test_what_time_does_not_heal_ends_the_watch(world: World, endpoints: Endpoints) -> None:
    with pytest.raises(FailedPrecondition, match="nothing serves"):
        monitor(Watch(endpoints.control, "nobody", world.root / "skew"), lambda _: None, SteppedEvent())


def test_the_version_before_is_the_newest_older_one_that_is_published(world: World) -> None:
    first = world.admitted(1, name="older")
    assert _version_before(first) is None
    (first.parent / "2").mkdir()
    (first.parent / "1.report").mkdir(exist_ok=True)
    assert _version_before(first.parent / "3") == first


def asked_of_a_rollback(watch: Watch, monkeypatch: pytest.MonkeyPatch) -> list[Path | None]:
    """The directories of the version that serves and of the one that a rollback goes to, as the report gets them."""
    asked: list[Path | None] = []

    def heard(*, directory: Path, previous: Path | None, **options: Any) -> Skew:
        asked.extend([directory, previous])
        return skew(directory=directory, previous=previous, **options)

    monkeypatch.setattr("tidegate_pipelines.monitor.skew", heard)
    observe(watch, datetime.now(UTC))
    return asked


def promoted(world: World, endpoints: Endpoints, name: str) -> tuple[Watch, list[Path]]:
    """Versions 1 and 3 of three that are published, one after the other."""
    versions = [world.admitted(version, name=name) for version in (1, 2, 3)]
    for version in (1, 3):
        push(directory=versions[version - 1], control=endpoints.control)
        promote(control=endpoints.control, servable=name, version=version)
    return Watch(endpoints.control, name, world.root / "skew" / name), versions


def test_what_a_rollback_would_do_is_asked_of_the_version_that_served_before(
    world: World, endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Not of one that was published in between and never served."""
    watch, (first, second, third) = promoted(world, endpoints, "skipped")
    assert asked_of_a_rollback(watch, monkeypatch) == [third, first]
    assert second.is_dir()


@pytest.mark.parametrize("desired", [False, True])
def test_a_version_that_a_rollback_goes_to_and_that_is_gone_leaves_a_report_without_advice(
    world: World,
    endpoints: Endpoints,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    desired: bool,
) -> None:
    """Whether it is among the desired versions, as where it was pushed again, or not."""
    name = f"gone-{desired}".lower()
    watch, (first, _, third) = promoted(world, endpoints, name)
    if desired:
        push(directory=first, control=endpoints.control)
    (first / FILE_NAME).unlink()
    assert asked_of_a_rollback(watch, monkeypatch) == [third, None]
    assert f"{name}:1, which a rollback goes to, is not on this machine" in caplog.text


def test_the_command_watches_once_and_a_wrong_unit_is_its_no(
    world: World, endpoints: Endpoints, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    tidegate = Command(monkeypatch, capsys)
    for name, factor, status in (("fine", 1.0, 0), ("broken", 0.1, 1)):
        watch = serve(world, endpoints, name, factor)
        where = ("--control", str(endpoints.control), "--reports", watch.reports)
        done = tidegate("monitor", name, *where, "--window", "1d", "--every", "1h", "--once")
        assert done.returncode == status, done.stderr
        assert "report" in done.stdout
        assert (watch.reports / "over-time.json").is_file()
    away = tidegate("monitor", "fine", "--control", "127.0.0.1:1", "--reports", world.root / "away", "--once")
    assert away.returncode == 2


def test_a_watch_that_makes_no_sense_is_refused(world: World) -> None:
    with pytest.raises(InvalidInput, match="more than nothing"):
        Watch("127.0.0.1:1", "m", world.root, every=0.0)
    with pytest.raises(InvalidInput, match="windows_per_alarm 0"):
        Watch("127.0.0.1:1", "m", world.root, windows_per_alarm=0)


@pytest.mark.parametrize(
    ("number", "why"),
    [
        (errno.ENOSPC, "kept, the disk is full: free space there and try again"),
        (errno.EMFILE, "opened, this process or machine has too many files open: raise that limit (ulimit -n)"),
    ],
)
def test_what_the_system_lacks_is_told_with_its_place_and_the_next_window_is_looked_at(
    tmp_path: Path, number: int, why: str
) -> None:
    told: list[str] = []
    stop = threading.Event()

    def full() -> datetime:
        raise OSError(number, os.strerror(number), str(tmp_path / "skew.json"))

    def hear(error: TidegateError) -> None:
        told.append(error.message)
        if len(told) == 2:
            stop.set()

    monitor(Watch("127.0.0.1:1", "flights", tmp_path, every=0.001), lambda _: None, stop, full, hear)
    assert told == [f"{tmp_path}/skew.json cannot be {why}"] * 2


def test_a_fault_in_one_window_s_report_is_told_and_the_next_is_looked_at(tmp_path: Path) -> None:
    told: list[str] = []
    stop = threading.Event()

    def broken_clock() -> datetime:
        raise ValueError(f"fault {len(told)}")

    def hear(error: TidegateError) -> None:
        told.append(error.message)
        if len(told) == 2:
            stop.set()

    monitor(Watch("127.0.0.1:1", "flights", tmp_path, every=0.001), lambda _: None, stop, broken_clock, hear)
    assert [one.partition(":")[0] for one in told] == ["no report on this window of flights (ValueError"] * 2
