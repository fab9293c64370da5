"""A refusal that somebody overrides through the hub: signed outside, checked as engines do, released, and audited."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from tests.support.command import Command
from tests.support.engine.process import EngineProcess
from tests.support.eventually import eventually
from tests.support.hub.process import HubProcess
from tests.support.release.rings import Ring, make_ring
from tests.support.release.world import CRASHES, World, make_world

from tidegate_operators.steps.keys import add_key
from tidegate_pipelines.hub.audit import AuditLog
from tidegate_pipelines.hub.callers import LOCAL, Caller, TeamGrant
from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.decisions import Asked, Decisions
from tidegate_pipelines.hub.decisions.overrides import KEY, Refusal, sign_overrides
from tidegate_pipelines.hub.people_config import OverrideConfig
from tidegate_pipelines.hub.releases.requests import VERDICT, Request, request_release
from tidegate_pipelines.hub.store import Database, ReleaseRow, ReleaseState
from tidegate_serving.admission import Role, open_verdict
from tidegate_serving.contract.errors import (
    Conflict,
    FailedPrecondition,
    InvalidInput,
    NotAdmitted,
    PermissionRefused,
    TidegateError,
)
from tidegate_serving.contract.manifest import read_manifest
from tidegate_serving.contract.repository import override_path, verdict_path
from tidegate_serving.contract.servable import ServableId, State
from tidegate_serving.control_client import ControlClient

RULE = '[[override]]\nkeys = ["alice"]\ngates = ["{gate}"]\noutcomes = ["FAIL", "ERROR", "MISSING"]\nmost_hours = 4\n'
REASON = "the old version leaks memory"
RELEASER = Caller("anna", "token", (TeamGrant("release", "t", ("tiny",)),))


@dataclass(frozen=True)
class Refused:
    """A version with a verdict that denies it by its quality gate, and the release that was refused for it."""

    world: World
    ring: Ring
    database: Database
    release: int
    directory: Path
    config: OverrideConfig

    def decide(self, envelope: dict[str, Any], caller: Caller = LOCAL, **changes: Any) -> str:
        log = AuditLog(self.database)
        config = HubConfig(override=changes.pop("config", self.config))
        asked = Asked("override", REASON, "k", release_id=self.release, envelope=envelope)
        return Decisions(self.database, config, log).decide(caller, replace(asked, **changes)).sentence

    def signed(self, *gates: str, by: str = "alice", hours: float = 2, **changes: Any) -> dict[str, Any]:
        verdict = open_verdict(verdict_path(self.directory)).digest
        about = Refusal(ServableId("tiny", 1), read_manifest(self.directory)[1], verdict)
        key = self.ring.folder / f"{by}.key"
        lasting = timedelta(hours=hours)
        return sign_overrides(
            replace(about, **changes), gates=gates or ("quality",), reason=REASON, lasting=lasting, private_key=key
        )


@pytest.fixture
def refused(tmp_path: Path, database: Database) -> Refused:
    world, ring = make_world(tmp_path), make_ring(tmp_path / "ring")
    add_key(ring.folder, world.public_key, name="judge", role=Role.VALIDATOR)
    ring.key("bert", Role.OVERRIDE)
    directory = world.publish(1)
    digest = world.admit(directory, allowed=False)
    policy = tmp_path / "override.toml"
    policy.write_text(RULE.format(gate="quality"))
    with database.writing() as session:
        row = request_release(database, session, Request("tiny", 1, "mlflow", "mlflow", settings={"canary": False}))
        row.state, row.directory, row.digest = ReleaseState.REFUSED, str(directory), read_manifest(directory)[1]
        session.flush()
        number = row.id
    assert digest
    return Refused(world, ring, database, number, directory, OverrideConfig(policy, ring.folder))


def test_an_override_is_kept_beside_the_version_which_is_released_again(refused: Refused) -> None:
    sentence = refused.decide(refused.signed())
    assert "alice" in sentence
    assert REASON in sentence
    assert override_path(refused.directory, "quality").is_file()
    with refused.database.reading() as session:
        again = session.scalars(select(ReleaseRow).order_by(ReleaseRow.id.desc()).limit(1)).one()
    assert (again.state, again.source, again.requested_by) == (ReleaseState.REQUESTED, "mlflow", "local")
    assert again.settings == {"canary": False, VERDICT: open_verdict(verdict_path(refused.directory)).digest}
    assert refused.decide(refused.signed()) == sentence, "the same key does nothing more"
    (line,) = [one.act for one in AuditLog(refused.database).lines()]
    assert (line.who, line.action, line.reason) == ("local", "override", REASON)


@pytest.mark.parametrize(
    ("make", "error", "said"),
    [
        (lambda one: one.signed(by="bert"), NotAdmitted, "no .* rule lets"),
        (lambda one: one.signed(by="validator"), NotAdmitted, "as validator"),
        (lambda one: one.signed(hours=5), NotAdmitted, "at most 4 hours"),
        (lambda one: one.signed(verdict_digest="0" * 64), NotAdmitted, "another verdict"),
        (lambda one: one.signed(manifest_digest="0" * 64), TidegateError, "another manifest"),
        (lambda one: one.signed("robustness"), InvalidInput, "override quality"),
        (lambda one: {KEY: [{"payload": "e30="}]}, TidegateError, "override-0"),
        (lambda one: {}, InvalidInput, "tidegate override NUMBER --hub"),
    ],
)
def test_what_no_engine_would_count_changes_nothing(
    refused: Refused, make: Callable[[Refused], dict[str, Any]], error: type[TidegateError], said: str
) -> None:
    with pytest.raises(error, match=said):
        refused.decide(make(refused))
    assert not override_path(refused.directory, "quality").exists()
    with refused.database.reading() as session:
        assert len(session.scalars(select(ReleaseRow)).all()) == 1


def test_who_may_not_and_what_cannot_be_overridden_is_said(refused: Refused) -> None:
    with pytest.raises(PermissionRefused, match="role operate"):
        refused.decide(refused.signed(), RELEASER)
    with pytest.raises(InvalidInput, match="another reason"):
        refused.decide(refused.signed(), reason="something else")
    with pytest.raises(FailedPrecondition, match=r"under \[override\]"):
        refused.decide(refused.signed(), config=OverrideConfig())
    with refused.database.writing() as session:
        session.get_one(ReleaseRow, refused.release).state = ReleaseState.FAILED
    with pytest.raises(Conflict, match="no verdict refused it"):
        refused.decide(refused.signed())


def test_the_command_overrides_a_refusal_and_the_engine_serves_the_version(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    world, ring = make_world(tmp_path), make_ring(tmp_path / "ring")
    policy = tmp_path / "override.toml"
    policy.write_text(RULE.format(gate="robustness"))
    settings = {"roots": [world.repository], "trusted_keys": [ring.folder], "override_policy": policy}
    world.publish(1, CRASHES)
    with EngineProcess(tmp_path / "engine", state_directory=tmp_path / "state", **settings) as engine:
        config = f"""
[engines.one]
control = "{engine.addresses["control"]}"
[override]
policy = "{policy}"
trusted = "{ring.folder}"
[releases]
held_out = "{world.held_out}"
repository = "{world.repository}"
private_key = "{ring.folder}/validator.key"
policy = "{world.policy("robustness")}"
"""
        with HubProcess(tmp_path / "hub", config) as hub:
            hub.post("/releases", {"model": "tiny", "version": 1})
            first = hub.over("tiny", 1)
            assert first["state"] == "REFUSED", first["sentence"]
            command = Command(monkeypatch, capsys)
            options = ["--gate", "robustness", "--reason", REASON, "--expires", "1h"]
            options += ["--key", str(ring.folder / "alice.key"), "--hub", hub.url]
            done = command("override", str(first["id"]), *options)
            assert done.returncode == 0, done.stderr
            eventually(lambda: hub.release("tiny", 1) != first)
            again = hub.over("tiny", 1)
            assert (again["state"], again["id"] > first["id"]) == ("RELEASED", True), again["sentence"]
        with ControlClient(str(engine.addresses["control"])) as client:
            found = client.status("tiny").servable("tiny")
            assert found is not None
            assert [(one.version, one.state) for one in found.versions] == [(1, State.AVAILABLE)]
