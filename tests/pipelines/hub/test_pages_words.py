"""What pages say of releases and models, as plain HTML: one page never says two things."""

from __future__ import annotations

import html
import re
from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select
from starlette.testclient import TestClient
from tests.support.hub.access import TOKENS, make_hub, people_file
from tests.support.hub.history import note_last
from tests.support.hub.pages import NOW
from tests.support.hub.verdict import Texts, a_verdict

from tidegate_pipelines.hub.alerts.wanted import what_is_wrong
from tidegate_pipelines.hub.api.decisions import decision_routes
from tidegate_pipelines.hub.app import create_app
from tidegate_pipelines.hub.audit import Act, AuditLog
from tidegate_pipelines.hub.audit.log import now_us
from tidegate_pipelines.hub.decisions import Decisions
from tidegate_pipelines.hub.engines.record import note_status
from tidegate_pipelines.hub.pages import add_pages
from tidegate_pipelines.hub.people_config import AccessConfig
from tidegate_pipelines.hub.releases.requests import VERDICT
from tidegate_pipelines.hub.store import (
    Database,
    DecisionRow,
    EngineRow,
    FeatureProfileRow,
    ModelRow,
    ReleaseEventRow,
    ReleaseRow,
    ReleaseState,
    ServedVersionRow,
    SkewWindowRow,
    VerdictRow,
)
from tidegate_serving.contract.desired_state import DesiredState
from tidegate_serving.contract.servable import State
from tidegate_serving.control.access.access_file import hash_of
from tidegate_serving.control.status import EngineStatus, OverrideStatus, ProblemStatus, ServableStatus, VersionStatus

HOUR = timedelta(hours=1)
HERE = "http://127.0.0.1:8600"


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """SQLite: pages ask both kinds of databases the same."""
    return f"sqlite:///{tmp_path}/hub.db"


@pytest.fixture
def client(database: Database) -> Iterator[TestClient]:
    with pages_of(database, AccessConfig()) as found:
        yield found


def pages_of(database: Database, config: AccessConfig, **headers: str) -> TestClient:
    """A hub's pages, and model eta."""
    hub, access, _ = make_hub(database, config)
    audit = AuditLog(database)
    decisions = Decisions(database, hub.config, audit)
    app = create_app(hub, [lambda given: decision_routes(given, access, audit, decisions)], access=access)
    add_pages(app, hub, lambda: NOW)
    with database.writing() as session:
        session.add(ModelRow(name="eta", team="", first_seen=NOW - 100 * HOUR))
    headers["accept"] = "text/html"
    return TestClient(app, HERE, headers=headers, raise_server_exceptions=False)


def add_release(database: Database, state: str, stage: str, *, allowed: bool | None = True, **changes: object) -> int:
    """Version 1 of eta, asked for two hours ago and over 2 s later where it is over."""
    over = state not in ("REQUESTED", "RUNNING", "WAITING")
    given: dict[str, object] = {"source": "api", "requested_by": "ci", "requested_at": NOW - 2 * HOUR, **changes}
    with database.writing() as session:
        row = ReleaseRow(model="eta", version=1, state=ReleaseState(state), stage=stage, **given)
        row.finished_at = NOW - 2 * HOUR + timedelta(seconds=2) if over else None
        session.add(row)
        session.flush()
        if allowed is not None:
            verdict = a_verdict("eta", 1, Texts(), allowed=allowed)
            told = {"digest": f"{row.id:064x}", "allowed": allowed, "sentence": verdict.sentence, "key_id": "k"}
            told |= {"document": verdict.to_dict(), "signed_at": NOW, "report": ""}
            session.add(VerdictRow(release_id=row.id, model="eta", version=1, **told))
        event = {"kind": "stage", "stage": stage, "text": stage, "data": {}}
        session.add(ReleaseEventRow(release_id=row.id, at=NOW - 2 * HOUR, **event))
        return row.id


