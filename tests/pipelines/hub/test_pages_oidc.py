"""People sign in through a real provider with a real browser, and are told on a page why they are not let in."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.browsers.browser import chromium, expect, opened
from tests.support.browsers.page_checks import grave, layout
from tests.support.hub.access import people_file
from tests.support.hub.pages import serving
from tests.support.neighbours.oidc_provider import OidcProvider, oidc_provider

from tidegate_pipelines.hub.access import guard
from tidegate_pipelines.hub.access.oidc import Provider
from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.people_config import AccessConfig, OidcConfig
from tidegate_pipelines.hub.store import Database

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.xdist_group("browser")
WANTED = "/models?sort=name"
BUTTON = "Sign in with your organisation"
_HERE = "http://127.0.0.1:"
_HOUR = 3600


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@pytest.fixture(scope="module")
def running() -> Iterator[OidcProvider]:
    with oidc_provider() as found:
        found.user("ben", email="ben@example.com", email_verified=True)
        yield found


@pytest.fixture
def provider(running: OidcProvider) -> Iterator[OidcProvider]:
    yield running
    running.misbehave()
    running.rotate()


@pytest.fixture
def hub(provider: OidcProvider, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """One whose people sign in at the provider, and which asks for its keys whenever one is missing."""
    monkeypatch.setattr(guard, "Provider", partial(Provider, keys_pause=0.0))
    database = Database(f"sqlite:///{tmp_path}/hub.db")
    database.migrate()
    secret = tmp_path / "client.secret"
    secret.write_text("hush\n")
    secret.chmod(0o600)
    oidc = OidcConfig(issuer=provider.issuer, client_id="hub", client_secret_file=secret)
    config = HubConfig(access=AccessConfig(file=people_file(tmp_path), oidc=oidc))
    with serving(database, config=config) as address:
        yield address
    database.close()


@contextmanager
def at_the_door(browser: Browser, hub: str) -> Iterator[Page]:
    """The page of somebody who asked for a list of models and is to sign in first. Only the provider's own page, which
    has its style from elsewhere, may ask for anything beyond this machine."""
    with opened(browser, hub + WANTED, own=_HERE) as (page, heard):
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        yield page
        assert [one for one in heard.elsewhere if "/@picocss/" not in one] == []


def sign_in(page: Page, subject: str) -> None:
    """There, as this person, and back."""
    page.get_by_role("link", name=BUTTON).click()
    page.get_by_placeholder("sub").fill(subject)
    page.get_by_role("button", name="Authorize", exact=True).click()


def expired(now: int) -> dict[str, object]:
    return {"exp": now - _HOUR, "iat": now - 2 * _HOUR}


def of_another_client(now: int) -> dict[str, object]:
    return {"aud": "another-client"}


def of_a_clock_that_is_five_minutes_off(now: int) -> dict[str, object]:
    return {"iat": now + 300, "exp": now + _HOUR}


def test_somebody_signs_in_at_the_provider_and_comes_back_to_what_they_wanted(browser: Browser, hub: str) -> None:
    with at_the_door(browser, hub) as page:
        sign_in(page, "ben")
        page.wait_for_url(hub + WANTED, timeout=60_000)
        expect(page.locator("header")).to_contain_text("ben@example.com")
        (cookie,) = [one for one in page.context.cookies(hub) if one.get("name") == "tidegate"]
        assert (cookie.get("httpOnly"), cookie.get("sameSite")) == (True, "Lax")
        assert page.evaluate("document.cookie") == ""
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        page.goto(hub + WANTED)
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()


@pytest.mark.parametrize(
    ("claims", "said"),
    [
        (expired, "expired at"),
        (of_another_client, "mend client_id"),
        (of_a_clock_that_is_five_minutes_off, "the hub's clock says"),
    ],
)
def test_a_page_says_why_a_token_counts_nothing_and_the_next_try_leads_where_they_wanted(
    browser: Browser, hub: str, provider: OidcProvider, claims: Callable[[int], dict[str, object]], said: str
) -> None:
    provider.misbehave(claims=claims(int(time.time())))
    with at_the_door(browser, hub) as page:
        sign_in(page, "ben")
        expect(page.get_by_role("alert")).to_contain_text(said)
        assert (grave(page), layout(page)) == ([], {})
        assert [one.get("name") for one in page.context.cookies(hub)] == []
        provider.misbehave()
        sign_in(page, "ben")
        page.wait_for_url(hub + WANTED, timeout=60_000)


def test_who_is_no_member_is_told_on_the_page(browser: Browser, hub: str) -> None:
    with at_the_door(browser, hub) as page:
        sign_in(page, "mallory")
        expect(page.get_by_role("alert")).to_contain_text("is no member of this hub")


def test_who_turns_back_at_the_provider_is_told_on_the_page(browser: Browser, hub: str) -> None:
    with at_the_door(browser, hub) as page:
        page.get_by_role("link", name=BUTTON).click()
        page.get_by_role("button", name="Deny").click()
        expect(page.get_by_role("alert")).to_contain_text("access_denied")
        sign_in(page, "ben")
        page.wait_for_url(hub + WANTED, timeout=60_000)


def test_a_new_key_of_the_provider_lets_people_in_and_an_unknown_one_does_not(
    browser: Browser, hub: str, provider: OidcProvider
) -> None:
    with at_the_door(browser, hub) as page:
        sign_in(page, "ben")
        page.wait_for_url(hub + WANTED, timeout=60_000)
    provider.rotate()
    with at_the_door(browser, hub) as page:
        sign_in(page, "ben")
        page.wait_for_url(hub + WANTED, timeout=60_000)
    provider.forge()
    with at_the_door(browser, hub) as page:
        sign_in(page, "ben")
        expect(page.get_by_role("alert")).to_contain_text("not signed by a key of")
