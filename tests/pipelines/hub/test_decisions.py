"""What people decide: who may, once, with a reason, in the audit log."""

from __future__ import annotations

import json
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from starlette.testclient import TestClient
from tests.support.eventually import eventually
from tests.support.hub.access import PEOPLE, TOKENS, decisions_client, make_hub, people_file

from tidegate_operators.steps.keys import new_key
from tidegate_pipelines.hub.alerts import AlertBook, Wrong
from tidegate_pipelines.hub.api import api_router
from tidegate_pipelines.hub.app import create_app
from tidegate_pipelines.hub.audit import AuditLog, Outcome, verify_database
from tidegate_pipelines.hub.audit.log import Wanted
from tidegate_pipelines.hub.callers import LOCAL, Caller, TeamGrant
from tidegate_pipelines.hub.config import HubConfig, RunConfig
from tidegate_pipelines.hub.decisions import Asked, Decisions, active_freeze, muted_features
from tidegate_pipelines.hub.decisions.engine_actions import ENGINE_ACTIONS
from tidegate_pipelines.hub.decisions.signed import sign_approval
from tidegate_pipelines.hub.people_config import AccessConfig, AlertsConfig, ApprovalRule
from tidegate_pipelines.hub.releases.claims import claim_next
from tidegate_pipelines.hub.releases.requests import Request, request_release
from tidegate_pipelines.hub.store import Database, DecisionRow, ReleaseRow, ReleaseState
from tidegate_serving.admission import Role
from tidegate_serving.contract import times
from tidegate_serving.contract.errors import Conflict, InvalidInput, PermissionRefused, Tampered, Unavailable

SOON = datetime.now(UTC) + timedelta(hours=2)
ANNA = Caller("anna", "token", (TeamGrant("release", "flights", ("flights*",)),))
BEN = Caller("ben", "oidc", (TeamGrant("look", "*", ("*",)),), frozenset({"leads"}))
OPS = Caller("ops", "token", (TeamGrant("operate", "flights", ("flights*",)),))


def decisions_of(database: Database, *rules: ApprovalRule) -> tuple[Decisions, AuditLog]:
    log = AuditLog(database)
    return Decisions(database, HubConfig(approval=rules), log), log


def waiting(database: Database, model: str = "flights", by: str = "anna") -> int:
    with database.writing() as session:
        row = request_release(database, session, Request(model, 3, "api", by))
        row.state, row.digest = ReleaseState.WAITING, "ab" * 32
        session.flush()
        return row.id


def state_of(database: Database, release: int) -> ReleaseState:
    with database.reading() as session:
        return session.scalars(select(ReleaseRow.state).where(ReleaseRow.id == release)).one()


def approve(release: int, key: str = "k", kind: str = "approve", **more: Any) -> Asked:
    return Asked(kind, "looked at the slices", key, release_id=release, **more)


def test_a_release_waits_for_whom_the_rule_names_and_goes_on_when_they_say_so(database: Database) -> None:
    decisions, log = decisions_of(database, ApprovalRule(models=("flights*",), by=("group:leads",)))
    release = waiting(database)
    with database.reading() as session:
        wait = decisions.approvals(session, session.scalars(select(ReleaseRow)).one())
    assert wait is not None
    assert wait.sentence == "it waits for the approval of group:leads"

    for caller in (ANNA, OPS):
        with pytest.raises(PermissionRefused):
            decisions.decide(caller, approve(release))
    made = decisions.decide(BEN, approve(release), "10.0.0.1")

    assert made.sentence == "ben approved it: looked at the slices"
    assert state_of(database, release) is ReleaseState.REQUESTED
    with database.reading() as session:
        assert decisions.approvals(session, session.scalars(select(ReleaseRow)).one()) is None
    (line,) = log.newest(9)
    assert (line.act.who, line.act.action, line.act.thing) == ("ben", "approve", "model flights:3")
    assert (line.act.reason, line.act.address) == ("looked at the slices", "10.0.0.1")


def test_nobody_approves_what_they_asked_for_unless_the_rule_lets_them(database: Database) -> None:
    strict, _ = decisions_of(database, ApprovalRule(models=("*",), by=("anna",)))
    release = waiting(database)
    with pytest.raises(PermissionRefused, match="somebody else"):
        strict.decide(ANNA, approve(release))
    lenient, _ = decisions_of(database, ApprovalRule(models=("*",), by=("anna",), own=True))
    assert lenient.decide(ANNA, approve(release)).who == "anna"