def add_decision(database: Database, kind: str, **changes: object) -> None:
    given = {"key": kind, "model": "eta", "who": "anna", "reason": "a reason", "at": NOW - HOUR, "sentence": "done"}
    with database.writing() as session:
        session.add(DecisionRow(kind=kind, **{**given, **changes}))


def serve(database: Database, version: int, heard: datetime = NOW, engine: str = "default") -> None:
    given = {"engine": engine, "state": "AVAILABLE", "label": "stable", "ordinary": True, "since": NOW, "error": ""}
    with database.writing() as session:
        session.add(ServedVersionRow(model="eta", version=version, **given))
        session.add(EngineRow(name=engine, addresses="", state="UP", since=NOW, last_seen=heard, problem="", status={}))


def text_of(client: TestClient, path: str, status: int = 200) -> str:
    """The words of a page."""
    answer = client.get(path)
    assert answer.status_code == status, answer.text
    return html.unescape(" ".join(re.sub(r"<[^>]+>", " ", answer.text).split()))


def step(client: TestClient, name: str) -> str:
    """What a release's page says of one of its steps."""
    found = re.search(rf'step-name">{name}</span><span class="step-state">([^<]*)', client.get("/releases/1").text)
    assert found is not None
    return found[1]


@pytest.mark.parametrize(
    ("serves", "heard", "engine", "said"),
    [
        (1, NOW, "default", "version 1, serves"),
        (2, NOW, "default", "version 1, was released; clients get version 2 now"),
        (2, NOW - 3 * HOUR, "default", "version 1, serves"),
        (2, NOW - 3 * HOUR, "default/10.0.0.2:8502", "version 1, serves"),
        (2, NOW - 3 * HOUR, "south", "version 1, was released; clients get version 2 now"),
    ],
    ids=["serves", "served", "not heard since", "one of a group", "not its engine"],
)
def test_a_release_that_came_through_says_whether_its_version_still_serves(
    client: TestClient, database: Database, serves: int, heard: datetime, engine: str, said: str
) -> None:
    serve(database, serves, heard, engine)
    number = add_release(database, "RELEASED", "promote")
    assert said in text_of(client, f"/releases/{number}")


@pytest.mark.parametrize(
    ("state", "run", "offered"),
    [
        ("REQUESTED", "", True),
        ("WAITING", "", True),
        ("RUNNING", "run-7", True),
        ("RUNNING", "", False),
        ("RELEASED", "", False),
        ("CANCELLED", "run-7", False),
    ],
)
def test_a_release_can_be_cancelled_on_its_page_while_that_is_possible(
    client: TestClient, database: Database, state: str, run: str, offered: bool
) -> None:
    number = add_release(database, state, "validate", external_run=run)
    text = text_of(client, f"/releases/{number}")
    assert ("Cancel this release" in text, "Its run run-7 goes on: stop it" in text) == (
        offered,
        offered and bool(run),
    )
    body = {"release_id": number, "reason": "wrong month", "key": "k"}
    status = client.post("/api/v1/decisions/cancel", json=body).status_code
    assert status == (200 if offered else 409)
    assert ("wrong month" in text_of(client, f"/releases/{number}").partition("Who decided")[2]) is offered


def test_a_release_that_somebody_declined_is_not_told_to_be_pushed_or_overridden(
    client: TestClient, database: Database
) -> None:
    number = add_release(database, "REFUSED", "validate", sentence="anna declined it: not today")
    add_decision(database, "decline", release_id=number)
    text = text_of(client, f"/releases/{number}")
    assert "version 1, was declined" in text
    assert "This version may serve." in text
    assert "tidegate push" not in text
    assert "tidegate override" not in text
    assert step(client, "validate") == "done, 2 s"


def test_a_release_that_somebody_declined_needs_nobody(client: TestClient, database: Database) -> None:
    number = add_release(database, "REFUSED", "validate", requested_at=datetime.now(UTC))
    note_last(database)

    def found() -> tuple[bool, list[str]]:
        with database.reading() as session:
            return "Nothing needs a person" in text_of(client, "/"), [one.key for one in what_is_wrong(session, NOW)]

    assert found() == (False, [f"release:{number}"])
    add_decision(database, "decline", release_id=number)
    assert found() == (True, [])


