"""Signing in through a provider, a real one in a process of its own, and through one that misbehaves."""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest
from starlette.testclient import TestClient
from tests.support.hub.access import make_app, make_hub, people_file
from tests.support.neighbours.oidc_provider import OidcProvider, oidc_provider

from tidegate_pipelines.hub.access.oidc import Provider
from tidegate_pipelines.hub.audit import AuditLog, Outcome
from tidegate_pipelines.hub.people_config import AccessConfig, OidcConfig
from tidegate_pipelines.hub.store import Database

HERE = "http://127.0.0.1:8600"
BEN = {"email": "ben@example.com", "email_verified": True}


@pytest.fixture(scope="module")
def running() -> Iterator[OidcProvider]:
    with oidc_provider() as found:
        yield found


@pytest.fixture
def provider(running: OidcProvider) -> Iterator[OidcProvider]:
    running.user("ben", **BEN)
    running.user("carla", email="carla@example.com", email_verified=True, groups=["flights-people"])
    yield running
    running.misbehave()
    running.rotate()


@pytest.fixture
def database_url(tmp_path: Path) -> str:
    """SQLite: what differs on PostgreSQL is tested with the claims."""
    return f"sqlite:///{tmp_path}/hub.db"


class Browser:
    """A person's browser, and the hub that it goes to."""

    def __init__(self, database: Database, config: AccessConfig, provider: OidcProvider) -> None:
        hub, self.access, self.log = make_hub(database, config)
        self.access.provider = Provider(config.oidc, keys_pause=0.0)
        self.client = TestClient(make_app(hub, self.access), HERE, follow_redirects=False)
        self.provider = provider

    def go(self, return_to: str = "/models/spam") -> str:
        """To the provider's page."""
        answer = self.client.get("/sign-in/oidc", params={"return_to": return_to})
        assert answer.status_code == 303, answer.text
        return str(answer.headers["location"])

    def sign_in(self, subject: str = "ben") -> Any:
        """There and back."""
        return self.client.get(self.provider.sign_in(self.go(), subject))


@pytest.fixture
def browser(database: Database, provider: OidcProvider, tmp_path: Path) -> Browser:
    secret = tmp_path / "client.secret"
    secret.write_text("hush\n")
    secret.chmod(0o600)
    oidc = OidcConfig(issuer=provider.issuer, client_id="hub", client_secret_file=secret)
    return Browser(database, AccessConfig(file=people_file(tmp_path), oidc=oidc), provider)


def assert_refused(browser: Browser, answer: Any, said: str) -> None:
    assert answer.status_code == 401, answer.text
    assert answer.json()["error"]["code"] == "unauthenticated"
    assert said in answer.json()["error"]["message"]
    assert "tidegate=" not in answer.headers.get("set-cookie", "").replace("tidegate-sign-in=", "")
    assert browser.client.get("/").status_code == 401
    assert browser.log.newest(1)[0].act.outcome is Outcome.REFUSED


def test_a_member_signs_in_and_returns_to_where_they_wanted(browser: Browser) -> None:
    answer = browser.sign_in()

    assert (answer.status_code, answer.headers["location"]) == (303, "/models/spam")
    assert browser.client.get("/api/v1/me").json()["grants"] == [
        {"role": "operate", "team": "mail", "models": ["spam"]}
    ]
    form = {"form_token": browser.client.get("/").text}
    assert browser.client.post("/models/spam/pin", data=form).json() == {"by": "ben@example.com"}
    assert browser.client.post("/models/flights/pin", data=form).status_code == 403
    assert [line.act.action for line in browser.log.newest(2)] == ["pin", "sign-in"]


def test_a_group_of_the_provider_gives_its_role(browser: Browser) -> None:
    browser.sign_in("carla")

    me = browser.client.get("/api/v1/me").json()
    assert (me["name"], me["grants"][0]["role"]) == ("carla@example.com", "release")


def test_what_is_sent_to_the_provider_holds_state_nonce_and_challenge(browser: Browser) -> None:
    query = parse_qs(urlsplit(browser.go()).query)

    assert query["code_challenge_method"] == ["S256"]
    assert query["redirect_uri"] == [f"{HERE}/sign-in/oidc/return"]
    assert all(len(query[key][0]) >= 43 for key in ("state", "nonce", "code_challenge"))


def test_somebody_who_is_no_member_is_told_so(browser: Browser) -> None:
    assert_refused(browser, browser.sign_in("mallory"), "is no member of this hub")


def test_an_address_that_nobody_verified_makes_no_member(browser: Browser, provider: OidcProvider) -> None:
    provider.user("liar", email="ben@example.com", email_verified=False)
    assert_refused(browser, browser.sign_in("liar"), "is no member of this hub")


def test_nobody_is_called_by_an_address_that_nobody_verified(browser: Browser, provider: OidcProvider) -> None:
    provider.user("liar", email="ben@example.com", email_verified=False, groups=["flights-people"])
    assert browser.sign_in("liar").status_code == 303
    (line,) = browser.log.newest(1)
    assert line.act.who == "liar"


def at(seconds: float) -> int:
    return int(time.time() + seconds)


