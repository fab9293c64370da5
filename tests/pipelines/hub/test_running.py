"""Releases that run beside a hub: real workers, a real engine, and workers that are killed on the way."""

from __future__ import annotations

import gc
import os
import pickle
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from sqlalchemy import select
from sqlalchemy.orm import Session
from tests.support.eventually import eventually
from tests.support.release.world import CRASHES, HONEST, Endpoints, World, available, serve_first, traffic

from tidegate_operators.steps import CanaryRule
from tidegate_pipelines.hub.config import EngineConfig, HubConfig, ReleaseConfig, RunConfig
from tidegate_pipelines.hub.releases.claims import claim_next
from tidegate_pipelines.hub.releases.clearance import Clearance, Wait, nothing_to_wait_for
from tidegate_pipelines.hub.releases.record import Record
from tidegate_pipelines.hub.releases.requests import Request, let_go_on, request_release
from tidegate_pipelines.hub.releases.stages import run_release
from tidegate_pipelines.hub.releases.supervisor import Supervisor
from tidegate_pipelines.hub.store import (
    FINAL,
    Database,
    ReleaseEventRow,
    ReleaseRow,
    ReleaseState,
    VerdictRow,
)
from tidegate_pipelines.hub.worker import _import_all

SECONDS = 120.0


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """SQLite: what differs on PostgreSQL is tested with the claims."""
    return f"sqlite:///{tmp_path}/hub.db"


def config_for(world: World, endpoints: Endpoints, database: Database, **changes: object) -> HubConfig:
    settings: dict[str, object] = {
        "held_out": str(world.held_out),
        "private_key": world.private_key,
        "repository": world.repository,
        "policy": str(world.policy("quality")),
        "canary": False,
        **changes,
    }
    return HubConfig(
        database=str(database.url),
        engines={"one": EngineConfig(control=endpoints.control)},
        releases=ReleaseConfig(**settings),  # type: ignore[arg-type]
        run=RunConfig(lease_seconds=10.0),
    )


def ask(database: Database, model: str, version: int) -> int:
    with database.writing() as session:
        return request_release(database, session, Request(model, version, "api", "anna")).id


def the(database: Database, release_id: int) -> ReleaseRow:
    with database.reading() as session:
        return session.scalars(select(ReleaseRow).where(ReleaseRow.id == release_id)).one()


def over(database: Database, release_id: int) -> ReleaseRow:
    eventually(lambda: the(database, release_id).state in FINAL, SECONDS)
    return the(database, release_id)


def stages(database: Database, release_id: int) -> list[str]:
    query = select(ReleaseEventRow).where(ReleaseEventRow.release_id == release_id, ReleaseEventRow.kind == "stage")
    with database.reading() as session:
        return [one.text for one in session.scalars(query.order_by(ReleaseEventRow.id)).all()]


@contextmanager
def supervisor(config: HubConfig, database: Database) -> Iterator[Supervisor]:
    running = Supervisor(config, database, "hub")
    running.start()
    try:
        yield running
    finally:
        running.stop()


def here(config: HubConfig, database: Database, clearance: Clearance = nothing_to_wait_for) -> None:
    """Runs the next release in this process."""
    claim = claim_next(database, "here", config.run)
    assert claim is not None
    run_release(Record(database, claim, threading.Event(), clearance), config)


def test_a_release_runs_to_its_end_and_leaves_its_verdict_and_history(
    world: World, endpoints: Endpoints, database: Database
) -> None:
    world.publish(1, name="whole")
    with supervisor(config_for(world, endpoints, database), database):
        release = over(database, ask(database, "whole", 1))
    assert (release.state, release.attempts) == (ReleaseState.RELEASED, 1), release.sentence
    assert stages(database, release.id) == ["fetch", "validate", "push", "promote"]
    assert available(endpoints, "whole") == [1]
    with database.reading() as session:
        verdict = session.scalars(select(VerdictRow)).one()
    assert (verdict.model, verdict.version, verdict.allowed) == ("whole", 1, True)
    assert (Path(verdict.report) / "index.html").is_file()
    assert verdict.document["manifest_digest"] == release.digest
    assert verdict.sentence == release.sentence


def test_what_a_gate_refuses_is_refused_with_its_sentence_and_never_pushed(
    world: World, endpoints: Endpoints, database: Database
) -> None:
    serve_first(endpoints, world, "crashing")
    world.publish(2, CRASHES, name="crashing")
    config = config_for(world, endpoints, database, policy=str(world.policy("quality", "robustness")))
    release = ask(database, "crashing", 2)
    here(config, database)
    refused = the(database, release)
    assert refused.state is ReleaseState.REFUSED
    assert "refused by the robustness gate" in refused.sentence
    assert stages(database, release) == ["fetch", "validate"]
    assert available(endpoints, "crashing") == [1]


