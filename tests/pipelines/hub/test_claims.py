"""Requests are kept once, claimed by one hub at a time, one per model, and taken up again when a hub is gone."""

from __future__ import annotations

import threading
from collections import Counter
from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
from sqlalchemy import select

from tidegate_pipelines.hub.config import HubConfig, RunConfig
from tidegate_pipelines.hub.releases.claims import Claim, ClaimLost, abandon, claim_next, held, renew
from tidegate_pipelines.hub.releases.clearance import Wait
from tidegate_pipelines.hub.releases.record import Record
from tidegate_pipelines.hub.releases.requests import Request, cancel, finish, let_go_on, request_release
from tidegate_pipelines.hub.releases.stages import put_off
from tidegate_pipelines.hub.store import Database, ReleaseEventRow, ReleaseRow, ReleaseState
from tidegate_serving.contract.errors import Conflict, InvalidInput, NotFound, Unavailable

RUN = RunConfig(lease_seconds=30.0, attempts=3)


def ask(database: Database, model: str = "m", version: int = 1, key: str | None = None) -> int:
    with database.writing() as session:
        asked = Request(model, version, "api", "anna", "because", key=key)
        return request_release(database, session, asked).id


def the(database: Database, release_id: int) -> ReleaseRow:
    with database.reading() as session:
        return session.scalars(select(ReleaseRow).where(ReleaseRow.id == release_id)).one()


def end(database: Database, claim: Claim) -> None:
    with database.writing() as session:
        finish(session, held(session, claim), database.now(session), ReleaseState.RELEASED, "done")


def let_lease_pass(database: Database, release_id: int) -> None:
    with database.writing() as session:
        row = session.scalars(select(ReleaseRow).where(ReleaseRow.id == release_id)).one()
        row.claimed_until = datetime.now(UTC) - timedelta(seconds=1)


def test_the_same_request_arrives_once(database: Database) -> None:
    first = ask(database, key="delivery-1")
    assert ask(database, key="delivery-1") == first
    assert ask(database, version=2, key="delivery-2") != first


@pytest.mark.parametrize(("model", "version"), [("a/b", 1), ("<b>m</b>", 1), ("", 1), ("m", 0), ("m", -1)])
def test_what_no_model_can_be_called_is_refused(database: Database, model: str, version: int) -> None:
    with pytest.raises(InvalidInput):
        ask(database, model, version)


def test_a_newer_request_takes_the_place_of_one_that_has_not_begun_and_says_so(database: Database) -> None:
    running = ask(database, version=1)
    assert claim_next(database, "hub", RUN) == Claim(running, "hub")
    older, newer, other = ask(database, version=2), ask(database, version=3), ask(database, "n", 9)
    assert the(database, running).state is ReleaseState.RUNNING
    assert the(database, older).state is ReleaseState.SUPERSEDED
    assert the(database, older).sentence == "anna asked for version 3 before version 2 was released"
    assert [the(database, one).state for one in (newer, other)] == [ReleaseState.REQUESTED] * 2


def test_one_release_of_a_model_at_a_time_and_the_oldest_first(database: Database) -> None:
    first, other = ask(database, "m"), ask(database, "n")
    assert [claim_next(database, "hub", RUN), claim_next(database, "hub", RUN)] == [
        Claim(first, "hub"),
        Claim(other, "hub"),
    ]
    second = ask(database, "m", 2)
    assert claim_next(database, "other", RUN) is None
    end(database, Claim(first, "hub"))
    assert claim_next(database, "other", RUN) == Claim(second, "other")


def test_what_a_crashed_hub_left_is_taken_up_and_the_crashed_one_writes_nothing_more(database: Database) -> None:
    release = ask(database)
    first = claim_next(database, "first", RUN)
    assert first is not None
    renew(database, first, RUN)
    assert claim_next(database, "second", RUN) is None
    let_lease_pass(database, release)
    second = claim_next(database, "second", RUN)
    assert second == Claim(release, "second")
    assert the(database, release).attempts == 2
    with pytest.raises(ClaimLost):
        renew(database, first, RUN)
    with pytest.raises(ClaimLost):
        end(database, first)
    abandon(database, first, "not its own any more")
    assert the(database, release).claimed_by == "second"
    abandon(database, second, "it gave up")
    third = claim_next(database, "third", RUN)
    assert third == Claim(release, "third"), "what is given back is taken up at once"


def test_a_release_that_crashes_whoever_runs_it_fails_and_lets_the_next_one_begin(database: Database) -> None:
    bad, good = ask(database, "m"), ask(database, "n")
    for attempt in range(RUN.attempts):
        assert claim_next(database, f"hub{attempt}", RUN) == Claim(bad, f"hub{attempt}")
        let_lease_pass(database, bad)
    assert claim_next(database, "last", RUN) == Claim(good, "last")
    assert the(database, bad).state is ReleaseState.FAILED
    assert "crashed, 3 times" in the(database, bad).sentence


def take_up(database: Database, by: str) -> Record:
    claim = claim_next(database, by, RUN)
    assert claim is not None
    return Record(database, claim, threading.Event())


