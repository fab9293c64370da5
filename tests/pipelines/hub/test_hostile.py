"""What a hostile client sends the hub is refused with its cause, and takes nothing from the others."""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
import threading
from collections.abc import AsyncIterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import func, select
from starlette.requests import Request
from starlette.testclient import TestClient
from tests.support.hub.access import PEOPLE, TOKENS, make_hub, people_file

from tidegate_pipelines.hub.access import sessions as sessions_module
from tidegate_pipelines.hub.access.guard import local_path
from tidegate_pipelines.hub.access.oidc import Provider
from tidegate_pipelines.hub.access.sessions import PendingSignIn, Sessions
from tidegate_pipelines.hub.access.throttle import Throttle, TooManyAttempts
from tidegate_pipelines.hub.api import api_router, events
from tidegate_pipelines.hub.api.decisions import decision_routes
from tidegate_pipelines.hub.api.events import Places
from tidegate_pipelines.hub.api.sign_in import sign_in_routes
from tidegate_pipelines.hub.app import Hub, create_app
from tidegate_pipelines.hub.decisions import Decisions
from tidegate_pipelines.hub.pages import add_pages
from tidegate_pipelines.hub.people_config import AccessConfig, OidcConfig
from tidegate_pipelines.hub.receipts import Receipts
from tidegate_pipelines.hub.store import Database, PendingSignInRow
from tidegate_serving.contract.errors import ResourceExhausted, Unauthenticated, Unavailable

BOSS = {"authorization": f"Bearer {TOKENS['boss']}"}
BEFORE_THE_FIRST = "0001-01-01T00:00:00+23:59"
FREEZE = {"model": "flights", "until": (datetime.now(UTC) + timedelta(days=30)).isoformat(), "reason": "r", "key": "k"}
DEEP = b"[" * 100_000


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """SQLite: what differs on PostgreSQL is tested with the claims."""
    return f"sqlite:///{tmp_path}/hub.db"


@pytest.fixture
def hub(database: Database, tmp_path: Path) -> Hub:
    return make_hub(database, AccessConfig(file=people_file(tmp_path)))[0]


@pytest.fixture
def client(database: Database, tmp_path: Path) -> TestClient:
    hub, access, log = make_hub(database, AccessConfig(file=people_file(tmp_path)))
    decisions = Decisions(database, hub.config, log)
    routers = [api_router, lambda _: sign_in_routes(access), lambda _: decision_routes(hub, access, log, decisions)]
    app = create_app(hub, routers, access=access)
    add_pages(app, hub)
    return TestClient(app, "http://127.0.0.1:8600", follow_redirects=False)


def told(**changes: Any) -> dict[str, Any]:
    moment = "2026-01-01T00:00:00Z"
    return {
        "model": "flights",
        "version": 1,
        "succeeded": True,
        "begun": moment,
        "ended": moment,
        "key": "k",
        **changes,
    }


@pytest.mark.parametrize("since", [BEFORE_THE_FIRST, "2026-01-01", "2026-01-01T00:00:00", "9999-12-31T23:59:59-23:59"])
@pytest.mark.parametrize("path", ["traffic", "skew"])
def test_a_moment_without_zone_or_date_is_bad_input(client: TestClient, path: str, since: str) -> None:
    asked = {"model": "flights", "since": since}
    assert client.get(f"/api/v1/{path}", params=asked, headers=BOSS).status_code == 422


@pytest.mark.parametrize(
    ("path", "body"),
    [
        ("releases/elsewhere", told(begun=BEFORE_THE_FIRST)),
        ("releases/elsewhere", told(stages=[{"name": "fetch", "at": BEFORE_THE_FIRST}])),
        ("decisions/freeze", {**FREEZE, "until": BEFORE_THE_FIRST}),
        ("decisions/approve", {"release_id": 1, "reason": "r", "envelope": DEEP.decode()}),
    ],
)
def test_values_beyond_all_bounds_are_bad_input(client: TestClient, path: str, body: dict[str, Any]) -> None:
    assert client.post(f"/api/v1/{path}", json=body, headers=BOSS).status_code == 422


def test_true_is_no_version(client: TestClient) -> None:
    for path, body in (("releases", {"model": "flights", "reason": "r"}), ("releases/elsewhere", told())):
        answer = client.post(f"/api/v1/{path}", json={**body, "version": True}, headers=BOSS)
        assert (answer.status_code, answer.json()["error"]["message"]) == (
            422,
            "version is 'True': value error, input should be a whole number",
        )


def test_a_document_that_is_no_skew_report_is_bad_input(client: TestClient) -> None:
    answer = client.post("/api/v1/skew", json={"model": "flights"}, headers=BOSS)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_input")
    assert "is no tidegate.skew-report document" in answer.json()["error"]["message"]


