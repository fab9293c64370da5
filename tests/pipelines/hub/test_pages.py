"""The pages in a real browser: nothing runs out of its box, nothing asks elsewhere, and everybody can use them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import TYPE_CHECKING
from urllib.parse import quote

import httpx
import pytest
from sqlalchemy import select
from starlette.testclient import TestClient
from tests.support.browsers.browser import Heard, chromium, opened
from tests.support.browsers.page_checks import grave, layout
from tests.support.eventually import eventually
from tests.support.hub.access import make_hub
from tests.support.hub.pages import MODELS, NOW, make_world, serving
from tests.support.hub.receipts import ANSWERED, MANY, request_ids
from tests.support.hub.verdict import FEATURES, Texts

from tidegate_pipelines.hub.app import create_app
from tidegate_pipelines.hub.config import HubConfig, ReleaseConfig
from tidegate_pipelines.hub.pages import add_pages
from tidegate_pipelines.hub.people_config import AccessConfig
from tidegate_pipelines.hub.store import (
    AuditLineRow,
    Database,
    EngineRow,
    ModelRow,
    ReleaseEventRow,
    ReleaseRow,
    ReleaseState,
    ServedVersionRow,
)

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.xdist_group("browser")
PAGES = {
    "now": "/",
    "models": "/models",
    "model": "/models/flights",
    "model of three months": "/models/flights?days=90",
    "model that nobody knows much of": "/models/spam",
    "feature": "/features/flights?name=distance",
    "releases": "/releases",
    "refused": "/releases/7",
    "failed": "/releases/4",
    "waiting": "/releases/8",
    "running": "/releases/10",
    "requested": "/releases/9",
    "engines": "/engines",
    "audit": "/audit",
    "audit of nothing": "/audit?who=nobody",
    "receipts": "/receipts",
    "receipt": f"/receipts?id={ANSWERED}",
    "receipt of many rows": f"/receipts?id={MANY}",
    "receipt of nothing": "/receipts?id=unknown",
}
NOTHING = ("receipt of nothing", "nothing")
"""Pages that are answers of 404, which browsers complain of."""


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    with chromium() as found:
        yield found


def world(folder: Path, *, hostile: bool = False) -> Database:
    database = Database(f"sqlite:///{folder}/hub.db")
    make_world(database, hostile=hostile, folder=folder)
    return database


def config(folder: Path) -> HubConfig:
    return HubConfig(releases=ReleaseConfig(repository=folder / "models"))


@pytest.fixture(scope="module")
def hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("pages")
    database = world(folder)
    with serving(database, config=config(folder)) as address:
        yield address
    database.close()


@pytest.fixture(scope="module")
def hostile_hub(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    folder = tmp_path_factory.mktemp("hostile")
    database = world(folder, hostile=True)
    with serving(database, config=config(folder)) as address:
        yield address
    database.close()


@pytest.mark.parametrize("name", PAGES)
def test_everybody_can_use_a_page_and_nothing_is_cut_off(browser: Browser, hub: str, name: str) -> None:
    with opened(browser, hub + PAGES[name], own=hub) as (page, heard):
        assert layout(page) == {}
        assert grave(page) == []
        assert complaints(heard, name) == ([], [])


def complaints(heard: Heard, name: str) -> tuple[list[str], list[str]]:
    """What the browser complained of, and what a page asked for elsewhere."""
    return [one for one in heard.errors if name not in NOTHING or "404" not in one], heard.elsewhere


def hostile_pages() -> dict[str, str]:
    say = Texts(hostile=True)
    model, feature = quote(say.name(MODELS[0]), safe=""), quote(say.name(FEATURES[0]), safe="")
    one, many = (quote(asked, safe="") for asked in request_ids(hostile=True))
    return {
        "now": "/",
        "models": "/models",
        "model": f"/models/{model}?days=90",
        "feature": f"/features/{model}?name={feature}",
        "releases": "/releases",
        "refused": "/releases/7",
        "running": "/releases/10",
        "engines": "/engines",
        "audit": "/audit",
        "audit of its model": f"/audit?model={model}",
        "receipt": f"/receipts?id={one}",
        "receipt of many rows": f"/receipts?id={many}",
        "receipt of nothing": f"/receipts?id={one}0",
        "search": f"/models?q={model}",
        "nothing": f"/models/{feature}",
    }


@pytest.mark.parametrize("name", hostile_pages())
def test_texts_of_a_hostile_model_run_nothing_and_break_no_layout(
    browser: Browser, hostile_hub: str, name: str
) -> None:
    with opened(browser, hostile_hub + hostile_pages()[name], own=hostile_hub) as (page, heard):
        assert "owned" not in page.title().split("<")[0]
        assert page.locator("main script, main img, main [onload], main [onerror]").count() == 0
        assert "49" not in page.locator("h1").first.inner_text()
        assert page.locator("footer").inner_text().startswith("As of 1 Jun 2026")
        assert layout(page) == {}
        assert complaints(heard, name) == ([], [])


def test_the_pages_of_a_hostile_model_are_there(hostile_hub: str) -> None:
    for name, path in hostile_pages().items():
        answer = httpx.get(hostile_hub + path, headers={"accept": "text/html"})
        assert (name, answer.status_code) == (name, 404 if name in NOTHING else 200)


def test_a_refusal_is_understood_from_its_page_alone(browser: Browser, hub: str) -> None:
    with opened(browser, hub + "/releases/7", own=hub) as (page, _):
        text = page.locator("main").inner_text()
    for part in ("may not serve", "AUC 0.71 is 0.04 below", "says no", "What to do", "origin=EWR", "surely more than"):
        assert part in text, part


@pytest.mark.parametrize(
    ("compared", "said"),
    [(0, "Have clients ask the model while its canary runs"), (40, "tidegate compare m SERVING 2")],
)
def test_a_canary_that_refused_says_what_to_do(tmp_path: Path, compared: int, said: str) -> None:
    database = Database(f"sqlite:///{tmp_path}/hub.db")
    database.migrate()
    with database.writing() as session:
        row = ReleaseRow(model="m", version=2, source="api", requested_by="anna", requested_at=NOW)
        row.state, row.stage, row.finished_at = ReleaseState.REFUSED, "canary", NOW
        session.add(row)
        session.flush()
        found = {"outcome": "INCONCLUSIVE", "numbers": {"compared": compared}}
        session.add(ReleaseEventRow(release_id=row.id, at=NOW, stage="canary", kind="finding", text="", data=found))
    with serving(database) as address:
        text = httpx.get(f"{address}/releases/1", headers={"accept": "text/html"}, trust_env=False).text
    database.close()
    assert said in text
    assert "did not pass its canary" in text
    assert "may not serve" not in text


def test_a_page_works_without_script_and_by_keyboard(browser: Browser, hub: str) -> None:
    with opened(browser, hub + "/models", own=hub, java_script_enabled=False) as (page, _):
        page.get_by_role("searchbox", name="Name").fill("fraud")
        page.get_by_role("searchbox", name="Name").press("Enter")
        page.wait_for_url("**q=fraud**")
        assert page.locator("tbody tr").count() == 1
        page.get_by_role("link", name="fraud-scores").click()
        assert page.locator("h1").inner_text() == "fraud-scores"
    with opened(browser, hub + "/", own=hub) as (page, _):
        page.keyboard.press("Tab")
        skip = page.get_by_role("link", name="Skip to the content")
        assert skip.evaluate("one => one === document.activeElement && one.getBoundingClientRect().top >= 0")
        page.keyboard.press("Enter")
        assert page.evaluate("document.activeElement.id") == "content"


def test_a_release_is_watched_as_it_goes_on(browser: Browser, tmp_path: Path) -> None:
    database = world(tmp_path)
    with serving(database) as hub, opened(browser, hub + "/releases/10", own=hub) as (page, heard):
        eventually(lambda: page.locator(".live").inner_text() == "live")
        assert page.locator(".verdict .badge").first.inner_text() == "▸ running"
        with database.writing() as session:
            row = session.scalars(select(ReleaseRow).where(ReleaseRow.id == 10)).one()
            row.state, row.stage, row.finished_at = ReleaseState.RELEASED, "promote", NOW + timedelta(minutes=1)
            told = {"stage": "promote", "data": {"state": "RELEASED"}, "at": NOW}
            session.add(ReleaseEventRow(release_id=10, kind="state", text="flights:4 serves", **told))
            engine = {"engine": "north", "model": "flights"}
            for one in session.scalars(select(ServedVersionRow).filter_by(**engine)):
                one.ordinary = one.version == 4
        page.get_by_text("flights, version 4, serves").wait_for(timeout=60_000)
        assert "flights:4 serves" in page.locator(".log").inner_text()
        assert (heard.errors, heard.elsewhere) == ([], [])
    database.close()


def test_where_nothing_needs_a_person_no_box_touches_another(browser: Browser, tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/hub.db")
    database.migrate()
    with database.writing() as session:
        session.add(ModelRow(name="flights", team="", first_seen=NOW))
        session.add(EngineRow(name="a", addresses="x", state="UP", since=NOW, problem=""))
    with serving(database) as hub, opened(browser, hub, own=hub) as (page, _):
        numbers, calm = page.locator(".numbers").bounding_box(), page.get_by_text("No release waits").bounding_box()
        assert numbers is not None
        assert calm is not None
        assert calm["y"] - (numbers["y"] + numbers["height"]) > 12
        assert page.get_by_text("or when a program asks for it").is_visible()
    database.close()


def test_a_page_prints(browser: Browser, hub: str) -> None:
    with opened(browser, hub + "/releases/7", own=hub) as (page, _):
        page.emulate_media(media="print")
        assert not page.get_by_role("navigation", name="Pages").is_visible()
        assert page.locator("h1").is_visible()
        assert page.pdf().startswith(b"%PDF")


@pytest.mark.parametrize(
    ("path", "status", "said"),
    [
        ("/models/none", 404, "There is nothing here"),
        ("/releases/abc", 422, "number is &#39;abc&#39;"),
        ("/releases/99999", 404, "there is no release 99999"),
        ("/features/flights?name=none", 404, "has no window in the last 90 days"),
        ("/elsewhere", 404, "there is no page"),
    ],
)
def test_an_error_is_a_page_for_people_and_json_for_programs(hub: str, path: str, status: int, said: str) -> None:
    page = httpx.get(hub + path, headers={"accept": "text/html"})
    assert (page.status_code, page.headers["content-type"]) == (status, "text/html; charset=utf-8")
    assert said in page.text
    program = httpx.get(hub + path, headers={"accept": "application/json"})
    assert (program.status_code, program.headers["content-type"]) == (status, "application/json")
    assert program.json()["error"]["code"] == {404: "not_found", 422: "invalid_input"}[status]
    assert "default-src 'self'" in page.headers["content-security-policy"]


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"hello", "the request's body is no JSON: send what /api/openapi.json describes"),
        (b'{"version": 1}', "model is missing: send what /api/openapi.json describes"),
        (b'{"model": "m", "version": "x"}', "version is 'x': input should be a valid integer"),
        (b'{"model": "a/<b>", "version": 1}', "servable name 'a/<b>' cannot be used"),
    ],
)
def test_what_a_program_sends_wrong_is_an_error_as_every_other(hub: str, body: bytes, said: str) -> None:
    answer = httpx.post(f"{hub}/api/v1/releases", content=body, headers={"content-type": "application/json"})
    assert (answer.status_code, answer.json()["error"]["code"]) == (422, "invalid_input")
    assert answer.json()["error"]["message"].startswith(said)
    refused = httpx.put(f"{hub}/api/v1/releases")
    assert (refused.status_code, "allow" in refused.headers) == (405, True)
    assert refused.json()["error"] == {
        "code": "unsupported",
        "message": "PUT /api/v1/releases: method not allowed: see /api/openapi.json",
    }


def test_a_fault_of_the_hub_itself_is_an_error_as_every_other(tmp_path: Path) -> None:
    database = Database(f"sqlite:///{tmp_path}/hub.db")
    hub, access, _ = make_hub(database, AccessConfig())
    app = create_app(hub, [], access=access)
    add_pages(app, hub, lambda: NOW)

    @app.get("/faulty")
    def faulty() -> None:
        raise ZeroDivisionError

    with TestClient(app, "http://127.0.0.1:8600", raise_server_exceptions=False) as client:
        page = client.get("/faulty", headers={"accept": "text/html"})
        error = client.get("/faulty")
    said = "the hub failed at this (ZeroDivisionError): its log says where, so please report it"
    assert (error.status_code, error.json()) == (500, {"error": {"code": "internal", "message": said}})
    assert (page.status_code, said in page.text) == (500, True)
    database.close()


def test_the_audit_log_is_filtered_and_says_whether_it_is_whole(tmp_path: Path) -> None:
    database = world(tmp_path)

    def asked(hub: str, query: str) -> tuple[list[str], str]:
        text = httpx.get(f"{hub}/audit{query}", headers={"accept": "text/html"}).text
        return re.findall(r'<th scope="row" title="[0-9a-f]{64}">(\d+)</th>', text), text

    with serving(database) as hub:
        numbers, text = asked(hub, "")
        assert (numbers, "Lines 1 to 4 follow each other" in text) == (["4", "3", "2", "1"], True)
        found = ["?who=BEN", "?action=block", "?model=flights", "?outcome=failed", "?days=1", "?before=3", "?model=fl"]
        assert [asked(hub, one)[0] for one in found] == [["1"], ["3"], ["2", "1"], ["4"], [], ["2", "1"], []]
        lines = httpx.get(f"{hub}/api/v1/audit/export")
        assert 'filename="audit-000000000001-000000000004.jsonl"' in lines.headers["content-disposition"]
        assert [json.loads(line)["number"] for line in lines.text.splitlines()] == [1, 2, 3, 4]
        with database.writing() as session:
            session.get_one(AuditLineRow, 2).reason = "nothing to see"
        assert "Lines 1 to 4 follow each other" in asked(hub, "")[1], "it was checked a moment ago"
        assert "line 2 was changed" in asked(hub, "?check=1")[1]
    database.close()


def test_lists_are_paged_filtered_and_ordered(hub: str) -> None:
    def names(query: str) -> list[str]:
        text = httpx.get(f"{hub}/models{query}", headers={"accept": "text/html"}).text
        return re.findall(r'<th scope="row"><a class="name" href="/models/([^"]+)"', text)

    assert names("?sort=name") == sorted(MODELS)
    assert names("")[:2] == ["churn", "flights"]
    assert names("?state=NOT+SERVED") == ["spam"]
    assert names("?skew=FAIL") == ["flights"]
    assert names("?q=SCORES") == ["fraud-scores"]
    assert names("?q=%25") == []
    assert names("?page=99") == names("")