def test_an_address_that_a_rule_names_is_one_that_the_provider_has_verified(database: Database) -> None:
    decisions, _ = decisions_of(database, ApprovalRule(models=("*",), by=("Anna@example.com",)))
    release = waiting(database, by="ben")
    liar = Caller("Anna@example.com", "oidc", BEN.grants)
    with pytest.raises(PermissionRefused, match="may not approve"):
        decisions.decide(liar, approve(release))
    anna = Caller("Anna of flights", "oidc", BEN.grants, email="anna@example.com")
    assert decisions.decide(anna, approve(release)).who == "Anna of flights"


def test_a_rule_without_names_means_whoever_may_operate_the_model(database: Database) -> None:
    decisions, _ = decisions_of(database, ApprovalRule(models=("*",)))
    release = waiting(database)
    with pytest.raises(PermissionRefused, match="needs role operate"):
        decisions.decide(BEN, approve(release))
    assert decisions.decide(OPS, approve(release)).who == "ops"


def test_a_declined_release_is_refused_for_good(database: Database) -> None:
    decisions, _ = decisions_of(database, ApprovalRule(models=("*",), by=("ben",)))
    release = waiting(database)
    decisions.decide(BEN, approve(release, kind="decline"))

    assert state_of(database, release) is ReleaseState.REFUSED
    with pytest.raises(Conflict, match="it does not wait"):
        decisions.decide(BEN, approve(release, "k2"))


def test_the_same_decision_twice_is_one(database: Database) -> None:
    decisions, log = decisions_of(database, ApprovalRule(models=("*",), by=("ben",)))
    release = waiting(database)

    first = decisions.decide(BEN, approve(release))
    assert decisions.decide(BEN, approve(release)) == first
    assert len(log.newest(9)) == 1
    with pytest.raises(Conflict, match="that of another decision"):
        decisions.decide(BEN, approve(release, kind="decline"))


