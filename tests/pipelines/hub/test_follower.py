"""Releases that run elsewhere wait for people before their run starts, and keep what its canary found."""

from __future__ import annotations

import threading
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from functools import partial
from http.server import BaseHTTPRequestHandler
from pathlib import Path

import pytest
from sqlalchemy import select, update
from starlette.testclient import TestClient
from tests.support.eventually import eventually
from tests.support.hub.access import make_hub
from tests.support.models.versions import digest_of, publish
from tests.support.neighbours.http_server import http_server

from tidegate_operators.steps.canary import write_result
from tidegate_pipelines.hub.api import api_router
from tidegate_pipelines.hub.api.decisions import decision_routes
from tidegate_pipelines.hub.app import create_app
from tidegate_pipelines.hub.audit import AuditLog
from tidegate_pipelines.hub.callers import LOCAL
from tidegate_pipelines.hub.config import AirflowConfig, HubConfig, MlflowConfig, RunConfig
from tidegate_pipelines.hub.decisions import Approvals, Asked, Decisions
from tidegate_pipelines.hub.people_config import AccessConfig, ApprovalRule
from tidegate_pipelines.hub.registry.mlflow_rest import MlflowRegistry
from tidegate_pipelines.hub.releases import stages
from tidegate_pipelines.hub.releases.airflow_runs import AirflowRuns
from tidegate_pipelines.hub.releases.claims import claim_next
from tidegate_pipelines.hub.releases.follow import Ended, Follower
from tidegate_pipelines.hub.releases.record import Record
from tidegate_pipelines.hub.releases.requests import Request, cancel, let_go_on, request_release
from tidegate_pipelines.hub.releases.stages import put_off
from tidegate_pipelines.hub.store import Database, DecisionRow, ReleaseEventRow, ReleaseRow
from tidegate_serving.admission import Outcome
from tidegate_serving.contract.errors import FailedPrecondition, Refused, TidegateError, Unavailable
from tidegate_validation.canary.judgement import CanaryResult
from tidegate_validation.canary.numbers import CanaryNumbers


class Runs:
    """Runs that end well as soon as they are looked at, and the releases they were started for."""

    def __init__(self) -> None:
        self.started: list[int] = []

    def start(self, release: ReleaseRow) -> str:
        self.started.append(release.id)
        return f"run-{release.id}"

    def ended(self, run: str) -> Ended | None:
        return Ended(True, f"{run} is success")

    def close(self) -> None:
        """Nothing is open."""


def state(database: Database, number: int) -> tuple[str, str]:
    with database.reading() as session:
        row = session.get_one(ReleaseRow, number)
        return row.state.value, row.sentence


def test_a_run_elsewhere_starts_once_somebody_has_approved(database: Database, tmp_path: Path) -> None:
    config = HubConfig(directory=tmp_path, run=RunConfig(lease_seconds=5.0))
    runs, rules = Runs(), (ApprovalRule(("flights*",)),)
    follower = Follower(config, database, "one", runs, lambda row: "", 0.05, Approvals(database, rules))
    with database.writing() as session:
        number = request_release(database, session, Request("flights", 3, "api", "anna")).id
        other = request_release(database, session, Request("prices", 1, "api", "anna")).id
    directory = publish(config.repository, "prices", 1)
    tried = CanaryResult(Outcome.PASS, "prices:1 did well", CanaryNumbers(compared=200, disagreements=2))
    write_result(directory, tried, digest_of(directory))
    follower.start()
    try:
        eventually(lambda: state(database, number)[0] == "WAITING")
        eventually(lambda: state(database, other)[0] == "RELEASED")
        assert (runs.started, "approval" in state(database, number)[1]) == ([other], True)
        with database.writing() as session:
            now = database.now(session)
            said = {"key": "k", "kind": "approve", "model": "flights", "release_id": number, "reason": "looked at it"}
            session.add(DecisionRow(**said, who="ben", at=now))
            let_go_on(database, session, number, because="ben approved it")
        follower.wake()
        eventually(lambda: state(database, number)[0] == "RELEASED")
    finally:
        follower.stop()
    assert runs.started == [other, number]
    with database.reading() as session:
        found = session.scalars(select(ReleaseEventRow).where(ReleaseEventRow.kind == "finding")).all()
        assert [(one.release_id, one.text, one.data["numbers"]["compared"]) for one in found] == [
            (other, "prices:1 did well", 200)
        ]


