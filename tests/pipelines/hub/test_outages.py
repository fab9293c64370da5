"""What is away comes back without a hand and nothing is lost: an engine, the registry, the database, and a hub of which
nothing is left but a backup of its database. Pages say since when.
"""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
from sqlalchemy import select
from starlette.testclient import TestClient
from tests.support.eventually import eventually
from tests.support.neighbours.played_registry import PlayedRegistry, played_registry
from tests.support.neighbours.postgresql import postgresql
from tests.support.release.world import Endpoints, World, available

from tidegate_pipelines.hub.callers import LOCAL
from tidegate_pipelines.hub.config import EngineConfig, HubConfig, MlflowConfig, ReleaseConfig, RunConfig
from tidegate_pipelines.hub.engines.record import note_away, note_status
from tidegate_pipelines.hub.engines.watch import EngineWatch
from tidegate_pipelines.hub.pages import queries
from tidegate_pipelines.hub.pages.render import page
from tidegate_pipelines.hub.pages.viewer import Viewer
from tidegate_pipelines.hub.registry.mlflow_rest import MlflowRegistry
from tidegate_pipelines.hub.registry.reconcile import Reconciler
from tidegate_pipelines.hub.registry.watch import RegistryWatch
from tidegate_pipelines.hub.releases.claims import claim_next
from tidegate_pipelines.hub.releases.record import Record
from tidegate_pipelines.hub.releases.requests import Request, request_release
from tidegate_pipelines.hub.releases.stages import run_release
from tidegate_pipelines.hub.service import Service
from tidegate_pipelines.hub.store import Database, RegistryRow, ReleaseEventRow, ReleaseRow, ReleaseState, TrafficRow
from tidegate_serving.contract.desired_state import DesiredState
from tidegate_serving.contract.servable import State
from tidegate_serving.control.status import EngineStatus, ServableStatus, VersionStatus

NOON = datetime(2026, 5, 1, 12, tzinfo=UTC)
VIEWER = Viewer("anna", LOCAL.may_on, LOCAL.may_on_all)
AWAY = "engine at 10.0.0.1:8502 does not answer"


class Clock:
    """The database's, set by hand."""

    def __init__(self) -> None:
        self.now = NOON


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    found = Clock()
    monkeypatch.setattr(Database, "now", lambda database, session: found.now)
    return found


def heard(database: Database, clock: Clock, minutes: int, answers: int) -> None:
    """The engine answers, so long after noon, that it has answered so many requests so far."""
    clock.now = NOON + timedelta(minutes=minutes)
    version = VersionStatus(version=2, state=State.AVAILABLE, since_us=int(NOON.timestamp() * 1e6))
    servable = ServableStatus("flights", DesiredState("flights"), "rpc", (version,), ordinary=2)
    counters = {'tidegate_requests_total{endpoint="grpc",model="flights",version="2",status="OK"}': float(answers)}
    status = EngineStatus((servable,), "10.0.0.1:8500", "", counters=counters)
    note_status(database, "north", "10.0.0.1:8502", status, clock.now)


def silent(database: Database, clock: Clock, minutes: int) -> None:
    clock.now = NOON + timedelta(minutes=minutes)
    note_away(database, "north", "10.0.0.1:8502", AWAY)


def shown(database: Database, clock: Clock) -> tuple[str, str, str]:
    """The state of the model, and the pages of engines and of what needs a person now."""
    with database.reading() as session:
        (line,) = queries.fleet(session, VIEWER, queries.FleetQuestion(), clock.now).lines
        engines = queries.engines(session, VIEWER)
        now = queries.now_page(session, VIEWER, clock.now)
    first = page("now.html.jinja", VIEWER, clock.now, view=now, address="")
    return line.state, bytes(page("engines.html.jinja", VIEWER, clock.now, view=engines).body).decode(), str(first.body)