def test_the_same_decision_at_the_same_time_is_one(database: Database) -> None:
    decisions, log = decisions_of(database)
    asked = Asked("mute", "known", "k", model="flights", feature="dew", until=SOON)
    gate, found, problems = threading.Barrier(4), [], []

    def decide() -> None:
        gate.wait()
        try:
            found.append(decisions.decide(LOCAL, asked).id)
        except Exception as error:
            problems.append(error)

    threads = [threading.Thread(target=decide) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert problems == []
    assert len(set(found)) == 1
    assert len(log.newest(9)) == 1


def signed_rule(folder: Path, role: Role = Role.OVERRIDE) -> tuple[ApprovalRule, Path]:
    new_key(folder / "ring", name="lead", role=role)
    return ApprovalRule(models=("*",), by=("ben",), signed=True, trusted=folder / "ring"), folder / "ring" / "lead.key"


def envelope(key: Path, release: int, **changes: Any) -> dict[str, Any]:
    said = {"model": "flights", "version": 3, "digest": "ab" * 32, "reason": "looked at the slices"}
    return sign_approval(release=release, private_key=key, **{**said, **changes})


def test_a_signed_approval_counts_where_its_key_is_an_approvers(database: Database, tmp_path: Path) -> None:
    rule, key = signed_rule(tmp_path)
    decisions, _ = decisions_of(database, rule)
    release = waiting(database)

    with pytest.raises(InvalidInput, match="have to be signed"):
        decisions.decide(BEN, approve(release))
    for changes in ({"version": 4}, {"digest": "cd" * 32}, {"reason": "other"}, {"model": "spam"}):
        with pytest.raises(PermissionRefused, match="signed for another"):
            decisions.decide(BEN, approve(release, envelope=envelope(key, release, **changes)))
    with pytest.raises(PermissionRefused, match="signed for another release"):
        decisions.decide(BEN, approve(release, envelope=envelope(key, release + 1)))
    assert state_of(database, release) is ReleaseState.WAITING

    made = decisions.decide(BEN, approve(release, envelope=envelope(key, release)))
    assert made.sentence == "ben approved it, signed by lead: looked at the slices"


def test_a_signature_that_was_changed_or_of_another_key_counts_nothing(database: Database, tmp_path: Path) -> None:
    rule, key = signed_rule(tmp_path)
    decisions, _ = decisions_of(database, rule)
    release = waiting(database)
    right = envelope(key, release)
    other = envelope(key, release, reason="other")
    swapped = {**right, "signatures": other["signatures"]}
    with pytest.raises(PermissionRefused, match="is not that of"):
        decisions.decide(BEN, approve(release, envelope=swapped))
    with pytest.raises(Tampered):
        decisions.decide(BEN, approve(release, envelope={"payload": "x"}))
    new_key(tmp_path / "else", name="stranger", role=Role.OVERRIDE)
    strange = envelope(tmp_path / "else" / "stranger.key", release)
    with pytest.raises(PermissionRefused, match="is not in"):
        decisions.decide(BEN, approve(release, envelope=strange))


def test_a_validators_key_approves_nothing(database: Database, tmp_path: Path) -> None:
    rule, key = signed_rule(tmp_path, Role.VALIDATOR)
    decisions, _ = decisions_of(database, rule)
    release = waiting(database)
    with pytest.raises(PermissionRefused, match="not as override"):
        decisions.decide(BEN, approve(release, envelope=envelope(key, release)))


def freeze(model: str, key: str = "f", **more: Any) -> Asked:
    return Asked("freeze", "the holidays", key, model=model, until=more.pop("until", SOON), **more)


def test_a_freeze_holds_releases_back_until_it_ends(database: Database) -> None:
    decisions, _ = decisions_of(database)
    release = waiting(database)
    decisions.decide(OPS, freeze("flights*"))
    with database.reading() as session:
        row = session.get(ReleaseRow, release)
        assert row is not None
        wait = decisions.approvals(session, row)
        assert active_freeze(session, "spam", database.now(session)) is None
    assert wait is not None
    assert wait.until == SOON
    assert wait.sentence.startswith("ops froze flights* until")

    with database.writing() as session:
        session.get_one(ReleaseRow, release).not_before = wait.until
    assert claim_next(database, "one", RunConfig()) is None
    decisions.decide(OPS, Asked("unfreeze", "back", "u", model="flights*"))
    assert claim_next(database, "one", RunConfig()) is not None, "it goes on at once"
    with database.reading() as session:
        assert active_freeze(session, "flights", database.now(session)) is None
    with pytest.raises(Conflict, match="there is no freeze"):
        decisions.decide(OPS, Asked("unfreeze", "back", "u2", model="flights*"))


def test_a_freeze_of_later_counts_later(database: Database) -> None:
    decisions, _ = decisions_of(database)
    decisions.decide(LOCAL, freeze("*", since=SOON - timedelta(hours=1)))
    with database.reading() as session:
        assert active_freeze(session, "flights", datetime.now(UTC)) is None
        assert active_freeze(session, "flights", SOON - timedelta(minutes=1)) is not None
        assert active_freeze(session, "flights", SOON + timedelta(minutes=1)) is None


@pytest.mark.parametrize("pattern", ["*", "f*", "spam", "?lights"])
def test_a_freeze_reaches_no_further_than_the_role(database: Database, pattern: str) -> None:
    decisions, _ = decisions_of(database)
    with pytest.raises(PermissionRefused):
        decisions.decide(OPS, freeze(pattern))
    tricky = Caller("t", "token", (TeamGrant("operate", "t", ("?a",)),))
    with pytest.raises(PermissionRefused):
        decisions.decide(tricky, freeze("*a"))


def test_a_mute_ends_by_itself_and_by_hand(database: Database) -> None:
    decisions, _ = decisions_of(database)
    decisions.decide(ANNA, Asked("mute", "sensor swap", "m", model="flights", feature="dew", until=SOON))
    with database.reading() as session:
        assert set(muted_features(session, "flights", datetime.now(UTC))) == {"dew"}
        assert muted_features(session, "flights-eu", datetime.now(UTC)) == {}
        assert muted_features(session, "flights", SOON) == {}
    decisions.decide(ANNA, Asked("unmute", "swapped", "n", model="flights", feature="dew"))
    with database.reading() as session:
        assert muted_features(session, "flights", datetime.now(UTC)) == {}


@pytest.mark.parametrize(
    ("fields", "said"),
    [
        ({"kind": "delete"}, "use approve"),
        ({"reason": "  "}, "has no reason"),
        ({"key": ""}, "use 1 to 200"),
        ({"until": SOON - timedelta(days=1)}, "use a moment within"),
        ({"until": SOON + timedelta(days=900)}, "use a moment within"),
        ({"until": None}, "lacks until"),
        ({"feature": ""}, "lacks feature"),
        ({"model": "a/b"}, "cannot be used"),
        ({"model": "<script>"}, "cannot be used"),
    ],
)
def test_what_is_asked_has_to_be_whole(fields: dict[str, Any], said: str) -> None:
    whole = {"kind": "mute", "reason": "r", "key": "k", "model": "flights", "feature": "dew", "until": SOON}
    with pytest.raises(InvalidInput, match=said):
        Asked(**{**whole, **fields})


def test_an_engine_that_is_away_leaves_the_decision_begun_and_the_same_key_goes_on(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    decisions, log = decisions_of(database)
    asked = Asked("rollback", "late answers", "r", model="flights")
    monkeypatch.setenv("TIDEGATE_CONTROL", "127.0.0.1:9")
    with pytest.raises(Unavailable):
        decisions.decide(ANNA, asked)
    with database.reading() as session:
        assert session.scalars(select(DecisionRow.sentence)).all() == [""]
    assert log.newest(9) == []

    monkeypatch.setitem(ENGINE_ACTIONS, "rollback", lambda config, who, asked: f"{who} did")
    assert decisions.decide(ANNA, asked).sentence == "anna did"
    assert len(log.newest(9)) == 1


def test_two_who_ask_an_engine_for_the_same_at_once_make_one_decision(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    decisions, log = decisions_of(database)
    asked = Asked("rollback", "late answers", "r", model="flights")
    said: list[str] = []

    def back(config: HubConfig, who: str, again: Asked) -> str:
        with pytest.raises(Conflict, match="just being done"):
            decisions.decide(ANNA, asked)
        said.append(who)
        return f"{who} did"

    monkeypatch.setitem(ENGINE_ACTIONS, "rollback", back)
    assert decisions.decide(ANNA, asked).sentence == "anna did"
    assert decisions.decide(ANNA, asked).detail == {}
    assert (said, len(log.newest(9))) == (["anna"], 1)


def test_whoever_asked_an_engine_and_crashed_holds_the_key_for_a_moment_only(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """And for as long as it takes where it did not crash."""
    decisions, log = decisions_of(database)
    asked = Asked("rollback", "late answers", "r", model="flights")

    def until() -> datetime:
        with database.reading() as session:
            return times.from_text(session.scalars(select(DecisionRow.detail)).one()["claimed_until"], "until")

    def slow(config: HubConfig, who: str, again: Asked) -> str:
        first = until()
        assert first < datetime.now(UTC) + timedelta(seconds=20)
        eventually(lambda: until() > first)
        return f"{who} did"

    monkeypatch.setitem(ENGINE_ACTIONS, "rollback", slow)
    with database.writing() as session:
        row = decisions._row(session, ANNA, asked)
        row.detail = {"claim": "gone", "claimed_until": times.to_text(datetime.now(UTC) - timedelta(seconds=1))}
        session.add(row)
    assert decisions.decide(ANNA, asked).sentence == "anna did"
    assert len(log.newest(9)) == 1


def test_a_key_is_that_of_one_decision_also_where_both_are_asked_for_at_once(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each looks before the other has written, which is played here by not looking."""
    decisions, _ = decisions_of(database)
    monkeypatch.setitem(ENGINE_ACTIONS, "rollback", lambda config, who, asked: f"{who} did")
    decisions.decide(ANNA, Asked("rollback", "late answers", "r", model="flights"))
    monkeypatch.setattr(decisions, "_known", lambda caller, asked: None)
    for caller, model in ((OPS, "flights"), (ANNA, "flights_b")):
        with pytest.raises(Conflict, match="of another decision"):
            decisions.decide(caller, Asked("rollback", "late answers", "r", model=model))


def test_a_role_that_is_too_small_reaches_no_engine(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGATE_CONTROL", "127.0.0.1:9")
    decisions, _ = decisions_of(database)
    with pytest.raises(PermissionRefused, match="role operate"):
        decisions.decide(ANNA, Asked("block", "bad", "b", model="flights", version=2))
    with pytest.raises(PermissionRefused, match="role release"):
        decisions.decide(BEN, Asked("rollback", "bad", "b", model="flights"))


# The routes


def test_a_program_decides_with_json_and_a_page_with_a_form(database: Database, tmp_path: Path) -> None:
    client, log = decisions_client(database, tmp_path)
    body = {"model": "flights", "feature": "dew", "until": times.to_text(SOON), "reason": "known", "key": "k"}

    answer = client.post("/api/v1/decisions/mute", json=body)
    assert answer.status_code == 200, answer.text
    assert (answer.json()["who"], answer.json()["kind"]) == ("boss", "mute")
    form = client.post("/api/v1/decisions/mute", data={**body, "return_to": "/models/flights"})
    assert (form.status_code, form.headers["location"]) == (303, "/models/flights")
    assert len(client.get("/api/v1/decisions?model=flights").json()) == 1
    assert json.loads(client.get("/api/v1/audit").text.splitlines()[0])["action"] == "mute"
    assert verify_database(log).whole


def test_who_asked_for_a_release_and_cancelled_it_is_found_by_the_model_with_their_address(
    database: Database, tmp_path: Path
) -> None:
    hub, access, log = make_hub(database, AccessConfig(file=people_file(tmp_path, PEOPLE)))
    app = create_app(hub, [api_router], access=access)
    headers = {"authorization": f"Bearer {TOKENS['boss']}"}
    client = TestClient(app, "http://127.0.0.1:8600", headers=headers, client=("10.0.0.7", 1))

    asked = client.post("/api/v1/releases", json={"model": "flights", "version": 3, "reason": "a fix"}).json()
    for status in (200, 409):
        assert client.post(f"/api/v1/releases/{asked['id']}/cancel", json={"reason": "x"}).status_code == status

    found = [line.act for line in log.newest(9, Wanted(model="flights"))]
    assert [(act.action, act.outcome.value) for act in found] == [
        ("cancel", "refused"),
        ("cancel", "done"),
        ("release", "done"),
    ]
    assert {(act.thing, act.address) for act in found} == {("model flights:3", "10.0.0.7")}


def test_what_is_refused_on_the_way_names_the_decision_in_the_audit_log(database: Database, tmp_path: Path) -> None:
    client, log = decisions_client(database, tmp_path, "anna")
    body = {"model": "flights", "version": 2, "reason": "bad"}

    answer = client.post("/api/v1/decisions/block", json=body)

    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "permission_refused")
    (line,) = log.newest(9)
    assert (line.act.who, line.act.action, line.act.thing) == ("anna", "block", "model flights")
    assert line.act.outcome is Outcome.REFUSED
    assert client.get("/api/v1/audit").status_code == 403


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"{", "not JSON"),
        (b"[]", "no JSON object"),
        (b'{"colour": "red"}', "unknown field 'colour'"),
        (b'{"version": "two"}', "whole number"),
        (b'{"version": 99999999999999999999}', "whole number"),
        (b'{"until": "tomorrow"}', "is no date"),
        (b'{"model": 3}', "use a text"),
        (b'{"envelope": "{"}', "envelope is not JSON"),
    ],
)
def test_a_body_that_cannot_be_used_says_why(database: Database, tmp_path: Path, body: bytes, said: str) -> None:
    client, _ = decisions_client(database, tmp_path)
    answer = client.post("/api/v1/decisions/mute", content=body, headers={"content-type": "application/json"})
    assert answer.status_code == 422
    assert said in answer.json()["error"]["message"]


def test_alerts_are_listed_for_whoever_sees_their_model(database: Database, tmp_path: Path) -> None:
    book = AlertBook(database, AlertsConfig())
    wrong = [Wrong(f"skew:{model}", model, "warning", f"skew of {model}", "unit", "/") for model in ("flights", "spam")]
    book.update(lambda session, now: wrong)
    book.update(lambda session, now: [*wrong[:1], Wrong("engine:a", "", "critical", "engine a is away", "gone", "/")])

    def listed(token: str, query: str = "") -> list[str]:
        client, _ = decisions_client(database, tmp_path, token)
        return [one["title"] for one in client.get(f"/api/v1/alerts{query}").json()]

    assert listed("ci") == ["engine a is away", "skew of flights"]
    assert listed("ci", "?resolved=true") == []
    assert listed("boss", "?resolved=true") == ["skew of spam"]
    assert listed("boss", "?model=flights") == ["skew of flights"]


# Labels