def test_a_verdict_that_is_over_allows_no_push_any_more(client: TestClient, database: Database) -> None:
    number = add_release(database, "RELEASED", "promote")
    assert "Push allowed: yes, because" in text_of(client, f"/releases/{number}")
    with database.writing() as session:
        row = session.scalars(select(VerdictRow)).one()
        row.document = {**row.document, "expires_at": "2026-05-01T00:00:00Z"}
    said = "Push allowed: no, because the verdict ended 1 May 2026 00:00 UTC: ask for a release for a new one."
    assert f"This version was allowed to serve. {said}" in text_of(client, f"/releases/{number}")


def test_a_release_that_its_gates_refused_says_how_to_mend_it(client: TestClient, database: Database) -> None:
    text = text_of(client, f"/releases/{add_release(database, 'REFUSED', 'validate', allowed=False)}")
    assert "version 1, may not serve" in text
    assert "What to do" in text
    assert "--gate quality --reason" in text
    assert "No person: the gates alone." in text
    assert step(client, "validate") == "refused, 2 s"


def test_lists_of_releases_show_a_canarys_sentence_to_its_cure(client: TestClient, database: Database) -> None:
    said = (
        "The canary flights:2 has 1 answer compared and is not decided on faults: 0.00 % worse than the serving "
        "version, 1.00 % is too much, evidence 1 of 20; at this rate about 395 more are needed: send more traffic or "
        "wait longer."
    )
    add_release(database, "REFUSED", "canary", sentence=said)
    serve(database, 1)
    for path in ("/", "/releases", "/models/eta"):
        assert said in text_of(client, path)


def test_a_release_that_waits_for_the_end_of_a_freeze_asks_nobody_to_decide(
    client: TestClient, database: Database
) -> None:
    number = add_release(database, "WAITING", "canary", not_before=NOW + HOUR)
    page = client.get(f"/releases/{number}").text
    assert "version 1, waits until 1 Jun 2026 13:30 UTC" in text_of(client, f"/releases/{number}")
    assert "Nobody has to do anything" in page
    assert "/decisions/approve" not in page
    assert (step(client, "canary"), step(client, "promote")) == ("waiting", "ahead")
    assert "Nothing needs a person now" in text_of(client, "/")


@pytest.mark.parametrize(
    ("state", "said"),
    [
        ("CANCELLED", "Whoever called it off, as is said above."),
        ("SUPERSEDED", "Nobody: it ended before anything was decided."),
        ("FAILED", "Nobody: it ended before anything was decided."),
    ],
)
def test_no_gate_is_said_to_have_decided_where_none_did(
    client: TestClient, database: Database, state: str, said: str
) -> None:
    text = text_of(client, f"/releases/{add_release(database, state, 'fetch', allowed=None)}")
    assert f"Who decided {said}" in text
    assert "ended after 2 s" in text
    assert "1 Jun 10:30:00" in text


def test_a_release_that_was_put_off_says_when_it_is_tried_again(client: TestClient, database: Database) -> None:
    number = add_release(database, "REQUESTED", "push", not_before=NOW + HOUR)
    assert "version 1, is put off to 1 Jun 2026 13:30 UTC" in text_of(client, f"/releases/{number}")


def test_a_release_that_was_approved_is_about_to_go_on(client: TestClient, database: Database) -> None:
    number = add_release(database, "REQUESTED", "validate", sentence="anna approved it: looked")
    assert "version 1, is about to go on" in text_of(client, f"/releases/{number}")
    assert "version 1, has been asked for" in text_of(client, f"/releases/{add_release(database, 'REQUESTED', '')}")