def moved(faults: Mapping[str, Any]) -> dict[str, Any]:
    """The faults with each time, which is said in seconds from now, as the time of the day that it is."""
    claims = {name: at(value) if isinstance(value, int) else value for name, value in faults.get("claims", {}).items()}
    return {**faults, "claims": claims} if claims else dict(faults)


@pytest.mark.parametrize(
    ("faults", "said"),
    [
        ({"claims": {"exp": -3600, "iat": -7200}}, "expired at"),
        ({"claims": {"aud": "another"}}, "mend client_id"),
        ({"claims": {"aud": ["hub", "another"], "azp": "another"}}, "mend client_id"),
        ({"claims": {"iss": "https://evil.example"}}, "is from 'https://evil.example'"),
        ({"claims": {"nonce": "of another sign-in"}}, "nonce differs"),
        ({"claims": {"iat": 300}}, "the hub's clock says"),
        ({"claims": {"exp": -300}}, "set both clocks right"),
        ({"claims": {"exp": "tomorrow"}}, "does not say when"),
        ({"claims": {"sub": ""}}, "names nobody"),
        ({"alg": "none"}, "does not count"),
        ({"alg": "HS256"}, "does not count"),
    ],
)
def test_a_token_that_does_not_count_lets_nobody_in(
    browser: Browser, provider: OidcProvider, faults: dict[str, Any], said: str
) -> None:
    provider.misbehave(**moved(faults))
    assert_refused(browser, browser.sign_in(), said)


def test_a_clock_that_is_a_little_off_does_no_harm(browser: Browser, provider: OidcProvider) -> None:
    provider.misbehave(claims={"iat": at(30), "exp": at(-30)})
    assert browser.sign_in().status_code == 303


def test_a_new_key_of_the_provider_is_found(browser: Browser, provider: OidcProvider) -> None:
    assert browser.sign_in().status_code == 303
    provider.rotate()
    assert browser.sign_in().status_code == 303


def test_a_key_that_the_provider_does_not_publish_counts_nothing(browser: Browser, provider: OidcProvider) -> None:
    provider.forge()
    assert_refused(browser, browser.sign_in(), "not signed by a key of")


def test_a_code_counts_once_and_in_the_browser_that_asked(browser: Browser, database: Database) -> None:
    back = browser.provider.sign_in(browser.go(), "ben")
    other = TestClient(browser.client.app, HERE, follow_redirects=False)

    assert other.get(back).status_code == 401
    cookie = browser.client.cookies["tidegate-sign-in"]
    assert browser.client.get(back).status_code == 303
    browser.client.cookies["tidegate-sign-in"] = cookie
    again = browser.client.get(back)
    assert (again.status_code, "was finished already" in again.json()["error"]["message"]) == (401, True)


def test_a_state_that_was_not_sent_counts_nothing(browser: Browser) -> None:
    back = browser.provider.sign_in(browser.go(), "ben")
    assert_refused(browser, browser.client.get(back.replace("state=", "state=x")), "was not begun in this browser")


def test_the_verifier_has_to_fit(browser: Browser, monkeypatch: pytest.MonkeyPatch) -> None:
    person = browser.access.provider.person if browser.access.provider else None
    assert person is not None
    monkeypatch.setattr(
        browser.access.provider, "person", lambda code, pending, uri: person(code, replace(pending, verifier="x"), uri)
    )
    assert_refused(browser, browser.sign_in(), "wrong code_verifier")


def test_somebody_who_turns_back_at_the_provider_is_told_so(browser: Browser) -> None:
    state = parse_qs(urlsplit(browser.go()).query)["state"][0]
    answer = browser.client.get(f"/sign-in/oidc/return?error=access_denied&state={state}")
    assert_refused(browser, answer, "access_denied")


def test_what_somebody_else_calls_an_error_of_the_provider_is_not_said(browser: Browser) -> None:
    browser.go()
    answer = browser.client.get("/sign-in/oidc/return?error=call+555-0100&state=x")
    assert_refused(browser, answer, "was not begun in this browser")
    assert not any("555-0100" in text for text in (answer.text, str(browser.log.newest(9))))


def test_a_provider_that_is_away_is_said(database: Database, tmp_path: Path, provider: OidcProvider) -> None:
    oidc = OidcConfig(issuer="http://127.0.0.1:9", client_id="hub")
    away = Browser(database, AccessConfig(file=people_file(tmp_path), oidc=oidc), provider)

    answer = away.client.get("/sign-in/oidc")

    assert answer.status_code == 503
    assert "the provider does not answer at http://127.0.0.1:9" in answer.json()["error"]["message"]


def test_a_provider_of_another_name_is_refused(database: Database, tmp_path: Path, provider: OidcProvider) -> None:
    oidc = OidcConfig(issuer=provider.issuer.replace("127.0.0.1", "localhost") + "/x", client_id="hub")
    other = Browser(database, AccessConfig(file=people_file(tmp_path), oidc=oidc), provider)
    assert other.client.get("/sign-in/oidc").status_code in (401, 503)


def test_the_log_of_a_sign_in_holds_no_code_and_no_token(browser: Browser) -> None:
    back = browser.provider.sign_in(browser.go(), "ben")
    browser.client.get(back)
    code = parse_qs(urlsplit(back).query)["code"][0]
    assert not any(code in str(line) for line in AuditLog.newest(browser.log, 9))
