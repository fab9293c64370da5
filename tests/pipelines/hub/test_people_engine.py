"""Decisions that a real engine carries out, and what it did and refused by itself, in the hub's audit log."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.support.command import Command
from tests.support.engine.control import push_and_wait
from tests.support.engine.process import EngineProcess
from tests.support.models.versions import publish

from tidegate_pipelines.hub.audit import AuditLog, ExportStore, Outcome, verify_database, verify_export
from tidegate_pipelines.hub.audit.engines import fetch
from tidegate_pipelines.hub.audit.keeper import ASKED_BY_HUB, AuditKeeper
from tidegate_pipelines.hub.callers import LOCAL
from tidegate_pipelines.hub.config import EngineConfig, HubConfig
from tidegate_pipelines.hub.decisions import Asked, Decisions
from tidegate_pipelines.hub.decisions.engine_actions import ENGINE_ACTIONS
from tidegate_pipelines.hub.people_config import AuditConfig
from tidegate_pipelines.hub.store import Database
from tidegate_serving.contract.errors import FailedPrecondition, NotFound, Unavailable
from tidegate_serving.control_client import ControlClient


@pytest.fixture
def engine(tmp_path: Path) -> Iterator[str]:
    """An engine in which m:2 serves and m:1 did before; its control address."""
    root = tmp_path / "models"
    versions = [publish(root, "m", number) for number in (1, 2)]
    with EngineProcess(
        tmp_path / "engine", roots=[root], allow_unverified=True, state_directory=tmp_path / "state"
    ) as found:
        control = str(found.addresses["control"])
        with ControlClient(control) as client:
            push_and_wait(client, versions[0], labels={"stable": 1})
            push_and_wait(client, *versions, labels={"stable": 2})
        yield control


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """SQLite: what differs on PostgreSQL is tested with the claims."""
    return f"sqlite:///{tmp_path}/hub.db"


def stable(control: str) -> int | None:
    with ControlClient(control) as client:
        return client.desired("m").stable


def test_what_is_decided_here_and_there_is_in_one_log(engine: str, database: Database, tmp_path: Path) -> None:
    config = HubConfig(engines={"one": EngineConfig(control=engine)})
    log = AuditLog(database)
    decisions = Decisions(database, config, log)
    kept = AuditConfig(export=str(tmp_path / "copy"), keep_days=1.0)
    keeper = AuditKeeper(database, log, kept, config.connections)

    back = Asked("rollback", "late answers", "r1", model="m")
    made = decisions.decide(LOCAL, back)
    assert stable(engine) == 1
    assert decisions.decide(LOCAL, back) == made
    decisions.decide(LOCAL, Asked("block", "wrong units", "b1", model="m", version=2))
    with pytest.raises(NotFound):
        decisions.decide(LOCAL, Asked("rollback", "further", "r2", model="m", version=9))
    assert [one.kind for one in decisions.made(LOCAL)] == ["block", "rollback"]
    with ControlClient(engine) as client:
        assert [entry.requested_by for entry in client.journal(servable="m") if entry.action == "block"] == [
            "hub: local"
        ]
        client.override("freeze", "m", requested_by="anna", reason="the holidays")
        with pytest.raises(FailedPrecondition):
            client.pin("m", 2, requested_by="ben", reason="it is blocked")

    keeper.look()
    assert fetch(database, log, config.connections()["one"], ASKED_BY_HUB) == 0
    keeper.look()

    acts = [line.act for line in log.lines()]
    hub = [(act.action, act.thing) for act in acts if not act.engine]
    assert hub == [("rollback", "model m"), ("block", "model m:2")]
    theirs = [(act.who, act.action, act.outcome) for act in acts if act.engine == engine and act.who in ("anna", "ben")]
    assert theirs == [("anna", "freeze", Outcome.DONE), ("ben", "pin", Outcome.REFUSED)]
    assert not any(act.who.startswith("hub: ") and act.outcome is Outcome.DONE for act in acts)
    assert verify_database(log).whole
    assert verify_export(ExportStore(str(tmp_path / "copy")), log).whole
    assert log.exported() == log.head()[0]


def test_behind_access_control_a_rollback_sent_again_is_one_and_in_the_log_once(
    tmp_path: Path, database: Database, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The engine knows the hub by its token, and whoever decided by what the hub says."""
    tidegate = Command(monkeypatch, capsys)
    root, access, tokens = tmp_path / "models", tmp_path / "access.toml", {}
    versions = [publish(root, "m", number) for number in (1, 2, 3)]
    for name in ("hub", "ben"):
        tokens[name] = tmp_path / f"{name}.token"
        new = ("token", "new", name, "--role", "operate", "--file", access, "--token-file", tokens[name])
        assert tidegate(*new).returncode == 0
    with EngineProcess(
        tmp_path / "engine",
        roots=[root],
        allow_unverified=True,
        state_directory=tmp_path / "state",
        control_access=access,
    ) as found:
        control = str(found.addresses["control"])
        config = HubConfig(engines={"one": EngineConfig(control=control, token_file=tokens["hub"])})
        engine, log = config.connections()["one"], AuditLog(database)
        with ControlClient(engine) as client:
            for number in (1, 2, 3):
                push_and_wait(client, *versions[:number], labels={"stable": number})
        decisions, back = Decisions(database, config, log), Asked("rollback", "late answers", "r1", model="m")
        real = ENGINE_ACTIONS["rollback"]

        def lost(config: HubConfig, who: str, asked: Asked) -> str:
            real(config, who, asked)
            raise Unavailable("the connection broke before the answer came")

        with monkeypatch.context() as patch:
            patch.setitem(ENGINE_ACTIONS, "rollback", lost)
            with pytest.raises(Unavailable):
                decisions.decide(LOCAL, back)
        assert "went back before" in decisions.decide(LOCAL, back).sentence
        with ControlClient(engine) as client:
            assert client.desired("m").stable == 2
        ben = HubConfig(engines={"one": EngineConfig(control=control, token_file=tokens["ben"])}).connections()["one"]
        with ControlClient(ben) as client:
            client.rollback("m", 1, requested_by="hub: local", reason="nobody shall know that it was ben")
            client.override("freeze", "m", requested_by="hub: local", reason="nor this")
        fetch(database, log, engine, ASKED_BY_HUB)
    acts = [(line.act.who, line.act.action) for line in log.lines() if line.act.action in ("rollback", "freeze")]
    told = "ben (says hub: local)"
    assert acts == [("local", "rollback"), (told, "rollback"), (told, "freeze")]