def test_a_run_that_cannot_be_looked_at_keeps_its_claim_and_holds_up_no_other(
    database: Database, tmp_path: Path
) -> None:
    """Nothing newer of its model runs beside it, and other models' runs are followed as before."""
    runs, looks = Runs(), {"run-1": 0}

    def ended(run: str) -> Ended | None:
        if run != "run-1":
            return Ended(True, f"{run} is success")
        looks[run] += 1
        if looks[run] == 1:
            raise Unavailable("Airflow answers with 503")
        if looks[run] < 4:
            raise ValueError("a fault of ours")
        return Ended(True, f"{run} is success") if looks[run] > 6 else None

    runs.ended = ended  # type: ignore[method-assign]
    with database.writing() as session:
        first = request_release(database, session, Request("flights", 1, "api", "anna")).id
        other = request_release(database, session, Request("prices", 1, "api", "anna")).id
    config = HubConfig(directory=tmp_path, run=RunConfig(lease_seconds=5.0))
    follower = Follower(config, database, "one", runs, lambda row: "", 0.02)
    follower.start()
    try:
        eventually(lambda: looks["run-1"] >= 1)
        with database.writing() as session:
            newer = request_release(database, session, Request("flights", 2, "api", "anna")).id
        eventually(lambda: state(database, other)[0] == "RELEASED")
        eventually(lambda: state(database, newer)[0] == "RELEASED")
    finally:
        follower.stop()
    assert state(database, first) == ("RELEASED", "run-1 is success")
    assert runs.started == [first, other, newer]
    with database.reading() as session:
        notes = session.scalars(select(ReleaseEventRow.text).where(ReleaseEventRow.kind == "note")).all()
    assert notes == ["Airflow answers with 503; the run goes on, and is looked at again"]


def test_a_run_that_can_never_be_asked_about_again_is_ended_by_a_person_and_the_next_release_begins(
    database: Database, tmp_path: Path
) -> None:
    class Gone(Runs):
        def ended(self, run: str) -> Ended | None:
            if run == "run-1":
                raise Unavailable("Airflow answers with 503")
            return Ended(True, f"{run} is success")

    with database.writing() as session:
        first = request_release(database, session, Request("flights", 1, "api", "anna")).id
    follower = Follower(HubConfig(directory=tmp_path), database, "one", Gone(), lambda row: "", 0.02)
    follower.start()
    try:
        eventually(lambda: "503" in state(database, first)[1])
        with database.writing() as session:
            newer = request_release(database, session, Request("flights", 2, "api", "anna")).id
            assert session.get_one(ReleaseRow, first).state.value == "RUNNING"
            cancel(database, session, first, by="ben", reason="Airflow was rebuilt")
        eventually(lambda: state(database, newer)[0] == "RELEASED")
    finally:
        follower.stop()
    said = "ben cancelled it: Airflow was rebuilt. Its run run-1 goes on: stop it where it runs"
    assert (state(database, first)[0], state(database, first)[1].partition(", or")[0]) == ("CANCELLED", said)