def test_a_worker_that_is_killed_is_followed_by_one_that_goes_on_where_it_stopped(
    world: World, endpoints: Endpoints, database: Database
) -> None:
    serve_first(endpoints, world, "killed")
    world.publish(2, HONEST, name="killed")
    rule = CanaryRule(pairs=20, within_seconds=60.0)
    config = config_for(world, endpoints, database, canary=True, rule=rule)
    with supervisor(config, database) as running:
        release = ask(database, "killed", 2)
        eventually(lambda: the(database, release).stage == "canary", SECONDS)
        (pid,) = running.pids()
        os.kill(pid, signal.SIGKILL)
        eventually(lambda: the(database, release).attempts == 2, SECONDS)
        with traffic(endpoints.grpc, "killed"):
            found = over(database, release)
    assert found.state is ReleaseState.RELEASED, found.sentence
    assert stages(database, release) == ["fetch", "validate", "push", "canary", "push", "canary", "promote"]
    assert available(endpoints, "killed") == [2]


def test_a_hub_that_stops_gives_its_releases_back_and_the_next_one_finishes_them(
    world: World, endpoints: Endpoints, database: Database
) -> None:
    serve_first(endpoints, world, "handed")
    world.publish(2, HONEST, name="handed")
    rule = CanaryRule(pairs=20, within_seconds=60.0)
    config = config_for(world, endpoints, database, canary=True, rule=rule)
    with supervisor(config, database):
        release = ask(database, "handed", 2)
        eventually(lambda: the(database, release).stage == "canary", SECONDS)
    assert the(database, release).state is ReleaseState.RUNNING
    with supervisor(config, database), traffic(endpoints.grpc, "handed"):
        assert over(database, release).state is ReleaseState.RELEASED
    assert available(endpoints, "handed") == [2]


def test_a_release_waits_for_whoever_has_to_be_asked_and_is_judged_once(
    world: World, endpoints: Endpoints, database: Database
) -> None:
    world.publish(1, name="asked")
    config = config_for(world, endpoints, database)
    asked = ask(database, "asked", 1)

    def wait(session: Session, release: ReleaseRow) -> Wait | None:
        return Wait("anna or bert has to approve it")

    here(config, database, wait)
    waiting = the(database, asked)
    assert (waiting.state, waiting.sentence) == (ReleaseState.WAITING, "anna or bert has to approve it")
    assert available(endpoints, "asked") == []
    with database.writing() as session:
        let_go_on(database, session, asked, because="anna approved it")
    here(config, database)
    assert the(database, asked).state is ReleaseState.RELEASED
    assert stages(database, asked) == ["fetch", "validate", "push", "promote"]


def test_an_engine_that_is_away_puts_the_release_off_and_nothing_is_lost(
    world: World, endpoints: Endpoints, database: Database
) -> None:
    world.publish(1, name="later")
    config = config_for(world, endpoints, database)
    away = HubConfig(
        database=config.database,
        engines={"one": EngineConfig(control="127.0.0.1:1")},
        releases=config.releases,
        run=config.run,
    )
    release = ask(database, "later", 1)
    here(away, database)
    put_off = the(database, release)
    assert (put_off.state, put_off.delays) == (ReleaseState.REQUESTED, 1)
    assert "127.0.0.1:1" in put_off.sentence
    assert put_off.not_before is not None
    with supervisor(config, database):
        assert over(database, release).state is ReleaseState.RELEASED


@pytest.mark.parametrize(
    ("model", "changes", "said"),
    [
        ("unknown", {}, "unknown/1 is missing and the hub has no registry"),
        ("no-data", {"held_out": ""}, "held_out"),
        ("no-key", {"private_key": Path("none.key")}, "none.key is missing"),
    ],
)
def test_what_cannot_be_done_fails_with_a_sentence_that_says_what_to_mend(
    world: World, endpoints: Endpoints, database: Database, model: str, changes: dict[str, object], said: str
) -> None:
    if model != "unknown":
        world.publish(1, name=model)
    release = ask(database, model, 1)
    here(config_for(world, endpoints, database, **changes), database)
    failed = the(database, release)
    assert failed.state is ReleaseState.FAILED
    assert said in failed.sentence


def test_a_worker_that_has_imported_all_looks_for_garbage_again_and_not_in_that() -> None:
    gc.collect()  # what earlier tests have left would be frozen too, and never told
    frozen = gc.get_freeze_count()
    _import_all(HubConfig())
    assert gc.isenabled()
    assert gc.get_freeze_count() > frozen


@pytest.mark.parametrize("told", [b"", pickle.dumps(HubConfig())], ids=["before it is set up", "before it is ready"])
def test_a_worker_whose_hub_is_gone_ends_without_a_fault(told: bytes) -> None:
    reader, writer = os.pipe()
    os.close(reader)
    command = [sys.executable, "-m", "tidegate_pipelines.hub.worker"]
    done = subprocess.run(command, input=told, stdout=writer, stderr=subprocess.PIPE, timeout=120, check=False)
    os.close(writer)
    assert (done.returncode, done.stderr) == (0, b"")


def test_a_worker_that_cannot_import_what_it_needs_says_why() -> None:
    """As where a compiled module was cut short on a full disk: Python's own error is the one of a hub that is gone."""
    program = """
from tidegate_pipelines.hub import worker
def cut_short(_):
    raise EOFError("marshal data too short")
worker._import_all = cut_short
worker.main()
"""
    told = pickle.dumps(HubConfig())
    done = subprocess.run([sys.executable, "-c", program], input=told, capture_output=True, timeout=120, check=False)
    assert (done.returncode, done.stdout) == (1, b"")
    assert b"EOFError: marshal data too short" in done.stderr