def test_a_release_by_override_shows_the_verdict_and_who_overrode_it(
    client: TestClient, database: Database, tmp_path: Path
) -> None:
    refused = add_release(database, "REFUSED", "validate", allowed=False)
    add_decision(database, "override", key="k1", release_id=refused)
    digest = f"{refused:064x}"
    again = add_release(
        database, "RELEASED", "promote", allowed=None, request_key="override:k1", settings={VERDICT: digest}
    )
    (tmp_path / "verdict.json").write_text("{}")
    with database.writing() as session:
        session.get_one(VerdictRow, 1).report = str(tmp_path)
    text = text_of(client, f"/releases/{again}")
    assert "overridden Its gates said no" in text
    assert "This version may not serve." in text
    assert "No person" not in text
    assert client.get(f"/releases/{again}/verdict.json").status_code == 200
    assert "version 1, may not serve" in text_of(client, f"/releases/{refused}")


def test_a_model_shows_freezes_by_a_pattern_and_how_to_end_them(client: TestClient, database: Database) -> None:
    assert "End the freeze" not in client.get("/models/eta").text
    add_decision(database, "freeze", model="e*", until=NOW + HOUR)
    page = client.get("/models/eta").text
    assert "all models like <code>e*</code>" in page
    assert "End the freeze of e*" in page
    assert 'name="model" value="e*"' in page


def test_a_freeze_of_more_models_than_somebody_may_operate_is_not_theirs_to_end(
    database: Database, tmp_path: Path
) -> None:
    people = f"""format = "tidegate.hub-access/1"
[team.eta]
models = ["eta"]
[[token]]
name = "boss"
sha256 = "{hash_of(TOKENS["boss"])}"
role = "operate"
teams = ["eta"]
"""
    config = AccessConfig(file=people_file(tmp_path, people))
    with pages_of(database, config, authorization=f"Bearer {TOKENS['boss']}") as client:
        add_decision(database, "freeze", until=NOW + HOUR)
        add_decision(database, "freeze", key="of all", model="e*", until=NOW + HOUR)
        page = client.get("/models/eta").text
    assert 'value="e*"' not in page
    assert page.count("End the freeze</summary>") == 1
    assert "Who may operate all models like <code>e*</code> can end it." in page


def hear(database: Database, *overrides: OverrideStatus, **said: Any) -> None:
    """An engine that has version 1 says what stands of it."""
    versions = (VersionStatus(1, State.AVAILABLE), VersionStatus(2, State.AVAILABLE))
    one = ServableStatus("eta", DesiredState("eta"), versions=versions, ordinary=1, overrides=overrides, **said)
    problem = ProblemStatus("files", "unavailable", "store s3://models cannot be listed")
    note_status(database, "north", "127.0.0.1:1", EngineStatus((one,), "", "", problems=(problem,)), datetime.now(UTC))


def test_what_anybody_told_an_engine_is_on_the_pages(client: TestClient, database: Database) -> None:
    told = OverrideStatus("block", "version 2 is blocked", "ben", "crashes", 1_780_000_000_000_000, 2)
    hear(
        database,
        told,
        OverrideStatus("pin", "ordinary traffic is pinned to version 1"),
        source_problem="it is half copied",
    )
    text = text_of(client, "/models/eta")
    assert "Version 1 answers ordinary clients" in text
    assert "block version 2 is blocked on engine north since 28 May 2026 20:26 UTC , by ben crashes" in text
    assert "pin ordinary traffic is pinned to version 1" in text
    assert "problem it is half copied" in text
    assert ("Unblock version 2" in text, "Block version 2" in text, "Block version 1" in text) == (True, False, True)
    assert "store s3://models cannot be listed" in text_of(client, "/engines")


def test_a_model_that_is_switched_off_is_not_said_to_serve(client: TestClient, database: Database) -> None:
    hear(database, OverrideStatus("disable", "switched off", "anna", "it leaks"), disabled="it leaks (by anna)")
    text = text_of(client, "/models/eta")
    assert "No request is answered On engine north : switched off , by anna : it leaks . Once that is over" in text
    assert "answers ordinary clients" not in text
    assert "not served" in text_of(client, "/models")


