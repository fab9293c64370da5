"""Who is let into the hub, as whom, and what no other page can do in their name."""

from __future__ import annotations

from dataclasses import replace
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from sqlalchemy import select, update
from starlette.responses import PlainTextResponse
from starlette.testclient import TestClient
from starlette.types import Message, Receive, Scope, Send
from tests.support.hub.access import PEOPLE, TOKENS, make_app, make_hub, people_file

from tidegate_pipelines.hub.access import Protection
from tidegate_pipelines.hub.access.guard import local_path
from tidegate_pipelines.hub.access.people_file import read_people
from tidegate_pipelines.hub.access.throttle import Throttle, TooManyAttempts
from tidegate_pipelines.hub.audit import AuditLog, Outcome
from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.people_config import AccessConfig, OidcConfig
from tidegate_pipelines.hub.store import Database, SessionRow
from tidegate_serving.contract.errors import InvalidInput

HERE = "http://127.0.0.1:8600"


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """SQLite: what differs on PostgreSQL is tested with the claims."""
    return f"sqlite:///{tmp_path}/hub.db"


@pytest.fixture
def config(tmp_path: Path) -> AccessConfig:
    return AccessConfig(file=people_file(tmp_path))


def client_of(database: Database, config: AccessConfig, url: str = HERE, **options: Any) -> tuple[TestClient, AuditLog]:
    hub, access, log = make_hub(database, config, "" if url == HERE else url)
    return TestClient(make_app(hub, access), url, follow_redirects=False, **options), log


def bearer(name: str) -> dict[str, str]:
    return {"authorization": f"Bearer {TOKENS[name]}"}


def signed_in(client: TestClient, name: str) -> str:
    """Signs in by token; what forms have to bring."""
    answer = client.post("/sign-in/token", data={"token": TOKENS[name]})
    assert answer.status_code == 303, answer.text
    return client.get("/").text


def error_of(answer: Any) -> tuple[int, str]:
    return answer.status_code, answer.json()["error"]["code"]


def test_without_configuration_the_local_user_may_do_everything(database: Database) -> None:
    client, _ = client_of(database, AccessConfig())

    assert client.post("/models/flights/pin").json() == {"by": "local"}
    assert client.get("/api/v1/me").json()["grants"] == [{"role": "operate", "team": "*", "models": ["*"]}]


@pytest.mark.parametrize(
    ("token", "model", "wanted"),
    [
        ("ci", "flights", 200),
        ("ci", "flights-eu", 200),
        ("ci", "spam", 403),
        ("anna", "flights", 403),
        ("boss", "spam", 200),
        ("gone", "spam", 401),
        (None, "spam", 401),
    ],
)
def test_a_role_counts_for_the_models_of_its_team(
    database: Database, config: AccessConfig, token: str | None, model: str, wanted: int
) -> None:
    client, _ = client_of(database, config)

    answer = client.post(f"/models/{model}/pin", headers=bearer(token) if token else {})

    assert answer.status_code == wanted
    if wanted != 200:
        assert error_of(answer)[1] == {403: "permission_refused", 401: "unauthenticated"}[wanted]


def test_what_is_refused_is_in_the_audit_log_with_who_and_why(database: Database, config: AccessConfig) -> None:
    client, log = client_of(database, config)

    client.post("/models/spam/pin", headers=bearer("ci"))
    client.post("/models/spam/pin", headers={"authorization": "Bearer tg_wrong"})

    unknown, refused = log.newest(9)
    assert (refused.act.who, refused.act.action, refused.act.thing) == ("ci", "pin", "/models/spam/pin")
    assert refused.act.outcome is Outcome.REFUSED
    assert refused.act.address == "testclient"
    assert "role release for model 'spam'" in refused.act.reason
    assert (unknown.act.who, unknown.act.detail["code"]) == ("unknown", "unauthenticated")


def test_whoever_is_taken_out_of_the_file_is_out_with_the_next_request(
    database: Database, config: AccessConfig, tmp_path: Path
) -> None:
    client, _ = client_of(database, config)
    signed_in(client, "boss")
    assert client.get("/").status_code == 200

    people_file(
        tmp_path, PEOPLE.replace('name = "boss"\nsha256 = "', 'name = "boss"\nsha256 = "0000').replace("0000", "", 0)
    )
    people_file(tmp_path, PEOPLE[: PEOPLE.index('[[token]]\nname = "boss"')])

    assert error_of(client.get("/")) == (401, "unauthenticated")