@pytest.mark.parametrize(("sign_in", "said"), [(503, "with 503 and no token"), (200, "no JSON")])
def test_an_airflow_or_its_proxy_that_is_out_of_order_is_waited_for(tmp_path: Path, sign_in: int, said: str) -> None:
    class Handler(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(sign_in)
            self.end_headers()
            self.wfile.write(b"<html>sign in</html>")

        def do_POST(self) -> None:
            self.do_GET()

    password = tmp_path / "password"
    password.write_text("gate")
    password.chmod(0o600)
    with http_server(Handler) as address:
        runs = AirflowRuns(AirflowConfig(url=f"http://{address}", user="admin", password_file=password))
        registry = MlflowRegistry(MlflowConfig(address=f"http://{address}"))
        try:
            with pytest.raises(Unavailable, match=said):
                runs.ended("run-1")
            with pytest.raises(Unavailable):
                registry.wanted_of("flights")
        finally:
            runs.close()
            registry.close()


def test_the_patience_with_what_does_not_answer_begins_with_the_first_delay_in_a_row(
    database: Database, tmp_path: Path
) -> None:
    config = HubConfig(directory=tmp_path)
    long_ago = datetime.now(UTC) - timedelta(days=3)
    away = Unavailable("engine 127.0.0.1:8502 does not answer")
    with database.writing() as session:
        row = request_release(database, session, Request("flights", 1, "api", "anna"))
        number, row.requested_at = row.id, long_ago

    def put_off_again() -> str:
        with database.writing() as session:
            session.get_one(ReleaseRow, number).not_before = None
        claim = claim_next(database, "one", config.run)
        assert claim is not None
        put_off(Record(database, claim, threading.Event()), config, away)
        return state(database, number)[0]

    assert [put_off_again(), put_off_again()] == ["REQUESTED", "REQUESTED"]
    with database.writing() as session:
        session.execute(update(ReleaseEventRow).values(at=long_ago))
    assert put_off_again() == "FAILED"


class PlayedEngine:
    """Stands for the steps that talk to an engine: what it is told, in which order, is what counts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, directory: Path) -> None:
        self.done: list[str] = []
        self.during: dict[str, Callable[[], object]] = {}
        monkeypatch.setattr(stages._Steps, "serves_already", lambda steps: "")
        monkeypatch.setattr(stages._Steps, "fetched", lambda steps: directory)
        monkeypatch.setattr(stages._Steps, "judged", lambda steps, directory: ("ab", "it is fine"))
        for name in ("push", "canary", "promote", "take_out"):
            monkeypatch.setattr(stages, name, partial(self._told, name))

    def _told(self, name: str, check: Callable[[], None] = lambda: None, version: int = 0, **_: object) -> CanaryResult:
        self.done.append(name if name != "take_out" else f"take_out {version}")
        self.during.get(name, lambda: None)()
        check()
        return CanaryResult(Outcome.PASS, "it did well", CanaryNumbers(compared=200, disagreements=2))


@pytest.fixture
def engine(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> PlayedEngine:
    return PlayedEngine(monkeypatch, tmp_path)


def run_next(database: Database, config: HubConfig) -> str:
    claim = claim_next(database, "one", config.run)
    assert claim is not None
    stages.run_release(Record(database, claim, threading.Event(), Approvals(database, ())), config)
    return state(database, claim.release_id)[0]


@pytest.mark.parametrize(
    ("frozen", "before", "after"),
    [
        ("during", ["push", "canary", "take_out 1"], ["push", "canary", "promote"]),
        ("after", ["push", "canary", "take_out 1"], ["push", "promote"]),
    ],
)
def test_a_freeze_that_begins_during_the_canary_takes_the_version_out_until_it_is_over(
    database: Database,
    tmp_path: Path,
    engine: PlayedEngine,
    monkeypatch: pytest.MonkeyPatch,
    frozen: str,
    before: list[str],
    after: list[str],
) -> None:
    config = HubConfig(directory=tmp_path)
    decisions = Decisions(database, config, AuditLog(database))
    incident = Asked("freeze", "incident", "f", model="*", until=datetime.now(UTC) + timedelta(days=3))
    freeze = partial(decisions.decide, LOCAL, incident)
    if frozen == "during":
        engine.during["canary"] = freeze
    else:
        monkeypatch.setattr(stages, "require_passed", lambda result: freeze())
    with database.writing() as session:
        request_release(database, session, Request("flights", 1, "api", "anna"))
    assert (run_next(database, config), engine.done) == ("WAITING", before)
    engine.done.clear()
    engine.during.clear()
    monkeypatch.setattr(stages, "require_passed", lambda result: result)
    decisions.decide(LOCAL, Asked("unfreeze", "over", "u", model="*"))
    assert (run_next(database, config), engine.done) == ("RELEASED", after)


def test_a_release_that_fails_after_its_canary_leaves_nothing_in_the_engine(
    database: Database, tmp_path: Path, engine: PlayedEngine
) -> None:
    """Where the engine does not let go of it, the release says so."""
    config = HubConfig(directory=tmp_path, run=RunConfig(patience_seconds=0.0))

    def fail(error: TidegateError) -> None:
        raise error

    def ends() -> tuple[str, str]:
        engine.done.clear()
        with database.writing() as session:
            number = request_release(database, session, Request("flights", 1, "api", "anna")).id
        while run_next(database, config) == "REQUESTED":
            with database.writing() as session:
                session.get_one(ReleaseRow, number).not_before = None
        return state(database, number)

    engine.during["promote"] = partial(fail, FailedPrecondition("flights:1 is blocked"))
    assert (ends(), engine.done[-2:]) == (("FAILED", "flights:1 is blocked"), ["promote", "take_out 1"])
    away = Unavailable("engine 127.0.0.1:8502 does not answer")
    away = Unavailable("engine 127.0.0.1:8502 does not answer")
    engine.during = dict.fromkeys(("promote", "take_out"), partial(fail, away))
    said = f"{away.message}; it was tried 2 times. flights:1 may still be in an engine: {away.message}"
    assert ends() == ("FAILED", said)


@pytest.mark.parametrize("way", ["/releases/{}/cancel", "/decisions/cancel"])
def test_a_release_that_was_put_off_and_gave_way_or_was_cancelled_leaves_its_version_to_nobody(
    database: Database, tmp_path: Path, engine: PlayedEngine, way: str
) -> None:
    config = HubConfig(directory=tmp_path)
    away = Unavailable("engine 127.0.0.1:8502 does not answer")

    def fail() -> None:
        raise away

    def ask(version: int) -> int:
        with database.writing() as session:
            return request_release(database, session, Request("flights", version, "api", "anna")).id

    engine.during["promote"] = fail
    put = ask(1)
    assert run_next(database, config) == "REQUESTED"
    put, before = ask(2), put
    assert (state(database, before)[0], run_next(database, config)) == ("SUPERSEDED", "REQUESTED")
    assert engine.done[-4:] == ["take_out 1", "push", "canary", "promote"]
    hub, access, audit = make_hub(database, AccessConfig())
    routers = [api_router, lambda hub: decision_routes(hub, access, audit, Decisions(database, config, audit))]
    client = TestClient(create_app(hub, routers, access=access), "http://127.0.0.1:8600")
    engine.during["take_out"] = fail
    asked = {"reason": "not now"} | ({"release_id": put} if "decisions" in way else {})
    assert client.post(f"/api/v1{way.format(put)}", json=asked).status_code == 200
    answer = client.get(f"/api/v1/releases/{put}").json()
    assert (answer["state"], engine.done[-1]) == ("CANCELLED", "take_out 2")
    assert answer["sentence"].endswith(f": not now. flights:2 may still be in an engine: {away.message}")


def test_a_release_that_waits_or_is_refused_takes_out_what_gave_way_to_it(
    database: Database, tmp_path: Path, engine: PlayedEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where the engine does not let go of it, one that is refused says so, and one that waits does so all the same."""
    config, away = HubConfig(directory=tmp_path), Unavailable("engine 127.0.0.1:8502 does not answer")
    decisions = Decisions(database, config, AuditLog(database))

    def fail(error: TidegateError) -> None:
        raise error

    def ends(version: int) -> tuple[str, list[str], str]:
        engine.done.clear()
        with database.writing() as session:
            number = request_release(database, session, Request("flights", version, "api", "anna")).id
        return run_next(database, config), engine.done, state(database, number)[1]

    engine.during["canary"] = partial(fail, away)
    assert ends(1)[:2] == ("REQUESTED", ["push", "canary"])
    decisions.decide(LOCAL, Asked("freeze", "x", "f", model="*", until=datetime.now(UTC) + timedelta(days=3)))
    engine.during["take_out"] = partial(fail, away)
    assert ends(2)[:2] == ("WAITING", ["take_out 1"])
    del engine.during["take_out"]
    assert ends(3)[:2] == ("WAITING", ["take_out 1"])
    monkeypatch.setattr(stages._Steps, "judged", lambda steps, directory: fail(Refused("worse than flights:0")))
    assert ends(4) == ("REFUSED", ["take_out 1"], "worse than flights:0")
    engine.during["take_out"] = partial(fail, away)
    refused = ends(5)
    assert refused[:2] == ("REFUSED", ["take_out 1"])
    assert refused[2].endswith(f" before may still be in an engine: {away.message}")