@pytest.mark.parametrize("delays", [0, 4, 5, 10_000])
def test_what_does_not_answer_for_long_is_tried_every_minute(database: Database, delays: int) -> None:
    release = ask(database)
    with database.writing() as session:
        session.get_one(ReleaseRow, release).delays = delays
    put_off(take_up(database, "hub"), HubConfig(run=RUN), Unavailable("the engine does not answer"))
    row = the(database, release)
    assert (row.state, row.delays) == (ReleaseState.REQUESTED, delays + 1)
    assert row.not_before is not None
    pause = (row.not_before - datetime.now(UTC)).total_seconds()
    assert {0: 0, 4: 30, 5: 58, 10_000: 58}[delays] < pause <= {0: 2, 4: 32, 5: 60, 10_000: 60}[delays]


def test_a_release_that_was_put_off_often_survives_one_crash(database: Database) -> None:
    release = ask(database)
    for _ in range(RUN.attempts):
        put_off(take_up(database, "hub"), HubConfig(run=RUN), Unavailable("the engine does not answer"))
        with database.writing() as session:
            session.get_one(ReleaseRow, release).not_before = datetime.now(UTC) - timedelta(seconds=1)
    take_up(database, "crashes")
    let_lease_pass(database, release)
    assert claim_next(database, "next", RUN) == Claim(release, "next")
    assert the(database, release).attempts == 2


def test_a_release_that_waited_often_survives_one_crash(database: Database) -> None:
    release = ask(database)
    for _ in range(RUN.attempts):
        waits = replace(take_up(database, "hub"), clearance=lambda session, row: Wait("a freeze"))
        assert not waits.cleared()
        with database.writing() as session:
            let_go_on(database, session, release, because="it is over")
    take_up(database, "crashes")
    let_lease_pass(database, release)
    assert claim_next(database, "next", RUN) == Claim(release, "next")


def test_hubs_that_claim_at_once_never_share_a_release_or_a_model(database: Database) -> None:
    asked = [ask(database, f"m{number}", 1) for number in range(6)]
    taken: list[Claim] = []
    at_once: Counter[str] = Counter()
    problems: list[str] = []
    guard = threading.Lock()

    def hub(name: str) -> None:
        idle = 0
        while idle < 3:
            claim = claim_next(database, name, RUN)
            if claim is None:
                idle += 1
                continue
            model = the(database, claim.release_id).model
            with guard:
                taken.append(claim)
                at_once[model] += 1
                if at_once[model] > 1:
                    problems.append(model)
            with guard:
                at_once[model] -= 1
            end(database, claim)
            if the(database, claim.release_id).version < 4:
                asked.append(ask(database, model, the(database, claim.release_id).version + 1))

    hubs = [threading.Thread(target=hub, args=(f"hub{number}",)) for number in range(4)]
    for one in hubs:
        one.start()
    for one in hubs:
        one.join()
    assert problems == []
    assert sorted(claim.release_id for claim in taken) == sorted(asked)
    assert len(asked) == 24


def test_a_release_that_has_not_begun_can_be_cancelled_with_a_reason(database: Database) -> None:
    release, running = ask(database), ask(database, "n")
    with database.writing() as session:
        cancel(database, session, release, by="bert", reason="wrong data")
    assert the(database, release).sentence == "bert cancelled it: wrong data"
    assert claim_next(database, "hub", RUN) == Claim(running, "hub")
    with pytest.raises(Conflict, match="is RUNNING"), database.writing() as session:
        cancel(database, session, running, by="bert", reason="")
    with pytest.raises(NotFound, match="no release 99"), database.writing() as session:
        cancel(database, session, 99, by="bert", reason="")


def test_what_waits_for_a_person_is_not_claimed_until_somebody_lets_it_go_on(database: Database) -> None:
    release = ask(database)
    with database.writing() as session:
        row = session.scalars(select(ReleaseRow)).one()
        row.state = ReleaseState.WAITING
    assert claim_next(database, "hub", RUN) is None
    with database.writing() as session:
        let_go_on(database, session, release, because="anna approved it")
    assert claim_next(database, "hub", RUN) == Claim(release, "hub")


def test_what_was_put_off_is_claimed_when_its_time_has_come(database: Database) -> None:
    ask(database)
    with database.writing() as session:
        row = session.scalars(select(ReleaseRow)).one()
        row.not_before = datetime.now(UTC) + timedelta(hours=1)
    assert claim_next(database, "hub", RUN) is None
    with database.writing() as session:
        row = session.scalars(select(ReleaseRow)).one()
        row.not_before = datetime.now(UTC) - timedelta(seconds=1)
    assert claim_next(database, "hub", RUN) is not None


def test_the_history_tells_everything_in_order(database: Database) -> None:
    release = ask(database)
    claim = claim_next(database, "hub", RUN)
    assert claim is not None
    end(database, claim)
    with database.reading() as session:
        events = session.scalars(select(ReleaseEventRow).order_by(ReleaseEventRow.id)).all()
    assert [(one.release_id, one.kind, one.text) for one in events] == [
        (release, "state", "because"),
        (release, "state", "it runs"),
        (release, "state", "done"),
    ]
    assert [one.data["state"] for one in events] == ["REQUESTED", "RUNNING", "RELEASED"]