def test_a_broken_file_changes_nothing(database: Database, config: AccessConfig, tmp_path: Path) -> None:
    client, _ = client_of(database, config)
    people_file(tmp_path, "nonsense")

    assert client.get("/", headers=bearer("anna")).status_code == 200


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        ('teams = ["mail"]', 'teams = ["none"]', "team 'none' is named but not there"),
        ('email = "ben@example.com"', 'email = "b@e"\ngroup = "g"', "one of subject, email and group"),
        ('models = ["spam"]', "models = []", "write patterns"),
        ('name = "ci"', 'name = "ci"\ncolour = "red"', "unknown key 'colour'"),
        ("hub-access/1", "hub-access/2", "use the Tidegate version"),
    ],
)
def test_a_file_that_cannot_be_used_says_why(tmp_path: Path, old: str, new: str, said: str) -> None:
    with pytest.raises(Exception, match=said):
        read_people(people_file(tmp_path, PEOPLE.replace(old, new, 1)))


def test_a_session_is_a_cookie_that_no_script_reads_and_that_is_new_with_each_sign_in(
    database: Database, config: AccessConfig
) -> None:
    client, _ = client_of(database, config)
    first = client.post("/sign-in/token", data={"token": TOKENS["anna"], "return_to": "/models"})
    cookie = first.headers["set-cookie"]
    before = client.cookies["tidegate"]

    assert first.headers["location"] == "/models"
    assert "HttpOnly" in cookie
    assert "SameSite=Lax" in cookie
    assert "Secure" not in cookie
    assert TOKENS["anna"] not in cookie

    signed_in(client, "boss")
    assert client.cookies["tidegate"] != before
    old, _ = client_of(database, config)
    old.cookies["tidegate"] = before
    assert error_of(old.get("/")) == (401, "unauthenticated")


def test_under_tls_the_cookie_is_secure_and_the_answer_says_to_stay_with_tls(
    database: Database, config: AccessConfig
) -> None:
    client, _ = client_of(database, config, "https://hub.example.com")
    answer = client.post("/sign-in/token", data={"token": TOKENS["anna"]})

    assert answer.headers["set-cookie"].startswith("__Host-tidegate=")
    assert "; Secure" in answer.headers["set-cookie"]
    assert "max-age=31536000" in answer.headers["strict-transport-security"]
    assert client.get("/").status_code == 200


def test_no_cookie_is_in_the_database(database: Database, config: AccessConfig) -> None:
    client, _ = client_of(database, config)
    signed_in(client, "anna")

    with database.reading() as session:
        (row,) = session.scalars(select(SessionRow))
    assert client.cookies["tidegate"] not in str(vars(row))
    assert TOKENS["anna"] not in str(vars(row))


@pytest.mark.parametrize(("column", "hours"), [("expires_at", 0), ("seen_at", 4)])
def test_a_session_that_is_over_or_idle_ends(database: Database, config: AccessConfig, column: str, hours: int) -> None:
    client, _ = client_of(database, config)
    signed_in(client, "anna")
    with database.writing() as session:
        now = session.scalars(select(SessionRow.created_at)).one()
        session.execute(update(SessionRow).values({column: now - timedelta(hours=hours)}))

    assert error_of(client.get("/")) == (401, "unauthenticated")


def test_signing_out_ends_the_session(database: Database, config: AccessConfig) -> None:
    client, log = client_of(database, config)
    token = signed_in(client, "anna")
    cookie = client.cookies["tidegate"]

    assert client.post("/sign-out", data={"form_token": token}).status_code == 303
    client.cookies["tidegate"] = cookie

    assert error_of(client.get("/")) == (401, "unauthenticated")
    assert [line.act.action for line in log.newest(2)] == ["sign-out", "sign-in"]


