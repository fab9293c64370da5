"""People in a real browser: they sign in, decide, and find what they did in the audit log."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from tests.support.browsers.browser import chromium, expect, opened
from tests.support.browsers.page_checks import grave, layout
from tests.support.hub.access import TOKENS, people_file
from tests.support.hub.pages import make_world, serving

from tidegate_pipelines.hub.config import HubConfig
from tidegate_pipelines.hub.people_config import AccessConfig, ApprovalRule
from tidegate_pipelines.hub.store import Database, ReleaseRow

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

pytestmark = pytest.mark.xdist_group("browser")
WAITS = "/releases/8"


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


@dataclass(frozen=True)
class Hub:
    """Where it is, and what it keeps."""

    address: str
    database: Database

    def state(self, release: int) -> str:
        with self.database.reading() as session:
            return session.get_one(ReleaseRow, release).state.value


@pytest.fixture
def hub(tmp_path: Path) -> Iterator[Hub]:
    """One that lets in whom an access file names, and in which versions of eta wait for boss."""
    database = Database(f"sqlite:///{tmp_path}/hub.db")
    make_world(database)
    rules = (ApprovalRule(("eta",), by=("boss",)),)
    config = HubConfig(access=AccessConfig(file=people_file(tmp_path)), approval=rules)
    with serving(database, config=config) as address:
        yield Hub(address, database)
    database.close()


def sign_in(page: Page, name: str) -> None:
    page.get_by_label("Token").fill(TOKENS[name])
    page.get_by_role("button", name="Sign in").click()


def test_everybody_can_use_the_way_in_and_is_told_why_a_token_counts_nothing(browser: Browser, hub: Hub) -> None:
    with opened(browser, hub.address + "/sign-in", own=hub.address) as (page, heard):
        assert (grave(page), layout(page)) == ([], {})
        assert (heard.errors, heard.elsewhere) == ([], [])
        page.get_by_label("Token").fill("guessed")
        page.get_by_role("button", name="Sign in").click()
        expect(page.get_by_role("alert")).to_contain_text("is not one that this hub knows")
        assert (grave(page), layout(page)) == ([], {})


def test_somebody_signs_in_approves_and_finds_it_in_the_audit_log(browser: Browser, hub: Hub) -> None:
    with opened(browser, hub.address + WAITS, own=hub.address) as (page, heard):
        sign_in(page, "gone")
        expect(page.get_by_role("alert")).to_contain_text("expired")
        sign_in(page, "boss")
        page.wait_for_url("**" + WAITS)
        expect(page.locator("h1")).to_contain_text("waits for a person")
        page.get_by_role("button", name="Approve").click()
        assert page.locator(".decide textarea:invalid").count() == 1, "a reason has to be given"
        assert hub.state(8) == "WAITING"
        page.locator(".decide").get_by_label("Reason").fill("looked at the slices")
        page.get_by_role("button", name="Approve").click()
        expect(page.locator(".verdict")).to_contain_text("boss approved it: looked at the slices")
        assert hub.state(8) == "REQUESTED"
        page.get_by_role("link", name="Audit").click()
        first = page.locator("tbody tr").first
        expect(first).to_contain_text("approve")
        expect(first).to_contain_text("looked at the slices")
        expect(page.locator(".notice")).to_contain_text("follow each other")
        with page.expect_download() as download:
            page.get_by_role("link", name="the whole log as JSON lines").click()
        assert "looked at the slices" in download.value.path().read_text()
        page.get_by_role("button", name="Sign out").click()
        expect(page.get_by_role("heading", name="Sign in")).to_be_visible()
        assert [one for one in heard.errors if "401" not in one] == []
        assert heard.elsewhere == []


def test_somebody_declines_and_the_release_says_so(browser: Browser, hub: Hub) -> None:
    with opened(browser, hub.address + WAITS, own=hub.address) as (page, _):
        sign_in(page, "boss")
        page.locator(".decide").get_by_label("Reason").fill("not on a Friday")
        page.get_by_role("button", name="Decline").click()
        expect(page.locator("h1")).to_contain_text("was declined")
        expect(page.locator(".verdict").first).to_contain_text("boss declined it: not on a Friday")
    assert hub.state(8) == "REFUSED"


def test_somebody_cancels_a_release_with_a_reason(browser: Browser, hub: Hub) -> None:
    with opened(browser, hub.address + WAITS, own=hub.address) as (page, _):
        sign_in(page, "boss")
        page.get_by_text("Cancel this release").click()
        page.locator(".action").get_by_label("Reason").fill("trained on the wrong month")
        page.get_by_role("button", name="Cancel the release").click()
        expect(page.locator("h1")).to_contain_text("somebody called it off")
        expect(page.locator(".verdict").first).to_contain_text("boss cancelled it: trained on the wrong month")
        assert page.get_by_text("Cancel this release").count() == 0
    assert hub.state(8) == "CANCELLED"


def test_who_may_only_look_is_told_whom_to_ask_and_changes_nothing(browser: Browser, hub: Hub) -> None:
    with opened(browser, hub.address + "/models/flights", own=hub.address) as (page, _):
        sign_in(page, "anna")
        expect(page.locator("h1")).to_have_text("flights")
        assert page.get_by_role("link", name="Audit").count() == 0
        assert page.get_by_text("Roll back").count() == 0
        page.goto(hub.address + "/audit")
        expect(page.locator("h1")).to_have_text("This is not yours to do")
        page.goto(hub.address + WAITS)
        assert page.get_by_text("Cancel this release").count() == 0
        page.get_by_label("Reason").fill("why not")
        page.get_by_role("button", name="Approve").click()
        expect(page.locator("h1")).to_have_text("This is not yours to do")
        expect(page.locator("main")).to_contain_text("boss may")
    assert hub.state(8) == "WAITING"