def test_an_error_gives_back_the_reason_that_somebody_wrote(client: TestClient, database: Database) -> None:
    number = add_release(database, "RELEASED", "promote")
    token = re.search(r'name="form_token" value="([^"]+)"', client.get("/models/eta").text)
    assert token is not None
    for sent, status in (("of a hub before its restart", 403), (token[1], 409)):
        form = {"release_id": str(number), "reason": "looked at <all> slices", "key": "k", "form_token": sent}
        answer = client.post("/api/v1/decisions/approve", data=form, headers={"origin": HERE})
        assert (answer.status_code, "looked at &lt;all&gt; slices" in answer.text) == (status, True)


@pytest.mark.parametrize(
    ("sent", "kept"), [({"cookie": "tidegate=ended", "origin": HERE}, True), ({"origin": HERE}, True), ({}, False)]
)
def test_who_is_no_longer_signed_in_gets_the_reason_back_that_they_wrote(
    database: Database, tmp_path: Path, sent: dict[str, str], kept: bool
) -> None:
    client = pages_of(database, AccessConfig(file=people_file(tmp_path)))
    form = {"release_id": "1", "reason": "looked at the slices", "key": "k", "form_token": "old"}
    answer = client.post("/api/v1/decisions/approve", data=form, headers=sent)
    assert (answer.status_code, "looked at the slices" in answer.text) == (401, kept)


def test_what_an_engine_that_is_away_did_not_do_is_said_to_be_begun(client: TestClient, database: Database) -> None:
    add_decision(database, "rollback", sentence="")
    assert "a reason It was asked of the engine, which has not said yet that it is done." in text_of(
        client, "/models/eta"
    )


def test_a_refused_release_names_its_own_folder_in_what_to_do(client: TestClient, database: Database) -> None:
    number = add_release(database, "REFUSED", "validate", allowed=False, directory="/srv/models/eta/1")
    text = text_of(client, f"/releases/{number}")
    assert "tidegate override /srv/models/eta/1 --gate" in text
    assert f"tidegate override {number} --hub" in text


def test_a_difference_from_training_is_explained_where_it_is_shown(client: TestClient, database: Database) -> None:
    with database.writing() as session:
        for hours, state, effect in ((2, "PASS", 0.05), (1, "FAIL", 0.96)):
            given = {"window_start": NOW - hours * HOUR, "window_end": NOW - (hours - 1) * HOUR, "rows": 900}
            row = {"model": "eta", "version": 2, "feature": "distance", "state": state, "effect": effect, **given}
            session.add(SkewWindowRow(shares=[0.25, 0.75], **row))
        profile = {"labels": ["below 80", "80 and more"], "shares": [0.75, 0.25]}
        session.add(FeatureProfileRow(model="eta", version=2, feature="distance", document=profile))
    explained = "Effect: how large the difference is. 0 for equal distributions, about 0.1 for a shift by a tenth"
    assert explained in text_of(client, "/models/eta")
    page = text_of(client, "/features/eta?name=distance")
    assert explained in page
    assert "How far from training not as in training" in page, "of what is shaded"
    assert "the wider, the more rows have this value on top: not as in training" in page


@pytest.mark.parametrize(
    ("told", "said"),
    [
        (int(datetime(2026, 1, 2, 8, 45, tzinfo=UTC).timestamp() * 1e6), "2 Jan 2026 08:45 UTC heard"),
        (None, ""),
        (10**30, ""),
    ],
    ids=["long before the hub heard of it", "now", "beyond all dates"],
)
def test_what_an_engine_did_is_told_with_the_time_at_which_it_did_it(
    client: TestClient, database: Database, told: int | None, said: str
) -> None:
    did_us = now_us() if told is None else told
    detail: dict[str, str | int | float | bool | None] = {"text": "rolled back", "at_us": did_us}
    AuditLog(database).add(Act("ben", "rollback", "model eta", engine="south", detail=detail))
    page = text_of(client, "/audit")
    assert ("heard" in page) is bool(said)
    assert said in page
    assert "rolled back" in page
    assert str(did_us) not in page, "a moment is no number"