@pytest.mark.parametrize(
    ("headers", "said"), [({}, "has no content-type"), ({"content-type": "text/plain"}, "is told to be 'text/plain'")]
)
def test_json_that_is_not_told_to_be_json_says_which_header_does(
    client: TestClient, headers: dict[str, str], said: str
) -> None:
    answer = client.post("/api/v1/releases", content=b'{"model": "flights", "version": 1}', headers={**BOSS, **headers})
    assert answer.status_code == 422
    assert answer.json()["error"]["message"] == (
        f"the request's body {said}: send JSON with the header `content-type: application/json`"
    )


@pytest.mark.parametrize("path", ["/", "/models", "/releases", "/engines", "/receipts", "/static/hub.css"])
def test_a_page_answers_head_as_it_answers_get(client: TestClient, path: str) -> None:
    told_headers = {**BOSS, "accept": "text/html"}
    found, asked = client.get(path, headers=told_headers), client.head(path, headers=told_headers)
    assert (asked.status_code, asked.headers["content-type"]) == (found.status_code, found.headers["content-type"])
    stranger = client.head(path, headers={"accept": "text/html"})
    assert stranger.status_code == client.get(path, headers={"accept": "text/html"}).status_code


@pytest.mark.parametrize("path", ["decisions/freeze", "labels?model=flights"])
def test_json_nested_without_end_is_bad_input(client: TestClient, path: str) -> None:
    headers = {**BOSS, "content-type": "application/json"}
    answer = client.post(f"/api/v1/{path}", content=DEEP, headers=headers)
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_input")


@pytest.mark.parametrize("path", ["/sign-in/token", "/api/v1/labels?model=flights"])
def test_a_form_that_takes_long_to_read_is_not_read(client: TestClient, path: str) -> None:
    headers = {**BOSS, "content-type": "application/x-www-form-urlencoded"}
    assert client.post(path, content=b"&" * (100 << 10), headers=headers).status_code == 413


def test_an_origin_that_is_no_address_is_another_page(client: TestClient) -> None:
    answer = client.post("/api/v1/decisions/freeze", json=FREEZE, headers={**BOSS, "origin": "http://["})
    assert (answer.status_code, answer.json()["error"]["code"]) == (403, "permission_refused")


def test_a_length_of_thousands_of_digits_is_no_length(client: TestClient) -> None:
    assert client.get("/health", headers={"content-length": "9" * 5000}).status_code == 400


def test_a_last_event_of_thousands_of_digits_is_no_event(client: TestClient) -> None:
    answer = client.get("/api/v1/events", headers={**BOSS, "last-event-id": "9" * 5000})
    assert answer.status_code == 422


@pytest.mark.parametrize("text", ["//[", "//[x]/", "/" + "a" * 2000])
def test_where_nobody_can_return_to_is_the_first_page(client: TestClient, text: str) -> None:
    assert local_path(text) == "/"
    form = {"token": TOKENS["boss"], "return_to": text}
    assert client.post("/sign-in/token", data=form).headers["location"] == "/"


def test_a_state_of_any_letters_is_another_sign_in(database: Database) -> None:
    sessions = Sessions(database, timedelta(hours=1), timedelta(hours=1))
    cookie, _ = sessions.send_to_provider("/")
    with pytest.raises(Unauthenticated, match="not begun in this browser"):
        sessions.back_from_provider(cookie, "é")


def test_all_addresses_of_a_network_are_one_who_guesses() -> None:
    throttle = Throttle(2)
    throttle.count("2001:db8:1:2::1")
    throttle.count("2001:db8:1:2:ffff::2")
    with pytest.raises(TooManyAttempts):
        throttle.check("2001:db8:1:2:3:4:5:6")
    throttle.check("2001:db8:1:3::1")


def test_an_address_of_ipv4_is_the_same_in_both_ways_to_write_it() -> None:
    throttle = Throttle(1)
    throttle.count("::ffff:10.0.0.1")
    with pytest.raises(TooManyAttempts):
        throttle.check("10.0.0.1")
    throttle.check("::ffff:10.0.0.2")


def test_nobody_takes_all_places_of_those_who_listen() -> None:
    places = Places(most=3, most_of_one=2)
    places.take("anna")
    places.take("anna")
    with pytest.raises(Unavailable, match="anna listens to 2 streams"):
        places.take("anna")
    places.take("ben")
    with pytest.raises(Unavailable, match="3 streams of events are open"):
        places.take("ci")
    places.give_back("anna")
    places.take("ci")


def test_a_client_that_hangs_up_gives_its_place_back() -> None:
    places = Places(most=1)

    async def endless() -> AsyncIterator[str]:
        yield "retry: 1000\n\n"
        await asyncio.Event().wait()

    async def hung_up() -> dict[str, Any]:
        return {"type": "http.disconnect"}

    async def nothing(_: Any) -> None:
        await asyncio.sleep(0)

    async def listen() -> None:
        places.take("anna")
        await events._Stream(endless(), places, "anna")({"type": "http"}, hung_up, nothing)

    asyncio.run(asyncio.wait_for(listen(), 20))
    places.take("ben")
    with pytest.raises(Unavailable, match="1 streams of events"):
        places.take("ci")