def test_an_engine_is_away_for_an_hour(database: Database, clock: Clock) -> None:
    heard(database, clock, 0, 10)
    heard(database, clock, 5, 30)
    assert shown(database, clock)[0] == "SERVING"
    for minutes in (10, 11, 40, 70):
        silent(database, clock, minutes)
        state, engines, now = shown(database, clock)
        assert state == "AWAY"
        assert "Has not answered since" in engines
        assert 'datetime="2026-05-01T12:10:00' in engines, "since it was first silent, not since it was asked last"
        assert AWAY in engines
        assert "2026-05-01T12:10:00" in now
    heard(database, clock, 71, 45)
    state, engines, _ = shown(database, clock)
    assert (state, "Has not answered" in engines, AWAY in engines) == ("SERVING", False, False)
    assert 'datetime="2026-05-01T13:11:00' in engines
    with database.reading() as session:
        rows = session.execute(select(TrafficRow.hour, TrafficRow.requests).order_by(TrafficRow.hour)).all()
    assert [(hour.hour, requests) for hour, requests in rows] == [(12, 20), (13, 15)]


def asked_for(database: Database) -> list[tuple[str, int]]:
    """The releases that were asked for, in their order."""
    with database.reading() as session:
        found = session.execute(select(ReleaseRow.model, ReleaseRow.version).order_by(ReleaseRow.id))
        return [(model, version) for model, version in found]


def registry_states(database: Database) -> list[str]:
    with database.reading() as session:
        return [row.state for row in session.scalars(select(RegistryRow))]


def the_registry(database: Database) -> tuple[str, datetime, str]:
    with database.reading() as session:
        row = session.scalars(select(RegistryRow)).one()
    return row.state, row.since, row.problem


@contextmanager
def watched(database: Database, registry: PlayedRegistry) -> Iterator[None]:
    mlflow = MlflowConfig(address=registry.address, poll_seconds=0.1, timeout_seconds=1.5)
    watch = RegistryWatch(HubConfig(mlflow=mlflow), database, lambda: None)
    watch.start()
    try:
        yield
    finally:
        watch.stop()


@pytest.mark.parametrize(
    ("how", "problem"), [("faulty", "registered-models/search with 500"), ("slow", "does not answer (ReadTimeout")]
)
def test_a_registry_is_away_for_a_while(database: Database, how: str, problem: str) -> None:
    with played_registry() as registry, watched(database, registry):
        registry.wanted["flights"] = 1
        eventually(lambda: asked_for(database) == [("flights", 1)])
        eventually(lambda: registry_states(database) == ["UP"])
        getattr(registry, how).set()
        eventually(lambda: the_registry(database)[0] == "AWAY")
        _, since, said = the_registry(database)
        registry.wanted["flights"] = 2
        assert problem in said
        with database.reading() as session:
            view = queries.engines(session, VIEWER)
        text = bytes(page("engines.html.jinja", VIEWER, since, view=view).body).decode()
        assert "Has not answered since" in text
        assert f'datetime="{since.isoformat(timespec="seconds")[:19]}' in text
        assert asked_for(database) == [("flights", 1)]
        registry.recover()
        eventually(lambda: asked_for(database) == [("flights", 1), ("flights", 2)])
        eventually(lambda: the_registry(database)[0] == "UP")
        assert the_registry(database)[1] > since


def test_a_model_that_the_registry_lets_nobody_write_about_holds_up_no_other(database: Database) -> None:
    """However many such models there are, and the page says which."""

    def told() -> list[str]:
        with database.reading() as session:
            found = select(ReleaseRow.model).where(ReleaseRow.told_state == ReleaseRow.state).order_by(ReleaseRow.model)
            return list(session.scalars(found))

    with played_registry() as registry:
        registry.closed = {f"closed{number}" for number in range(3)}
        registry.wanted = dict.fromkeys((*sorted(registry.closed), "open"), 1)
        with watched(database, registry):
            eventually(lambda: told() == ["open"])
            eventually(lambda: the_registry(database)[2].count("nothing is told of closed") == 3)
            with database.reading() as session:
                view = queries.engines(session, VIEWER)
            text = bytes(page("engines.html.jinja", VIEWER, NOON, view=view).body).decode()
            assert "nothing is told of" in text.partition("It is not told everything")[2]
            registry.closed = set()
            eventually(lambda: len(told()) == 4)
            eventually(lambda: the_registry(database)[::2] == ("UP", ""))