@pytest.mark.parametrize("given", ["", "wrong", None])
def test_a_form_without_its_token_does_nothing(database: Database, config: AccessConfig, given: str | None) -> None:
    client, log = client_of(database, config)
    right = signed_in(client, "boss")

    answer = client.post("/models/spam/pin", data={} if given is None else {"form_token": given})

    assert error_of(answer) == (403, "permission_refused")
    assert log.newest(1)[0].act.who == "boss"
    assert client.post("/models/spam/pin", data={"form_token": right}).status_code == 200
    assert client.post("/models/spam/pin", json={}, headers={"x-form-token": right}).status_code == 200
    assert client.post("/models/spam/pin", json={}).status_code == 403


@pytest.mark.parametrize(
    "headers",
    [
        {"origin": "https://evil.example"},
        {"origin": "null"},
        {"sec-fetch-site": "cross-site"},
        {"sec-fetch-site": "same-site"},
    ],
)
def test_another_sites_page_can_do_nothing(database: Database, config: AccessConfig, headers: dict[str, str]) -> None:
    client, _ = client_of(database, config)
    right = signed_in(client, "boss")
    answer = client.post("/models/spam/pin", data={"form_token": right}, headers=headers)
    assert error_of(answer) == (403, "permission_refused")

    local, _ = client_of(database, AccessConfig())
    assert local.post("/models/spam/pin", headers=headers).status_code == 403


def test_a_browser_of_the_local_user_needs_the_forms_token_too(database: Database) -> None:
    client, _ = client_of(database, AccessConfig())
    browser = {"origin": HERE, "sec-fetch-site": "same-origin"}

    assert client.post("/models/m/pin", data={}, headers=browser).status_code == 403
    token = client.get("/").text
    assert client.post("/models/m/pin", data={"form_token": token}, headers=browser).status_code == 200


def test_a_name_that_is_not_the_hubs_is_refused(database: Database) -> None:
    client, _ = client_of(database, AccessConfig())

    answer = client.get("/", headers={"host": "rebound.example:8600"})

    assert answer.status_code == 421
    assert "rebound.example" in answer.json()["error"]["message"]
    assert client.get("/", headers={"host": "localhost:8600"}).status_code == 200
    assert client.get("/health", headers={"host": "10.0.0.7:8600"}).status_code == 200


def test_every_answer_carries_what_a_browser_has_to_know(database: Database, config: AccessConfig) -> None:
    client, _ = client_of(database, config)

    for answer in (
        client.get("/"),
        client.get("/nothing"),
        client.get("/", headers=bearer("anna")),
        client.get("/health"),
    ):
        headers = answer.headers
        assert "default-src 'self'" in headers["content-security-policy"]
        assert "frame-ancestors 'none'" in headers["content-security-policy"]
        assert "unsafe-inline" not in headers["content-security-policy"]
        assert headers["x-content-type-options"] == "nosniff"
        assert headers["referrer-policy"] == "same-origin"
        assert headers["cache-control"] == "no-store"
        assert "strict-transport-security" not in headers


def test_a_body_that_is_too_large_is_refused_whether_or_not_its_length_is_said(
    database: Database, config: AccessConfig
) -> None:
    client, _ = client_of(database, config)
    large = b"x" * ((1 << 20) + 1)

    assert error_of(client.post("/sign-in/token", content=large)) == (413, "resource_exhausted")
    form = {"content-type": "application/x-www-form-urlencoded"}
    begun = f"token={TOKENS['boss']}&more=".encode()
    chunks = client.post("/sign-in/token", content=iter([begun, large, b"y"]), headers=form)
    assert error_of(chunks) == (413, "resource_exhausted")
    with database.reading() as session:
        assert session.scalars(select(SessionRow)).all() == []


def test_of_a_body_that_is_too_large_no_room_sees_more_than_is_allowed() -> None:
    seen: list[Message] = []

    async def greedy(scope: Scope, receive: Receive, send: Send) -> None:
        while not seen or seen[-1].get("more_body"):
            seen.append(await receive())
        await PlainTextResponse("done")(scope, receive, send)

    client = TestClient(Protection(greedy, config=AccessConfig(), public_url=""), HERE)
    answer = client.post("/", content=iter([b"x" * (1 << 19)] * 4))

    assert error_of(answer) == (413, "resource_exhausted")
    assert sum(len(message.get("body", b"")) for message in seen) <= 1 << 20
    assert seen[-1]["type"] == "http.disconnect"


