"""Canaries judged by a machine that has none of the engines' logs: these give out their part over the control port."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import pytest
from tests.support.engine.remote import RemoteEngine
from tests.support.eventually import eventually
from tests.support.log_blocks import ARRIVED, FakeBlock, write_log
from tests.support.release.world import BETTER, RAISES, World, make_world, traffic

from tidegate_operators.steps import CanaryRule, canary, promote, push
from tidegate_operators.steps.log_copy import LogCopy, is_logged_here
from tidegate_serving.admission import Outcome
from tidegate_serving.connection import EngineConnection
from tidegate_serving.contract.errors import FailedPrecondition, InvalidInput, PermissionRefused
from tidegate_serving.inference_log.reader import connect, logged_until
from tidegate_validation.canary.rule import CanaryMode

NAME = "far"
SHADOW = CanaryRule(pairs=30, within_seconds=60.0, max_slow_share=0.9)
TRAFFIC = replace(
    SHADOW,
    mode=CanaryMode.TRAFFIC,
    shares=(0.4, 1.0),
    step_rows=20,
    step_seconds=0.0,
    max_error_share=0.1,
    max_slowdown=9.0,
    slowdown_grace_us=50_000.0,
)


@dataclass(frozen=True)
class Far:
    world: World
    engines: list[RemoteEngine]

    def connection(self, role: str = "release") -> EngineConnection:
        """All of them, by the token that each knows."""
        return self.engines[0].connection(role)

    def log(self, number: int = 0) -> Path:
        return self.world.root / f"log-{number}"

    def push(self, version: int, source: str = BETTER) -> None:
        push(directory=self.world.admitted(version, source, name=NAME), control=self.connection())


@pytest.fixture
def far(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Far]:
    """The engine's log looks as it does where it is not mounted."""
    monkeypatch.setattr("tidegate_operators.steps.canary_group.is_logged_here", lambda root, servable: False)
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    monkeypatch.setattr("tempfile.tempdir", None)
    (tmp_path / "world").mkdir()
    world = make_world(tmp_path / "world")
    engine = RemoteEngine(
        tmp_path / "engine", roots=[world.repository], trusted_keys=[world.public_key], log_path=world.root / "log-0"
    )
    with engine.process:
        one = Far(world, [engine])
        one.push(1)
        promote(control=one.connection(), servable=NAME, version=1)
        yield one


@pytest.mark.parametrize("rule", [SHADOW, TRAFFIC], ids=["shadow", "traffic"])
def test_what_the_engine_gives_out_is_the_evidence(far: Far, tmp_path: Path, rule: CanaryRule) -> None:
    far.push(2)
    with traffic(far.engines[0].process.addresses["grpc"], NAME):
        passed = canary(control=far.connection(), servable=NAME, version=2, rule=rule)
    assert passed.outcome is Outcome.PASS, passed.sentence
    assert passed.numbers.compared >= rule.pairs
    promote(control=far.connection(), servable=NAME, version=2)
    far.push(3, RAISES.replace("> 0.9", "> 0.5"))
    with traffic(far.engines[0].process.addresses["grpc"], NAME) if rule is SHADOW else ExitStack():
        late = replace(rule, within_seconds=20.0 if rule is SHADOW else 3.0)
        refused = canary(control=far.connection(), servable=NAME, version=3, rule=late)
    assert refused.outcome is (Outcome.FAIL if rule is SHADOW else Outcome.INCONCLUSIVE), refused.sentence
    gc.collect()
    assert list(tmp_path.glob("tidegate-log-*")) == [], "what clients sent does not stay behind"


def test_a_copy_has_each_file_once_and_loses_what_the_log_has_lost(far: Far) -> None:
    begun = datetime.now(UTC)
    far.push(2)
    with traffic(far.engines[0].process.addresses["grpc"], NAME) as versions:
        eventually(lambda: is_logged_here(far.log(), NAME))
    asked = len(versions)
    copy, root = LogCopy(NAME, [1, 2], begun), far.log()

    def files(folder: Path) -> set[str]:
        return {str(path.relative_to(folder)) for path in folder.glob("model=*/version=1/date=*/*.parquet")}

    def renewed(engine: str = "a") -> set[str]:
        with far.engines[0].control("release") as client:
            copy.renew(engine, client)
        return files(copy.of(engine))

    def rows(folder: Path) -> int:
        with connect(folder) as log:
            return int(log.execute("SELECT count(*) FROM log WHERE version = 1").fetchone()[0])

    eventually(lambda: rows(root) == asked)
    assert renewed() == files(root) != set()
    assert rows(copy.root) == asked
    assert renewed("b") == set(), "an engine that shares the log of another adds nothing"
    for path in files(root):
        (root / path).unlink()
    assert renewed() == set()
    assert LogCopy(NAME, [1], begun).root.stat().st_mode & 0o077 == 0


def test_the_copy_of_an_engine_at_an_ipv6_address_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    copy = LogCopy(NAME, [1], datetime.now(UTC))
    for engine in ("[::1]:1", "[::1]:2"):
        write_log(copy.of(engine), FakeBlock({"x": np.zeros(2, "f4")}, {"y": np.zeros(2, "f4")}, model=NAME))
        assert logged_until(copy.of(engine), NAME).date() == ARRIVED.date()
    with connect(copy.root) as log:
        assert log.execute("SELECT count(*) FROM log").fetchone() == (4,)


def test_what_a_killed_process_left_behind_goes_with_the_next_copy(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    held = LogCopy(NAME, [1], datetime.now(UTC))
    left, new = tmp_path / "tidegate-log-left", tmp_path / "tidegate-log-new"
    for folder in (left, new):
        (folder / "engine").mkdir(parents=True)
    for folder in (left, held.root):
        os.utime(folder, (1.0, 1.0))
    LogCopy(NAME, [1], datetime.now(UTC))
    gc.collect()
    assert sorted(tmp_path.iterdir()) == sorted([held.root, new])


def test_who_may_only_look_gets_no_log(far: Far, tmp_path: Path) -> None:
    for role in ("look", "flights"):
        with far.engines[0].control(role) as client, pytest.raises(PermissionRefused, match="log"):
            client.copy_log(NAME, [1], tmp_path / "copy")
    with far.engines[0].control("release") as client:
        with pytest.raises(InvalidInput, match=r"servable name '\.\./x' cannot be used"):
            client.copy_log("../x", [1], tmp_path / "copy")
        with pytest.raises(InvalidInput, match="name at least one"):
            client.copy_log(NAME, [], tmp_path / "copy")


def test_an_engine_without_a_log_says_so(tmp_path: Path) -> None:
    engine = RemoteEngine(tmp_path / "engine")
    kept_none = pytest.raises(FailedPrecondition, match="keeps no inference log: start it with a `log_path`")
    with engine.process, engine.control("release") as client, kept_none:
        client.copy_log(NAME, [1], tmp_path / "copy")