def test_the_database_is_away_for_a_while(tmp_path: Path) -> None:
    with postgresql() as server, played_registry() as registry:
        registry.wanted["flights"] = 1
        config = HubConfig(
            directory=tmp_path,
            database=server.url,
            watch_seconds=0.2,
            engines={"one": EngineConfig(control="127.0.0.1:1")},
            mlflow=MlflowConfig(address=registry.address, poll_seconds=0.2),
        )
        service = Service(config)
        service.prepare()
        with TestClient(service.app, "http://127.0.0.1:8600") as client:
            eventually(lambda: asked_for(service.database) == [("flights", 1)])
            eventually(lambda: [one["state"] for one in client.get("/api/v1/engines").json()] == ["AWAY"])
            (before,) = client.get("/api/v1/engines").json()
            server.stop()
            registry.wanted["flights"] = 2
            said = client.get("/api/v1/releases")
            assert said.status_code == 503
            since = re.search(r"has not answered since (\S+ \S+ UTC)", said.json()["error"]["message"])
            assert since is not None
            refused = client.post("/api/v1/releases", json={"model": "flights", "version": 3})
            assert refused.status_code == 503
            first = client.get("/", headers={"accept": "text/html"})
            assert (first.status_code, since[0] in first.text) == (503, True), "it is the same moment all the time"
            server.start()
            eventually(lambda: asked_for(service.database) == [("flights", 1), ("flights", 2)])
            (after,) = client.get("/api/v1/engines").json()
            assert (after["state"], after["since"]) == ("AWAY", before["since"])
            assert client.get("/", headers={"accept": "text/html"}).status_code == 200


def run_next(database: Database, config: HubConfig) -> None:
    """Runs the next release in this process."""
    claim = claim_next(database, "here", config.run)
    assert claim is not None
    run_release(Record(database, claim, threading.Event()), config)


def history(database: Database, release: int) -> tuple[ReleaseState, str, list[tuple[str, str, datetime]]]:
    """State, sentence and events of a release."""
    query = select(ReleaseEventRow).where(ReleaseEventRow.release_id == release).order_by(ReleaseEventRow.id)
    with database.reading() as session:
        row = session.get_one(ReleaseRow, release)
        return row.state, row.sentence, [(one.kind, one.text, one.at) for one in session.scalars(query)]


def test_a_backup_of_the_database_alone_is_a_hub(world: World, endpoints: Endpoints, tmp_path: Path) -> None:
    for version in (1, 2):
        world.publish(version, name="kept")
    config = HubConfig(
        directory=tmp_path / "lost",
        engines={"one": EngineConfig(control=endpoints.control)},
        releases=ReleaseConfig(
            held_out=str(world.held_out),
            private_key=world.private_key,
            repository=world.repository,
            policy=str(world.policy("quality")),
            canary=False,
        ),
        run=RunConfig(lease_seconds=60.0),
    )

    def release(version: int) -> None:
        lost = Database(f"sqlite:///{tmp_path}/lost.db")
        lost.migrate()
        with lost.writing() as session:
            request_release(lost, session, Request("kept", version, "api", "anna"))
        run_next(lost, config)
        lost.close()

    release(1)
    shutil.copy(tmp_path / "lost.db", tmp_path / "backup.db")
    release(2)
    (tmp_path / "lost.db").rename(tmp_path / "before.db")
    restored, before = Database(f"sqlite:///{tmp_path}/backup.db"), Database(f"sqlite:///{tmp_path}/before.db")
    with played_registry() as registry:
        registry.wanted["kept"] = 2
        mlflow = MlflowConfig(address=registry.address)
        assert Reconciler(HubConfig(mlflow=mlflow), restored, MlflowRegistry(mlflow)).all() == 1
    run_next(restored, config)
    EngineWatch(config, restored).look()
    assert history(restored, 1) == history(before, 1)
    assert history(before, 2)[0] is ReleaseState.RELEASED
    state, sentence, events = history(restored, 2)
    assert (state, sentence) == (ReleaseState.RELEASED, "kept:2 serves already, so nothing had to be done")
    assert [text for kind, text, _ in events if kind == "stage"] == []
    assert available(endpoints, "kept") == [2]
    with restored.reading() as session:
        assert queries.model(session, VIEWER, "kept", 30, datetime.now(UTC)).serving
        assert [one.state for one in queries.engines(session, VIEWER).engines] == ["UP"]
    restored.close()
    before.close()