def test_whoever_guesses_has_to_wait(database: Database, config: AccessConfig) -> None:
    client, log = client_of(database, replace(config, attempts=3))
    for _ in range(3):
        assert client.post("/sign-in/token", data={"token": "tg_guess"}).status_code == 401

    answer = client.post("/sign-in/token", data={"token": TOKENS["boss"]})

    assert answer.status_code == 429
    assert 0 < int(answer.headers["retry-after"]) <= 901
    assert client.get("/", headers={"authorization": "Bearer tg_guess"}).status_code == 429
    assert client.get("/", headers=bearer("anna")).status_code == 200
    assert len(log.newest(99)) == 3


def test_a_program_that_guesses_has_to_wait_too(database: Database, config: AccessConfig) -> None:
    client, _ = client_of(database, replace(config, attempts=2))
    guess = {"authorization": "Bearer tg_guess"}
    assert [client.get("/", headers=guess).status_code for _ in range(3)] == [401, 401, 429]


def test_a_throttle_forgets_after_its_window() -> None:
    now = [0.0]
    throttle = Throttle(2, lambda: now[0])
    throttle.count("a")
    throttle.count("a")
    with pytest.raises(TooManyAttempts):
        throttle.check("a")
    throttle.check("b")
    now[0] = 901.0
    throttle.check("a")


def test_behind_a_proxy_its_word_counts_and_nobody_elses(database: Database, config: AccessConfig) -> None:
    config = replace(config, proxies=("10.0.0.0/8",))
    forwarded = {"x-forwarded-for": "8.8.8.8, 192.0.2.7", "x-forwarded-proto": "https", **bearer("anna")}
    url = "http://hub.example.com"

    def get(peer: str, headers: dict[str, str]) -> Any:
        hub, access, _ = make_hub(database, config, "https://hub.example.com")
        client = TestClient(make_app(hub, access), url, client=(peer, 1), follow_redirects=False)
        return client.get("/", headers=headers)

    assert get("10.1.2.3", forwarded).status_code == 200
    assert get("192.0.2.9", forwarded).status_code == 403
    assert get("10.1.2.3", {**forwarded, "x-forwarded-proto": "http"}).status_code == 403


@pytest.mark.parametrize(
    ("address", "changes", "public_url", "said"),
    [
        ("0.0.0.0:8600", {"file": None}, "https://h", "name an access file"),
        ("0.0.0.0:8600", {}, "https://h", "without TLS"),
        ("hub.example.com:8600", {"proxies": ("10.0.0.1",)}, "http://h", "write the https:// URL"),
        ("127.0.0.1:8600", {"file": None, "proxies": ("10.0.0.1",)}, "https://h", "name an access file"),
        ("nonsense", {"file": None}, "", "address is 'nonsense': write host:port"),
        ("", {"file": None}, "", "address is '': write host:port"),
    ],
)
def test_beyond_this_machine_nothing_without_tls_and_sign_in(
    config: AccessConfig, address: str, changes: dict[str, Any], public_url: str, said: str
) -> None:
    with pytest.raises(InvalidInput, match=said):
        HubConfig(address=address, public_url=public_url, access=replace(config, **changes))


def test_beyond_this_machine_with_both(config: AccessConfig) -> None:
    own = replace(config, certificate=Path("c"), key=Path("k"))
    behind = replace(config, proxies=("10.0.0.1",))
    for address, access in (("0.0.0.0:443", own), ("0.0.0.0:80", behind)):
        assert HubConfig(address=address, public_url="https://h", access=access).access == access
    assert HubConfig().access == AccessConfig(), "on this machine nothing is needed"


@pytest.mark.parametrize(
    "issuer", ["http://accounts.example.com", "accounts.example.com", "https://", "ftp://127.0.0.1"]
)
def test_a_provider_is_reached_by_tls(issuer: str) -> None:
    with pytest.raises(InvalidInput, match="write an https:// URL"):
        OidcConfig(issuer=issuer, client_id="hub")


@pytest.mark.parametrize(
    "text", ["https://evil.example", "//evil.example", "/\\evil.example", "evil", "/a\nb", "\\\\evil", ""]
)
def test_one_returns_to_this_hub_alone(text: str) -> None:
    assert local_path(text) == "/"
    assert local_path("/models/a?b=c") == "/models/a?b=c"