def test_whoever_may_not_look_any_more_hears_no_more(hub: Hub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(events, "_ASKED_AGAIN_SECONDS", 0.0)
    header = (b"authorization", BOSS["authorization"].encode())
    scope = {"type": "http", "method": "GET", "path": "/", "query_string": b"", "headers": [header], "client": None}
    assert hub.current_user(Request(dict(scope))).name == "boss"

    async def heard() -> list[str]:
        stream = events._stream(hub, scope, None, 0)
        first = await anext(stream)
        people_file(tmp_path, PEOPLE[: PEOPLE.index('[[token]]\nname = "boss"')])
        return [first, *[one async for one in stream]]

    assert asyncio.run(asyncio.wait_for(heard(), 20)) == ["retry: 1000\n\n"]


def test_those_who_wait_for_answers_to_be_computed_again_leave_threads_for_others(
    hub: Hub, monkeypatch: pytest.MonkeyPatch
) -> None:
    receipts, go_on = hub.receipts, threading.Event()

    def answers(*_: Any) -> list[Any]:
        return []

    def one_at_a_time(_: Any) -> list[Any]:
        assert go_on.wait(20)
        return []

    monkeypatch.setattr(receipts, "_answers", answers)
    monkeypatch.setattr(receipts, "_one_at_a_time", one_at_a_time)
    again = threading.Barrier(6)
    refused = threading.Semaphore(0)

    def ask() -> None:
        again.wait(20)
        try:
            receipts.compute_again("x", None, lambda _: True, lambda _: None)
        except ResourceExhausted:
            refused.release()

    threads = [threading.Thread(target=ask) for _ in range(6)]
    for one in threads:
        one.start()
    assert refused.acquire(timeout=20)
    assert not refused.acquire(blocking=False)
    go_on.set()
    for one in threads:
        one.join(20)


def test_programs_and_pages_have_answers_computed_again_in_turn(
    client: TestClient, monkeypatch: pytest.MonkeyPatch
) -> None:
    asked: list[Receipts] = []

    def compute_again(self: Receipts, *_: Any) -> list[Any]:
        asked.append(self)
        return []

    monkeypatch.setattr(Receipts, "compute_again", compute_again)
    assert client.post("/api/v1/receipts/again", json={"request_id": "x"}, headers=BOSS).status_code == 200
    assert client.post("/receipts", data={"id": "x", "model": "flights"}, headers=BOSS).status_code == 200
    assert asked[0] is asked[1]


def test_sign_ins_that_are_begun_and_left_do_not_gather(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sessions_module, "_MOST_PENDING", 3)
    sessions = Sessions(database, timedelta(hours=1), timedelta(hours=1))
    begun = [sessions.send_to_provider("/") for _ in range(9)]
    with database.reading() as session:
        assert session.scalar(select(func.count()).select_from(PendingSignInRow)) == 3
    cookie, pending = begun[-1]
    assert sessions.back_from_provider(cookie, pending.state) == pending
    with pytest.raises(Unauthenticated, match="sign in again"):
        sessions.back_from_provider(begun[0][0], begun[0][1].state)


def test_a_provider_that_sends_without_end_is_not_read_to_it() -> None:
    sent: list[int] = []
    with socket.create_server(("127.0.0.1", 0)) as server:

        def answer() -> None:
            connection, _ = server.accept()
            with connection, contextlib.suppress(ConnectionError):
                connection.recv(65536)
                connection.sendall(b"HTTP/1.1 200 OK\r\ncontent-length: 300000000\r\n\r\n")
                for _ in range(300):
                    connection.sendall(b" " * 1_000_000)
                    sent.append(1_000_000)

        thread = threading.Thread(target=answer)
        thread.start()
        provider = Provider(OidcConfig(issuer=f"http://127.0.0.1:{server.getsockname()[1]}", client_id="hub"))
        pending = PendingSignIn("s", "n", "v", "/")
        with pytest.raises(Unavailable, match=r"more than [0-9]+ bytes"):
            provider.address(pending, "http://127.0.0.1:8600/sign-in/oidc/return")
        thread.join(20)
    assert sum(sent) < 50_000_000


def test_a_document_of_any_bytes_is_refused(client: TestClient) -> None:
    for raw in (b"\xff\xfe", b"", b"null", b"9" * 10_000, b'"\\ud800"', DEEP):
        answer = client.post("/api/v1/releases", content=raw, headers={**BOSS, "content-type": "application/json"})
        assert 400 <= answer.status_code < 500, json.dumps(raw[:20].hex())
